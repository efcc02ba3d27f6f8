package main

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
		Short: "Write a run as JSON, to be imported elsewhere",
		Long: `Write a run as JSON, with its steps, flow state and unread signals: to look at a
production run on a laptop, or to keep it before a purge. It contains whatever
the run's payloads contain: treat it like the database.`,
		Example:           "  pawl runs export 0191a5c2-7e9a --children -o run.json\n  pawl runs export --id order-42 | pawl runs import --db sqlite:laptop.db",
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVarP(&path, "output", "o", "", "write into this `file`, which must not exist; - is the standard output")
	cmd.Flags().BoolVar(&children, "children", false, "with its children, and theirs")
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
				_ = os.Remove(path) // nothing of use is in it
				return err
			}
			return f.Close()
		}
		if _, _, terminal := a.size(); terminal {
			out := &visibleWriter{to: a.out}
			return errors.Join(eng.Export(ctx, out, id, opts...), out.Flush())
		}
		b := bufio.NewWriter(a.out) // payloads come back byte for byte, so that nothing is escaped
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
		Short: "Make the runs of an export",
		Long: `Make the runs of an export, with their ids, in this namespace. Final ones stay
final. The others are paused, so that no worker takes them up by accident: show
them, fork them, or let them go on with 'pawl runs resume', but never while the
original still runs: what it does would be done twice.

FILE - or none is the standard input.`,
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
					a.print("%s  there already, left alone\n", r.ID)
					continue
				}
				a.print("%s  %s\n", r.ID, a.paint(statusStyle(r.Status), r.Status.String()))
			}
			return err
		},
	}
}
