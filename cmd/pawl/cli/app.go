package cli

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

// world is the environment of the program; tests replace it.
type world struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	who      func() string // user and host, for the record of actions
	now      func() time.Time
	zone     *time.Location
	open     func(ctx context.Context, url string) (store.Store, error)
	verbose  func()                              // enables the library's log
	asks     bool                                // in is a terminal
	size     func() (width, height int, ok bool) // of out; ok is false if out is not a terminal
	raw      func() (restore func(), err error)  // switches in to single keys
}

// app is one invocation of the program.
type app struct {
	world
	db, namespace string
	color         string
	json          bool
	logs          bool
	patience      time.Duration

	began bool // flags and arguments are valid
	store store.Store
	eng   *engine.Engine
}

// run executes the command line args and returns the exit code.
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
			fmt.Fprintf(w.err, "Run '%s --help' for usage.\n", at.CommandPath())
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

const about = `Pawl shows, controls and repairs runs of durable workflows, on any database that
the library supports.

Name the database with --db, or with the environment variable PAWL_DB, which is
better for a URL that contains a password:

  sqlite:pawl.db
  postgres://user:password@host:5432/database?schema=pawl
  libsql://name-org.turso.io?authToken=...

Only "migrate up" changes the schema of the database.

RUN is the id of a run, or a prefix of it that is unique. With --external-id, name
the run by its external id instead.

` + exitCodes

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Show, control and repair runs of durable workflows",
		Long:          about,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			switch a.color {
			case "auto", "always", "never":
			default:
				return usage("invalid --color %q; want auto, always or never", a.color)
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
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.StringVar(&a.color, "color", "auto", "`when` to use colors: auto, always or never (auto respects NO_COLOR)")
	f.DurationVar(&a.patience, "connect-timeout", 10*time.Second, "`time` limit for connecting to the database")
	f.BoolVarP(&a.logs, "verbose", "v", false, "print the library's log to standard error")
	a.complete(root, "color", func(context.Context, *engine.Engine, string) ([]string, error) {
		return []string{"auto", "always", "never"}, nil
	})
	a.complete(root, "namespace", nil)

	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "work", Title: "Workers and queues:"}, &cobra.Group{ID: "db", Title: "Database:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("runs", a.runsCommand(), a.schedulesCommand(), a.topCommand(), a.serveCommand())
	add("work", a.workersCommand(), a.queuesCommand(), a.workflowsCommand(), a.limitsCommand(), a.buildsCommand(), a.webhooksCommand(), a.actionsCommand())
	add("db", a.migrateCommand(), a.doctorCommand(), a.purgeCommand())
	root.AddCommand(a.versionCommand())
	return root
}

// Cobra's templates, reduced and adapted.
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

Other commands:{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Run '{{.CommandPath}} COMMAND --help' for details of a command.{{end}}
`
)

// group returns a command that only contains other commands.
func group(use, short, long string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			text += "; did you mean " + strings.Join(like, " or ")
		}
		return usage("%s. Run '%s --help' for a list.", text, cmd.CommandPath())
	}
	c.AddCommand(cmds...)
	return c
}

// url returns the URL of the database, with the parameter migrate set.
func (a *app) url(migrate bool) (string, error) {
	db := a.db
	if db == "" {
		db = a.getenv("PAWL_DB")
	}
	if db == "" {
		return "", usage("no database given: use --db URL or set PAWL_DB, for example sqlite:pawl.db, postgres://user:password@host/database or libsql://name-org.turso.io?authToken=...")
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

// where returns the URL of the database without secrets.
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

// engine opens the database without migrating it.
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
	a.eng = engine.New(a.store, engine.Namespace(a.space()), engine.RetryFor(5*time.Second), engine.Actor(a.actor()), engine.From("cli"))
	return a.eng, nil
}

// actor returns the actor to record for the actions of this invocation.
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

// print writes text to standard output.
func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note writes a message to standard error. It escapes control characters in what
// it quotes, such as the text of an error.
func (a *app) note(format string, args ...any) {
	_, _ = a.err.Write(visible(fmt.Appendf(nil, format, args...)))
}

// printJSON writes v as indented JSON.
func (a *app) printJSON(v any) error { return a.encode(v, "  ") }

// printLine writes v as JSON in one line.
func (a *app) printLine(v any) error { return a.encode(v, "") }

// encode writes v as JSON with every control character escaped. encoding/json does
// not escape DEL and the C1 controls.
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

// confirm asks the user to confirm, unless yes is true.
func (a *app) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if !a.asks {
		return usage("%s Not a terminal; pass --yes to confirm.", question)
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
	return &codedError{exitFailed, errors.New("not confirmed; nothing was changed")}
}

// complete registers shell completion for a flag; ask lists its values.
func (a *app) complete(cmd *cobra.Command, flag string, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begins string) ([]string, cobra.ShellCompDirective) {
		return a.suggest(cmd, begins, ask), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

// completeArgs completes arguments, at most that many if most is positive.
func (a *app) completeArgs(most int, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begins string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.suggest(cmd, begins, ask), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionTime limits the time of one completion.
const completionTime = 2 * time.Second

func (a *app) suggest(cmd *cobra.Command, begins string, ask func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)) []string {
	if ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	a.patience = completionTime
	eng, _ := a.engine(ctx) // nil on failure; some lists need no engine
	list, err := ask(ctx, eng, begins)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(s string) bool { return !strings.HasPrefix(s, begins) })
}
