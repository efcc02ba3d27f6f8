package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) workersCommand() *cobra.Command {
	return group("workers", "List and remove workers", "List and remove workers: the processes that execute runs.", a.workersListCommand(), a.workersRemoveCommand())
}

type workerJSON struct {
	ID        string              `json:"id"`
	Host      string              `json:"host"`
	PID       int                 `json:"pid"`
	Status    string              `json:"status"`
	Queues    []string            `json:"queues"`
	Workflows []string            `json:"workflows"`
	Takes     map[string][]string `json:"takes,omitempty"` // workflows by queue
	Labels    map[string]string   `json:"labels,omitempty"`
	Slots     int                 `json:"slots"`
	Held      int64               `json:"held"`
	StartedAt *time.Time          `json:"started_at"`
	SeenAt    *time.Time          `json:"seen_at"`
	Build     string              `json:"build,omitempty"`
}

func asWorker(w store.Worker) workerJSON {
	return workerJSON{w.ID, w.Host, w.PID, w.Status.String(), w.Queues, w.Workflows, w.Takes, w.Labels, w.Slots, w.Held, asTime(w.StartedAt), asTime(w.SeenAt), w.Build}
}

func workerStyle(s store.WorkerStatus) style {
	switch s {
	case store.Online:
		return green
	case store.Draining:
		return yellow
	}
	return red
}

func (a *app) workersListCommand() *cobra.Command {
	var queue, workflow, status string
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List workers",
		Long: `List the workers of the namespace. A worker is online, draining (it takes no new
runs) or offline (it stopped reporting). HELD is the number of runs that it holds,
out of its SLOTS. With --queue and --workflow together, only workers that take
that workflow from that queue are listed; --json prints all such pairs (takes).

An idle worker reports only when asked. This command asks the workers that have
not reported for 20 seconds, and waits for their answers. That takes a moment, or
half a minute if a worker was killed.`,
		Example: "  pawl workers list\n  pawl workers list --queue mail --status online --json",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&queue, "queue", "q", "", "`name` of a queue that the worker serves")
	f.StringVarP(&workflow, "workflow", "w", "", "`name` of a workflow that the worker has registered")
	f.StringVarP(&status, "status", "s", "", "`status`: online, draining or offline")
	a.complete(cmd, "queue", queueNames)
	a.complete(cmd, "workflow", workflowNames)
	a.complete(cmd, "status", func(context.Context, *engine.Engine, string) ([]string, error) {
		return []string{"online", "draining", "offline"}, nil
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		switch status {
		case "", "online", "draining", "offline":
		default:
			return usage("invalid --status %q; want online, draining or offline", status)
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		workers, err := eng.Workers(ctx)
		if err != nil {
			return err
		}
		workers = slices.DeleteFunc(workers, func(w store.Worker) bool {
			return queue != "" && workflow != "" && !w.Pairs(queue, workflow) || queue != "" && !slices.Contains(w.Queues, queue) || workflow != "" && !slices.Contains(w.Workflows, workflow) || status != "" && w.Status.String() != status
		})
		if a.json {
			return a.printJSON(struct {
				Workers []workerJSON `json:"workers"`
			}{each(workers, asWorker)})
		}
		a.printTable(a.workerTable(workers), "No matching workers in namespace %q.", eng.Namespace())
		return nil
	}
	return cmd
}

func (a *app) workerTable(workers []store.Worker) *table {
	t := table{head: []string{"WORKER", "HOST", "PID", "STATUS", "HELD", "SLOTS", "UP", "SEEN", "QUEUES", "LABELS"}}
	for _, w := range workers {
		t.add(text(w.ID), text(w.Host), cell{text: fmt.Sprint(w.PID), right: true}, styled(workerStyle(w.Status), w.Status.String()),
			numberOrDot(w.Held), number(w.Slots), text(span(a.now().Sub(w.StartedAt))), text(a.ago(w.SeenAt)), text(strings.Join(w.Queues, ", ")), text(labels(w.Labels)))
	}
	return &t
}

func labels(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, " ")
}

func (a *app) workersRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "remove WORKER [flags]",
		Short: "Remove the registration of a dead worker",
		Long: `Remove the registration of a dead worker. Other workers take over its runs when
the leases end, with or without this command. Removing a worker that is not
offline requires --force; if its process still runs, it registers again.`,
		Example: "  pawl workers remove web-1/4711",
		Args:    between(1, 1),
		ValidArgsFunction: a.completeArgs(1, func(ctx context.Context, eng *engine.Engine, _ string) (ids []string, err error) {
			if eng == nil {
				return nil, nil
			}
			workers, err := eng.WorkersNow(ctx)
			return each(workers, func(w store.Worker) string { return w.ID + "\t" + w.Status.String() }), err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove the worker even if it is online or draining")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		workers, err := eng.Workers(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(workers, func(w store.Worker) bool { return w.ID == args[0] })
		switch {
		case i < 0:
			return fmt.Errorf("worker %q in namespace %q: %w", args[0], eng.Namespace(), store.ErrNotFound)
		case workers[i].Status != store.Offline && !force:
			return fmt.Errorf("worker %q is %s and was seen %s; stop its process instead, or pass --force: %w", args[0], workers[i].Status, a.ago(workers[i].SeenAt), store.ErrConflict)
		}
		if err := eng.Record(ctx, "remove", "worker "+args[0], ""); err != nil {
			return err
		}
		if err := eng.Store().RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: eng.Namespace(), ID: args[0]}); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Removed string `json:"removed"`
			}{args[0]})
		}
		a.print("Worker %s is removed.\n", clean(args[0]))
		return nil
	}
	return cmd
}

// line describes a queue or a workflow.
type line struct {
	Name    string           `json:"name"`
	Queue   string           `json:"queue,omitempty"` // of a workflow: its default queue
	Paused  *time.Time       `json:"paused_since,omitempty"`
	Workers int              `json:"workers"`          // online
	Slots   int              `json:"slots"`            // of the online workers
	Runs    map[string]int64 `json:"runs"`             // active ones by status
	Capped  []string         `json:"capped,omitempty"` // statuses of which there may be more
	// Alone lists the workflows that have runs in the queue but that no worker takes from
	// it. For a workflow, it lists such queues.
	Alone []string `json:"not_taken,omitempty"`
}

// count returns the number of active runs with a status.
func (l *line) count(status string) cell {
	if slices.Contains(l.Capped, status) {
		return atLeast(l.Runs[status], true)
	}
	return numberOrDot(l.Runs[status])
}

func (l *line) waiting() int64 { return l.Runs["pending"] + l.Runs["sleeping"] }

// lines counts the active runs of each queue, or of each workflow, and the workers for
// them.
func lines(ctx context.Context, eng *engine.Engine, workers []store.Worker, workflows bool) ([]*line, error) {
	counts, err := eng.Count(ctx, store.RunFilter{Statuses: active})
	if err != nil {
		return nil, err
	}
	known, err := eng.Workflows(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := eng.Paused(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]*line{}
	of := func(name string) *line {
		if all[name] == nil {
			all[name] = &line{Name: name, Runs: map[string]int64{}}
		}
		return all[name]
	}
	for _, w := range known {
		if workflows {
			of(w.Name).Queue = w.Queue
		} else {
			of(w.Queue)
		}
	}
	for _, c := range counts {
		name := c.Queue
		if c.Count == 0 {
			continue
		}
		if workflows {
			name = c.Workflow
		}
		l := of(name)
		l.Runs[c.Status.String()] += c.Count
		other := c.Workflow
		if workflows {
			other = c.Queue
		}
		taken := slices.ContainsFunc(workers, func(w store.Worker) bool { return w.Serves(c.Queue, c.Workflow) })
		if !taken && c.Status != store.Paused && !slices.Contains(l.Alone, other) {
			l.Alone = append(l.Alone, other)
		}
	}
	for _, p := range paused {
		if name := p.Queue; !workflows && name != "" {
			of(name).Paused = asTime(p.Since)
		}
		if name := p.Workflow; workflows && name != "" {
			of(name).Paused = asTime(p.Since)
		}
	}
	for _, w := range workers {
		names := w.Queues
		if workflows {
			names = w.Workflows
		}
		for _, name := range names {
			if l := of(name); w.Status == store.Online {
				l.Workers++
				l.Slots += w.Slots
			}
		}
	}
	var list []*line
	for _, name := range slices.Sorted(maps.Keys(all)) {
		all[name].Capped = capped(counts)
		list = append(list, all[name])
	}
	return list, nil
}

func (a *app) lineTable(list []*line, head string) *table {
	t := table{head: []string{head, "PENDING", "RUNNING", "SLEEPING", "PAUSED", "CANCELING", "WORKERS", "SLOTS", "QUEUE", "NOTE"}}
	for _, l := range list {
		workers := number(l.Workers)
		note := cell{}
		switch {
		case l.Paused != nil:
			note = styled(magenta, "paused "+a.ago(*l.Paused))
		case l.Workers == 0 && l.waiting()+l.Runs["running"] > 0:
			workers.style = red
			note = styled(red, "no worker online")
		case len(l.Alone) > 0:
			verb := "takes "
			if head == "WORKFLOW" {
				verb = "takes it from "
			}
			note = styled(red, "no worker "+verb+few(l.Alone))
		}
		queue := l.Queue
		if queue == l.Name {
			queue = ""
		}
		t.add(text(l.Name), l.count("pending"), l.count("running"), l.count("sleeping"), l.count("paused"),
			l.count("canceling"), workers, numberOrDot(l.Slots), text(queue), note)
	}
	return &t
}

// target is what differs between the commands for queues and for workflows.
type target struct {
	noun, upper string
	workflows   bool
	names       func(ctx context.Context, eng *engine.Engine, begins string) ([]string, error)
	pause       func(*engine.Engine, context.Context, string) error
	resume      func(*engine.Engine, context.Context, string) error
}

func (a *app) queuesCommand() *cobra.Command {
	t := target{"queue", "QUEUE", false, queueNames, (*engine.Engine).PauseQueue, (*engine.Engine).ResumeQueue}
	return group("queues", "List, pause and resume queues", "List, pause and resume queues.", a.linesCommand(t), a.holdCommand(t, true), a.holdCommand(t, false))
}

func (a *app) workflowsCommand() *cobra.Command {
	t := target{"workflow", "WORKFLOW", true, workflowNames, (*engine.Engine).PauseWorkflow, (*engine.Engine).ResumeWorkflow}
	return group("workflows", "List, show, pause and resume workflows", "List, show, pause and resume workflows.", a.linesCommand(t), a.definitionCommand(), a.holdCommand(t, true), a.holdCommand(t, false))
}

func (a *app) linesCommand(t target) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   fmt.Sprintf("List %ss with their runs and workers", t.noun),
		Long: fmt.Sprintf(`List the %ss that workers have registered, or that have runs that are
not final. Show these runs by status, and the online workers.`, t.noun),
		Example: fmt.Sprintf("  pawl %ss list", t.noun),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			workers, err := eng.Workers(ctx)
			if err != nil {
				return err
			}
			list, err := lines(ctx, eng, workers, t.workflows)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string][]*line{t.noun + "s": append([]*line{}, list...)})
			}
			a.printTable(a.lineTable(list, t.upper), "Namespace %q has no %ss yet.", eng.Namespace(), t.noun)
			return nil
		},
	}
}

func (a *app) holdCommand(t target, pause bool) *cobra.Command {
	do, name, done := t.resume, "resume", "resumed"
	long := fmt.Sprintf("Resume %ss: workers may claim their runs again.", t.noun)
	if pause {
		do, name, done = t.pause, "pause", "paused"
		long = fmt.Sprintf(`Pause %ss: no worker claims their runs until they are resumed. Runs that
workers hold continue. New runs wait. The %s need not exist yet.`, t.noun, t.noun)
	}
	return &cobra.Command{
		Use:               fmt.Sprintf("%s %s...", name, t.upper),
		Short:             strings.ToUpper(name[:1]) + name[1:] + " " + t.noun + "s",
		Long:              long,
		Example:           fmt.Sprintf("  pawl %ss %s mail", t.noun, name),
		Args:              between(1, -1),
		ValidArgsFunction: a.completeArgs(0, t.names),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := do(eng, ctx, name); err != nil {
					return err
				}
				workflow, queue := name, ""
				if !t.workflows {
					workflow, queue = "", name
				}
				if err := a.hintUnknown(ctx, eng, workflow, queue); err != nil {
					return err
				}
				if !a.json {
					a.print("%s %s is %s.\n", strings.ToUpper(t.noun[:1])+t.noun[1:], clean(name), done)
				}
			}
			if a.json {
				return a.printJSON(map[string][]string{done: args})
			}
			return nil
		},
	}
}
