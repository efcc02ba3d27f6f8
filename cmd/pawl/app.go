package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// world is what surrounds the program.
type world struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	who      func() string // the user and the host, for the record
	now      func() time.Time
	zone     *time.Location
	open     func(ctx context.Context, url string) (store.Store, error)
	verbose  func()                              // lets the library's logs through
	asks     bool                                // somebody sits at in
	size     func() (width, height int, ok bool) // of out; false: it is no terminal
	raw      func() (restore func(), err error)  // makes in tell each key
}

// app is one call of the program.
type app struct {
	world
	db, namespace string
	color         string
	json          bool
	logs          bool
	patience      time.Duration

	began bool // flags and arguments were understood
	store store.Store
	eng   *engine.Engine
}

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, w world, args []string) int {
	a := &app{world: w}
	cmd := a.root()
	cmd.SetArgs(args)
	cmd.SetIn(w.in)
	cmd.SetOut(w.out)
	cmd.SetErr(w.err)
	at, err := cmd.ExecuteContextC(ctx)
	a.close()
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return exitInterrupted
	}
	code := exitCode(err)
	if !a.began {
		code = exitUsage
	}
	if text := err.Error(); text != "" {
		a.note("pawl: %s\n", strings.TrimSpace(text))
		if !a.began {
			fmt.Fprintf(w.err, "Run '%s --help' for what it takes.\n", at.CommandPath())
		}
	}
	return code
}

func (a *app) close() {
	if a.eng != nil {
		a.eng.Close()
	}
	if a.store != nil {
		_ = a.store.Close()
	}
}

const about = `Pawl shows, steers and repairs runs of durable workflows, on any of the
databases that the library works on.

The database is named by --db or, better for what holds a password, by the
environment variable PAWL_DB:

  sqlite:pawl.db
  postgres://user:password@host:5432/database?schema=pawl
  libsql://name-org.turso.io?authToken=...

No command but "migrate up" changes the database's schema.

RUN is a run's id or a prefix of it that no other run has. With --id, a run is
named by its external id instead.

` + exitCodes

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Show, steer and repair runs of durable workflows",
		Long:          about,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			switch a.color {
			case "auto", "always", "never":
			default:
				return usage("--color %q is none of auto, always, never", a.color)
			}
			a.began = true
			if a.logs && a.verbose != nil {
				a.verbose()
			}
			return nil
		},
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	cobra.EnableCommandSorting = false
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.db, "db", "", "`URL` of the database (default: PAWL_DB)")
	f.StringVarP(&a.namespace, "namespace", "n", "", "`name` of the namespace (default: PAWL_NAMESPACE, else \"default\")")
	f.BoolVar(&a.json, "json", false, "write JSON, for programs")
	f.StringVar(&a.color, "color", "auto", "`when` to use colours: auto, always, never (NO_COLOR counts, too)")
	f.DurationVar(&a.patience, "connect-timeout", 10*time.Second, "`time` that connecting may take")
	f.BoolVarP(&a.logs, "verbose", "v", false, "write what the library logs to the standard error")
	a.complete(root, "color", func(context.Context, *engine.Engine, string) ([]string, error) {
		return []string{"auto", "always", "never"}, nil
	})
	a.complete(root, "namespace", nil)

	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "work", Title: "Who works on what:"}, &cobra.Group{ID: "db", Title: "The database:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("runs", a.runsCommand(), a.schedulesCommand(), a.topCommand())
	add("work", a.workersCommand(), a.queuesCommand(), a.workflowsCommand(), a.actionsCommand())
	add("db", a.migrateCommand(), a.doctorCommand(), a.purgeCommand())
	root.AddCommand(a.versionCommand())
	return root
}

// Cobra's templates, with what is of use here.
const (
	helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`
	usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{end}}

Others:{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of all commands:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Run '{{.CommandPath}} COMMAND --help' for more about a command.{{end}}
`
)

// group makes a command that only holds others.
func group(use, short, long string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := fmt.Sprintf("there is no command %q in %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			text += "; did you mean " + strings.Join(like, " or ") + "?"
		}
		return usage("%s Run '%s --help' for those that there are.", text, cmd.CommandPath())
	}
	c.AddCommand(cmds...)
	return c
}

// url is the database's, with the parameter that says whether to migrate it.
func (a *app) url(migrate bool) (string, error) {
	db := a.db
	if db == "" {
		db = a.getenv("PAWL_DB")
	}
	if db == "" {
		return "", usage("no database is named: give --db URL, or set PAWL_DB; a URL looks like sqlite:pawl.db, postgres://user:password@host/database or libsql://name-org.turso.io?authToken=...")
	}
	base, query, _ := strings.Cut(db, "?")
	named := strings.Contains(query, "application_name=") || !strings.HasPrefix(base, "postgres") || a.getenv("PGAPPNAME") != ""
	params := slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return p == "" || name == "migrate"
	})
	if !named {
		params = append(params, "application_name=pawl-cli")
	}
	return base + "?" + strings.Join(append(params, fmt.Sprintf("migrate=%v", migrate)), "&"), nil
}

// where names the database without any secret.
func (a *app) where() string {
	db, err := a.url(false)
	if err != nil {
		return "no database"
	}
	base, _, _ := strings.Cut(db, "?")
	if u, err := url.Parse(base); err == nil {
		return u.Redacted()
	}
	scheme, _, _ := strings.Cut(base, ":")
	return scheme + " database"
}

func (a *app) space() string {
	switch {
	case a.namespace != "":
		return a.namespace
	case a.getenv("PAWL_NAMESPACE") != "":
		return a.getenv("PAWL_NAMESPACE")
	}
	return engine.DefaultNamespace
}

// engine opens the database. Its schema stays as it is.
func (a *app) engine(ctx context.Context) (*engine.Engine, error) {
	if a.eng != nil {
		return a.eng, nil
	}
	if err := store.ValidateName("namespace", a.space()); err != nil {
		return nil, err
	}
	db, err := a.url(false)
	if err != nil {
		return nil, err
	}
	if a.store, err = a.openStore(ctx, db); err != nil {
		return nil, err
	}
	a.eng = engine.New(a.store, engine.Namespace(a.space()), engine.RetryFor(5*time.Second), engine.Actor(a.actor()))
	return a.eng, nil
}

// actor is who is recorded to have done what this call does.
func (a *app) actor() string {
	name := strings.TrimSpace(clean(a.who()))
	if len(name) > store.MaxName {
		name = strings.ToValidUTF8(name[:store.MaxName], "")
	}
	return name
}

func (a *app) openStore(ctx context.Context, db string) (store.Store, error) {
	bounded, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	st, err := a.open(bounded, db)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%s did not answer within %v (--connect-timeout): %w", a.where(), a.patience, store.ErrUnavailable)
	}
	return st, err
}

// print writes text for people.
func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note writes what is not a result, and does not belong into a pipe. What it
// quotes, such as the text of an error, cannot steer the terminal.
func (a *app) note(format string, args ...any) {
	_, _ = a.err.Write(visible(fmt.Appendf(nil, format, args...)))
}

// printJSON writes a value for programs.
func (a *app) printJSON(v any) error { return a.encode(v, "  ") }

// printLine writes a value for programs that read lines.
func (a *app) printLine(v any) error { return a.encode(v, "") }

// encode writes JSON in which every control character is escaped: encoding/json
// leaves DEL and the C1 controls of a payload as they are.
func (a *app) encode(v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(visible(b.Bytes()))
	return err
}

// confirm asks before something that cannot be undone, unless yes was said.
func (a *app) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if !a.asks {
		return usage("%s Nobody can be asked here: say --yes if it is meant.", question)
	}
	a.note("%s [y/N] ", question)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && line == "" {
		a.note("\n")
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &codedError{exitFailed, errors.New("nothing was done")}
}

// complete lets the shell complete a flag's value by asking the engine.
func (a *app) complete(cmd *cobra.Command, flag string, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begins string) ([]string, cobra.ShellCompDirective) {
		return a.suggest(cmd, begins, ask), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

// completeArgs is the same for arguments, of which there may be so many.
func (a *app) completeArgs(most int, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begins string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.suggest(cmd, begins, ask), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionTime bounds what a press of the tab key may take.
const completionTime = 2 * time.Second

func (a *app) suggest(cmd *cobra.Command, begins string, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) []string {
	if ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	a.patience = completionTime
	eng, _ := a.engine(ctx) // nil: what needs none is completed all the same
	list, err := ask(ctx, eng, begins)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(s string) bool { return !strings.HasPrefix(s, begins) })
}
