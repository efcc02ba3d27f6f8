package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/store"
)

func (a *app) doctorCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find problems and suggest fixes",
		Long: `Check the connection to the database, its schema and health, and the workers and
runs of the namespace. Report problems and suggest fixes. Nothing is changed.

The exit code is 1 if a fault is found, and 0 otherwise. With --strict, it is 1 on
a warning too.`,
		Example: "  pawl doctor\n  pawl doctor --json | jq '.findings[] | select(.level!=\"ok\")'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 1 on a warning too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := a.url(false); err != nil {
			return err
		}
		if err := store.ValidateName("namespace", a.space()); err != nil {
			return err
		}
		d := doctor{app: a}
		if err := d.examine(cmd.Context()); err != nil {
			return err
		}
		worst := store.Fine
		for _, f := range d.findings {
			worst = max(worst, f.Level)
		}
		if a.json {
			type findingJSON struct {
				Name   string      `json:"name"`
				Level  store.Level `json:"level"`
				Seen   string      `json:"seen"`
				Advice string      `json:"advice,omitempty"`
			}
			err := a.printJSON(struct {
				Worst    store.Level   `json:"worst"`
				Findings []findingJSON `json:"findings"`
			}{worst, each(d.findings, func(f store.Finding) findingJSON { return findingJSON(f) })})
			if err != nil {
				return err
			}
		} else {
			a.printFindings(d.findings)
		}
		if worst == store.Fault || strict && worst == store.Warning {
			return &codedError{code: exitFailed}
		}
		return nil
	}
	return cmd
}

func (a *app) printFindings(list []store.Finding) {
	counts := map[store.Level]int{}
	for _, f := range list {
		counts[f.Level]++
		st := map[store.Level]style{store.Fine: green, store.Warning: yellow, store.Fault: red}[f.Level]
		a.print("%s  %s  %s\n", a.paint(st, fmt.Sprintf("%-7s", f.Level)), fmt.Sprintf("%-12s", f.Name), clean(f.Seen))
		if f.Advice != "" {
			for i, line := range wrap(clean(f.Advice), 76) {
				arrow := "   "
				if i == 0 {
					arrow = "-> "
				}
				a.print("%s%s\n", strings.Repeat(" ", 9), arrow+line)
			}
		}
	}
	a.print("\n%d checks: %d %s, %d %s\n", len(list), counts[store.Fault], plural(int64(counts[store.Fault]), "fault"), counts[store.Warning], plural(int64(counts[store.Warning]), "warning"))
}

// wrap breaks text into lines.
func wrap(s string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// doctor collects findings.
type doctor struct {
	*app
	findings []store.Finding
}

func (d *doctor) found(name string, level store.Level, advice, seen string, args ...any) {
	d.findings = append(d.findings, store.Finding{Name: name, Level: level, Advice: advice, Seen: fmt.Sprintf(seen, args...)})
}

// examine makes the checks in order. It stops early if a failed check makes the rest
// impossible. It returns an error only if it is interrupted.
func (d *doctor) examine(ctx context.Context) error {
	began := d.now()
	schema, err := d.schema(ctx)
	switch {
	case errors.Is(err, store.ErrUnsupported):
		return d.examineStore(ctx, func() {
			seen := d.where()
			if v := d.store.Features().Version; v != "" {
				seen += ", " + v
			}
			d.found("connection", store.Fine, "", "%s, in %s", seen, span(d.now().Sub(began)))
			d.found("schema", store.Fine, "", "this backend does not use schema versions")
		}, "connection")
	case err != nil:
		return d.broken(ctx, "connection", err)
	}
	d.found("connection", store.Fine, "", "%s, in %s", schema.Place, span(d.now().Sub(began)))
	switch {
	case schema.Version == 0:
		d.found("schema", store.Fault, "run pawl migrate up; if the tables are in another database or schema, correct the URL", "Pawl's tables do not exist")
		return nil
	case schema.Version < schema.Newest:
		d.found("schema", store.Fault, fmt.Sprintf("run pawl migrate up, or apply the output of pawl migrate sql --since %d", schema.Version), "version %d is too old; this program needs version %d", schema.Version, schema.Newest)
		return nil
	case !schema.Usable():
		d.found("schema", store.Fault, "upgrade pawl and your programs", "version %d is too new: it needs programs that know version %d or later, and this program knows versions up to %d",
			schema.Version, schema.Minimum, schema.Newest)
		return nil
	case schema.Version > schema.Newest:
		d.found("schema", store.Fine, "", "version %d; programs that know version %d or later can use it, and this program knows version %d", schema.Version, schema.Minimum, schema.Newest)
	default:
		d.found("schema", store.Fine, "", "version %d, the newest", schema.Version)
	}
	return d.examineStore(ctx, func() {}, "store")
}

// examineStore opens the store, calls opened, and makes the checks that need a store. If
// the store cannot be opened, the finding has the name what.
func (d *doctor) examineStore(ctx context.Context, opened func(), what string) error {
	eng, err := d.engine(ctx)
	if err != nil {
		return d.broken(ctx, what, err)
	}
	opened()
	list, err := eng.Doctor(ctx, d.now)
	d.findings = append(d.findings, list...)
	return err
}

// broken reports an error as a finding.
func (d *doctor) broken(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	advice := ""
	var invalid *store.InvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Field == "database URL":
		advice = "correct --db or PAWL_DB"
	case store.Retryable(err):
		advice = "check that the server is running and that this machine can reach it, then try again"
	}
	d.found(name, store.Fault, advice, "%v", err)
	return nil
}

func few(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], ", ") + fmt.Sprintf(" and %d more", len(list)-5)
	}
	return strings.Join(list, ", ")
}
