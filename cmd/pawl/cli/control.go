package cli

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

// verb is an action on one run or on many runs.
type verb struct {
	name, done string // "cancel", "canceled"
	about      string
	example    string
	statuses   []store.Status         // default for runs that are selected without a status
	narrow     func(*store.RunFilter) // of the selected runs, those that the action is for; nil: all
	one        func(ctx context.Context, eng *engine.Engine, id store.ID) error
	many       func(eng *engine.Engine, ctx context.Context, f store.RunFilter, opts ...engine.BulkOption) (engine.Bulk, error)
}

func (v verb) title() string { return strings.ToUpper(v.name[:1]) + v.name[1:] }

var active = []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	var force bool
	cmd := a.verbCommand(verb{
		name: "cancel", done: "canceled", statuses: active,
		about: `Cancel runs. A run that has recorded nothing ends at once. Any other run is
canceling until its code has cleaned up: the worker that holds the run cleans up,
or a worker claims the run to do so. Children are canceled too. A run that has
completed or failed cannot be canceled.

--force ends runs at once, even if a worker holds them. Use it for runs that stay
canceling because their code does not stop. The worker loses the run and can no
longer change it. The run's cleanup does not run. Its code may still cause side
effects until the worker notices.`,
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
	cmd.Flags().StringVarP(&reason, "reason", "r", "canceled by pawl runs cancel", "`reason`, stored with the run")
	cmd.Flags().BoolVar(&force, "force", false, "end the runs at once, without their cleanup, even if a worker holds them")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "pause", done: "paused", statuses: []store.Status{store.Pending, store.Running, store.Sleeping},
		about: `Pause runs until they are resumed. A run that a worker holds is paused after its
current step ends. Timers continue to run, and signals wait.

To hold back new runs, use 'pawl queues pause' or 'pawl workflows pause'.`,
		example: `  pawl runs pause 0191a5c2-7e9a
  pawl runs pause --queue mail`,
		one:  func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Pause(ctx, id) },
		many: (*engine.Engine).PauseMany,
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "resume", done: "resumed", statuses: []store.Status{store.Running, store.Paused},
		about:   "Resume paused runs. Each returns to the state in which it was paused.",
		example: "  pawl runs resume 0191a5c2-7e9a\n  pawl runs resume --status paused --workflow mail",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Resume(ctx, id) },
		many:    (*engine.Engine).ResumeMany,
	})
}

func (a *app) restartCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "restart", done: "restarted", statuses: []store.Status{store.Failed},
		about: `Restart failed or canceled runs. A run keeps the steps that completed, and retries
what failed. Its old deadline no longer applies.`,
		example: "  pawl runs restart 0191a5c2-7e9a\n  pawl runs restart --workflow mail --status failed --since 2h",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Restart(ctx, id) },
		many:    (*engine.Engine).RestartMany,
	})
}

// verbCommand returns the command for a verb, which applies to runs named by id or
// selected by flags.
func (a *app) verbCommand(v verb) *cobra.Command {
	m := many{a: a}
	var yes, all bool
	var most int64
	var suffix string
	cmd := &cobra.Command{
		Use:   v.name + " [RUN...] [flags]",
		Short: v.title() + " runs",
		Long: v.about + `

Name the runs, or select them with flags. Runs selected with flags are counted
first, and you are asked to confirm. If the command is interrupted, the runs that
it has changed stay changed; repeat it to change the rest.`,
		Example:           v.example,
		ValidArgsFunction: a.completeArgs(0, runIDs),
	}
	m.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&suffix, "suffix", "", "with --external-id: select the active run with this idempotency `suffix`")
	f.BoolVar(&all, "all", false, "select all runs of the namespace that the command can change")
	f.Int64Var(&most, "at-most", 0, "stop after this `number` of runs")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && (m.given() || all || suffix != ""):
			return errors.New("name runs or select them with flags, not both")
		case len(args) == 0 && !m.given() && !all:
			return errors.New("no run given: pass run ids, flags that select runs, or --all")
		case suffix != "" && m.externalID == "":
			return errors.New("--suffix requires --external-id")
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
		return m.do(ctx, eng, v, most, yes)
	}
	return cmd
}

// do applies a verb to the selected runs. A positive most limits their number. It asks for
// confirmation unless yes is true.
func (m *many) do(ctx context.Context, eng *engine.Engine, v verb, most int64, yes bool) error {
	a := m.a
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
	if v.narrow != nil {
		v.narrow(&filter)
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
		a.note("Found %s in namespace %q. Nothing was changed.\n", m.says(filter.Statuses, 0), eng.Namespace())
		return nil
	}
	if most > 0 {
		n = min(n, most)
	}
	if err := a.confirm(yes, "%s %s in namespace %q?", v.title(), m.says(filter.Statuses, n), eng.Namespace()); err != nil {
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
			a.print(" (%s still cleaning up)", group3(done.Canceling))
		}
		if done.Skipped > 0 {
			a.print(", %s skipped because they ended or changed meanwhile", group3(done.Skipped))
		}
		a.print("\n")
	}
	return err
}

type bulkJSON struct {
	Done    int64 `json:"done"`
	Skipped int64 `json:"skipped"`
	// Canceling counts the runs in Done that must clean up before they are final.
	Canceling int64 `json:"canceling,omitempty"`
}

// doEach applies a verb to the named runs. If one fails, it continues with the next;
// the error returned is the first one.
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
		do(externalID, func() (store.ID, error) {
			run, err := eng.Find(ctx, externalID, engine.FindSuffix(suffix))
			return run.ID, err
		})
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

// becomes describes the state of a run after a verb.
func (a *app) becomes(v verb, run store.Run) string {
	switch {
	case run.Pausing:
		return run.Status.String() + ", pauses after the current step"
	case run.Status == store.Canceling && run.Worker == "":
		return "canceling: a worker will claim it to clean up"
	case run.Status == store.Canceling:
		return "canceling: waiting for worker " + clean(run.Worker) + " to stop"
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
		Short: "Start a new run from a step of an existing run",
		Long: `Start a new run from an existing run, whatever its status. The new run has the
same workflow, queue, priority and input. It keeps the results of the steps that
completed before --from, and executes that step and all later ones again. Without
--from, it keeps all completed steps. The old run does not change.

Name the step as 'pawl runs show' prints it: charge, charge#2 for the second use
of the name, or branch/charge in a branch.`,
		Example:           "  pawl runs fork 0191a5c2-7e9a --from ship",
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&from, "from", "", "first `step` to execute again")
	f.Int64Var(&position, "from-position", 0, "like --from, but with the `position` of the step in the JSON of runs show")
	f.StringVar(&newID, "run-id", "", "`id` for the new run, which makes the command safe to repeat")
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
		tell("to run again", forked.Again)
		return nil
	}
	return cmd
}
