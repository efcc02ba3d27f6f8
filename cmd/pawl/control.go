package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// verb is an action on one run or on many.
type verb struct {
	name, done string // "cancel", "canceled"
	about      string
	example    string
	statuses   []store.Status // what it applies to, if many are selected without a status
	one        func(ctx context.Context, eng *engine.Engine, id store.ID) error
	many       func(eng *engine.Engine, ctx context.Context, f store.RunFilter, opts ...engine.BulkOption) (engine.Bulk, error)
}

var active = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	var force bool
	cmd := a.verbCommand(verb{
		name: "cancel", done: "canceled", statuses: active,
		about: `Cancel runs. Those that have recorded nothing end at once. The others are
canceling until their code has cleaned up: a worker that has one hears of it,
and one that waits is claimed once more. Children follow. What has completed or
failed cannot be canceled.

--force ends runs at once, also when a worker has them: for those that stay
canceling because their code does not stop. The worker loses the run and can
change it no more; its cleanup does not run, and what it does outside goes on
until it notices.`,
		example: `  pawl runs cancel 0191a5c2-7e9a --reason "ordered twice"
  pawl runs cancel --workflow import --status pending
  pawl runs cancel 0191a5c2-7e9a --force --reason "does not stop"`,
		one: func(ctx context.Context, eng *engine.Engine, id store.ID) error {
			if force {
				return eng.ForceCancel(ctx, id, reason)
			}
			return eng.Cancel(ctx, id, reason)
		},
		many: func(eng *engine.Engine, ctx context.Context, f store.RunFilter, opts ...engine.BulkOption) (engine.Bulk, error) {
			if force {
				return eng.ForceCancelMany(ctx, f, reason, opts...)
			}
			return eng.CancelMany(ctx, f, reason, opts...)
		},
	})
	cmd.Flags().StringVarP(&reason, "reason", "r", "canceled by pawl runs cancel", "`why`, which stays with the run")
	cmd.Flags().BoolVar(&force, "force", false, "end them at once, whoever has them, and without their cleanup")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "pause", done: "paused", statuses: []store.Status{store.Pending, store.Running, store.Sleeping},
		about: `Pause runs: they do not go on until they are resumed. A run that a worker has is
paused when the step that is under way has ended. Times go on, and signals wait.

New runs are kept back by 'pawl queues pause' and 'pawl workflows pause'.`,
		example: `  pawl runs pause 0191a5c2-7e9a
  pawl runs pause --queue mail`,
		one:  func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Pause(ctx, id) },
		many: (*engine.Engine).PauseMany,
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "resume", done: "resumed", statuses: []store.Status{store.Running, store.Paused},
		about:   "Resume paused runs: they go on as what they were.",
		example: "  pawl runs resume 0191a5c2-7e9a\n  pawl runs resume --status paused --workflow mail",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Resume(ctx, id) },
		many:    (*engine.Engine).ResumeMany,
	})
}

func (a *app) restartCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "restart", done: "restarted", statuses: []store.Status{store.Failed},
		about: `Restart failed or canceled runs: they go on from what they completed, and what
failed is tried again, without the old deadline.`,
		example: "  pawl runs restart 0191a5c2-7e9a\n  pawl runs restart --workflow mail --status failed --since 2h",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Restart(ctx, id) },
		many:    (*engine.Engine).RestartMany,
	})
}

// verbCommand makes the command of a verb: on runs by their ids, or on all that
// flags select.
func (a *app) verbCommand(v verb) *cobra.Command {
	m := many{a: a}
	var yes, all bool
	var most int64
	var suffix string
	title := strings.ToUpper(v.name[:1]) + v.name[1:]
	cmd := &cobra.Command{
		Use:   v.name + " [RUN...] [flags]",
		Short: title + " runs",
		Long: v.about + `

Name the runs, or select them by flags; then their number is shown, and it asks
before anything is done. What was done stays done when it is interrupted, and
the same command goes on with the rest.`,
		Example:           v.example,
		ValidArgsFunction: a.completeArgs(0, runIDs),
	}
	m.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&suffix, "suffix", "", "with --id: the idempotency `suffix`; then the active run of both is meant")
	f.BoolVar(&all, "all", false, "all runs of the namespace that this applies to")
	f.Int64Var(&most, "at-most", 0, "`number` of runs after which it ends")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && (m.given() || all || suffix != ""):
			return errors.New("runs are either named or selected by flags, not both")
		case len(args) == 0 && !m.given() && !all:
			return errors.New("no run is named: give ids of runs, or flags that select some, or --all")
		case suffix != "" && m.externalID == "":
			return errors.New("--suffix needs --id")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if len(args) > 0 || suffix != "" {
			return a.doEach(ctx, eng, v, args, m.externalID, suffix)
		}
		filter, err := m.filter(ctx, eng)
		if err != nil {
			return err
		}
		if len(filter.Statuses) == 0 {
			if err := m.checkEnds(v.statuses); err != nil {
				return err
			}
			filter.Statuses = v.statuses
		}
		counts, err := eng.Store().Count(ctx, store.CountParams{Namespace: eng.Namespace(), Filter: filter, MaxScan: store.ScanAll})
		if err != nil {
			return err
		}
		var n int64
		for _, c := range counts {
			n += c.Count
		}
		if n == 0 {
			if err := m.none(ctx, eng, filter); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(bulkJSON{})
			}
			a.note("There are %s in namespace %q: nothing was done.\n", m.says(filter.Statuses, 0), eng.Namespace())
			return nil
		}
		if most > 0 {
			n = min(n, most)
		}
		if err := a.confirm(yes, "%s %s in namespace %q?", title, m.says(filter.Statuses, n), eng.Namespace()); err != nil {
			return err
		}
		var opts []engine.BulkOption
		if most > 0 {
			opts = append(opts, engine.AtMost(most))
		}
		if _, _, terminal := a.size(); terminal && !a.json {
			opts = append(opts, engine.Report(func(b engine.Bulk) {
				fmt.Fprintf(a.err, "\r%s of %s %s", group3(b.Done+b.Skipped), group3(n), v.done)
			}))
			defer a.note("\n")
		}
		done, err := v.many(eng, ctx, filter, opts...)
		if a.json {
			err = errors.Join(a.printJSON(bulkJSON{done.Done, done.Skipped, done.Canceling}), err)
		} else if err == nil {
			a.print("%s %s %s", group3(done.Done), plural(done.Done, "run"), v.done)
			if done.Canceling > 0 {
				a.print(" (canceling: %s will clean up)", group3(done.Canceling))
			}
			if done.Skipped > 0 {
				a.print(", %s left out, for they had ended or changed before", group3(done.Skipped))
			}
			a.print("\n")
		}
		return err
	}
	return cmd
}

type bulkJSON struct {
	Done    int64 `json:"done"`
	Skipped int64 `json:"skipped"`
	// Canceling counts those of Done that are to clean up before they are final.
	Canceling int64 `json:"canceling,omitempty"`
}

// doEach does a verb to runs by name. It goes on behind one that fails; the exit
// code is that of the first.
func (a *app) doEach(ctx context.Context, eng *engine.Engine, v verb, args []string, externalID, suffix string) error {
	type result struct {
		ID     *store.ID     `json:"id,omitempty"`
		Run    string        `json:"run"` // as it was named
		Status *store.Status `json:"status,omitempty"`
		Error  string        `json:"error,omitempty"`
	}
	var results []result
	var first error
	do := func(name string, find func() (store.ID, error)) {
		res := result{Run: name}
		id, err := find()
		if err == nil {
			res.ID = &id
			err = v.one(ctx, eng, id)
		}
		var run store.Run
		if err == nil {
			if run, err = eng.Get(ctx, id); err == nil {
				res.Status = &run.Status
			}
		}
		switch {
		case err != nil:
			res.Error = err.Error()
			if first == nil {
				first = err
			} else if !a.json {
				a.note("pawl: %v\n", err)
			}
		case !a.json:
			a.print("%s  %s\n", id, a.paint(statusStyle(run.Status), a.becomes(v, run)))
		}
		results = append(results, res)
	}
	if suffix != "" {
		do(externalID, func() (store.ID, error) { run, err := eng.Find(ctx, externalID, suffix); return run.ID, err })
	}
	for _, arg := range args {
		do(arg, func() (store.ID, error) { return a.runID(ctx, eng, arg) })
	}
	if a.json {
		if err := a.printJSON(struct {
			Results []result `json:"results"`
		}{results}); err != nil {
			return err
		}
	}
	return first
}

// becomes says what a run is after a verb.
func (a *app) becomes(v verb, run store.Run) string {
	switch {
	case run.Pausing:
		return run.Status.String() + ", to be paused when the step under way has ended"
	case run.Status == store.Canceling && run.Worker == "":
		return "canceling: it will clean up when a worker claims it"
	case run.Status == store.Canceling:
		return "canceling: its worker " + clean(run.Worker) + " is to stop"
	}
	return run.Status.String()
}

func (a *app) forkCommand() *cobra.Command {
	o := one{a: a}
	var from string
	var position int64
	var newID string
	cmd := &cobra.Command{
		Use:   "fork RUN [flags]",
		Short: "Make a new run from a step of another",
		Long: `Make a new run out of a run of any status: same workflow, queue, priority and
input, and the outcomes of the steps that had completed before --from. That step
and what follows is run anew. Without --from all completed steps are kept. The
old run is left alone. A step is named as 'pawl runs show' does: charge, charge#2
for the second use of the name, branch/charge in a branch.`,
		Example:           "  pawl runs fork 0191a5c2-7e9a --from ship",
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&from, "from", "", "`step` that is run again, with all that follows")
	f.Int64Var(&position, "from-position", 0, "the same by the step's position, as --json shows it")
	f.StringVar(&newID, "run-id", "", "the new run's `id`, so that the command can be repeated safely")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, _, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		opts := []engine.ForkOption{engine.FromStep(from), engine.FromPosition(position)}
		if newID != "" {
			own, err := store.ParseID(newID)
			if err != nil {
				return err
			}
			opts = append(opts, engine.ForkID(own))
		}
		forked, err := eng.Fork(ctx, id, opts...)
		if err != nil {
			return err
		}
		keys := func(list []store.StepKey) []string { return each(list, store.StepKey.String) }
		if a.json {
			return a.printJSON(struct {
				ID    store.ID `json:"id"`
				Kept  []string `json:"kept"`
				Again []string `json:"again"`
			}{forked.ID, keys(forked.Kept), keys(forked.Again)})
		}
		a.print("%s\n", forked.ID)
		tell := func(what string, list []store.StepKey) {
			names := keys(list)
			if len(names) > 8 {
				names = append(slices.Clone(names[:8]), fmt.Sprintf("%d more", len(names)-8))
			}
			if len(names) > 0 {
				a.note("%s: %s\n", what, clean(strings.Join(names, ", ")))
			}
		}
		tell("kept", forked.Kept)
		tell("run again", forked.Again)
		return nil
	}
	return cmd
}
