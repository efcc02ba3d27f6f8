package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) exportCommand() *cobra.Command {
	o := one{a: a}
	var path string
	var children bool
	cmd := &cobra.Command{
		Use:   "export RUN [flags]",
		Short: "Write a run as JSON, for import elsewhere",
		Long: `Write a run as JSON, with its steps, flow state and unread signals. Use an export
to examine a production run on another machine, or to keep a copy before a purge.
The export contains the run's payloads; protect it like the database.`,
		Example:           "  pawl runs export 0191a5c2-7e9a --children -o run.json\n  pawl runs export --external-id order-42 | pawl runs import --db sqlite:laptop.db",
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVarP(&path, "output", "o", "", "write to this new `file`; - means standard output")
	cmd.Flags().BoolVar(&children, "children", false, "include children and their descendants")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		ctx := cmd.Context()
		eng, id, _, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		var opts []engine.ExportOption
		if children {
			opts = append(opts, engine.WithChildren())
		}
		if path != "" && path != "-" {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return usage("--output: %v", err)
			}
			if err := eng.Export(ctx, f, id, opts...); err != nil {
				_ = f.Close()
				_ = os.Remove(path) // it is incomplete
				return err
			}
			return f.Close()
		}
		if _, _, terminal := a.size(); terminal {
			out := &visibleWriter{to: a.out}
			return errors.Join(eng.Export(ctx, out, id, opts...), out.Flush())
		}
		b := bufio.NewWriter(a.out) // not escaped: an import reads the payloads byte for byte
		if err := eng.Export(ctx, b, id, opts...); err != nil {
			return err
		}
		return b.Flush()
	}
	return cmd
}

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import the runs of an export",
		Long: `Import the runs of an export into this namespace, with their ids. Final runs stay
final. All others are paused, so that no worker executes them by accident. You
can show them, fork them, or continue them with 'pawl runs resume'. Do not resume
a run while the original is still active: its steps would run twice.

Without FILE, or if FILE is -, the command reads standard input.`,
		Example: "  pawl migrate up --db sqlite:laptop.db\n  pawl runs import run.json --db sqlite:laptop.db",
		Args:    between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var in io.Reader = a.in
			if len(args) > 0 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage("%v", err)
				}
				defer func() { _ = f.Close() }()
				in = f
			}
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			if err := eng.Record(ctx, "import", "runs", strings.Join(args, " ")); err != nil {
				return err
			}
			runs, err := eng.Import(ctx, in)
			if a.json {
				type row struct {
					ID       store.ID     `json:"id"`
					Status   store.Status `json:"status"`
					Existing bool         `json:"existing"`
				}
				printed := a.printJSON(struct {
					Runs []row `json:"runs"`
				}{each(runs, func(r engine.Imported) row { return row{r.ID, r.Status, r.Existing} })})
				if err == nil {
					err = printed
				}
				return err
			}
			for _, r := range runs {
				if r.Existing {
					a.print("%s  already exists, not changed\n", r.ID)
					continue
				}
				a.print("%s  %s\n", r.ID, a.paint(statusStyle(r.Status), r.Status.String()))
			}
			return err
		},
	}
}
