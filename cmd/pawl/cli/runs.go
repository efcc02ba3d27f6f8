package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) runsCommand() *cobra.Command {
	return group("runs", "List, show, start and control runs", "List, show, start and control runs.",
		a.listCommand(), a.countCommand(), a.showCommand(), a.explainCommand(), a.watchCommand(),
		a.startCommand(), a.cancelCommand(), a.pauseCommand(), a.resumeCommand(), a.restartCommand(), a.unpinCommand(), a.forkCommand(),
		a.signalCommand(), a.askCommand(), a.streamCommand(), a.stateCommand(), a.exportCommand(), a.importCommand())
}

func (a *app) listCommand() *cobra.Command {
	m := many{a: a}
	var limit int
	var after string
	var all bool
	var sort string
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls"},
		Short:   "List runs, newest first",
		Long: `List runs, newest first, one page at a time. If there are more, the last line
says how to get the next page. If only final runs are selected, the runs that
ended last come first. --all prints all pages, without holding them in memory.`,
		Example: `  pawl runs list --status failed --since 24h
  pawl runs list -s failed --since 2h --code timeout --step charge
  pawl runs list -w fulfil-order -s active
  pawl runs list --stranded
  pawl runs list --json --all | jq -r '.runs[].id'`,
		Args: cobra.NoArgs,
	}
	m.flags(cmd)
	f := cmd.Flags()
	f.IntVarP(&limit, "limit", "l", 50, "runs per page, at most 1000")
	f.StringVar(&after, "after", "", "`cursor` printed by the previous page")
	f.BoolVar(&all, "all", false, "print all pages")
	f.StringVar(&sort, "sort", "", "`order`, newest first: created or ended (default: ended if only final runs are selected)")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		filter, err := m.filter(ctx, eng)
		if err != nil {
			return err
		}
		if limit < 1 {
			return usage("invalid --limit %d; want 1 or more", limit)
		}
		byEnd := m.onlyFinal(filter)
		switch sort {
		case "":
		case "created":
			byEnd = false
		case "ended":
			if byEnd = true; len(filter.Statuses) > 0 && !m.onlyFinal(filter) {
				return usage("--sort ended lists only final runs, but --status selects runs that are not final")
			}
		default:
			return usage("invalid --sort %q; want created or ended", sort)
		}
		if all {
			limit = store.MaxPage
		}
		list := runList{app: a, byEnd: byEnd, all: all}
		for cursor := after; ; {
			page, err := a.pageOf(ctx, eng, filter, byEnd, cursor, limit)
			if err != nil {
				return err
			}
			if len(page.Runs) == 0 && list.n == 0 && after == "" {
				if err := m.none(ctx, eng, filter); err != nil {
					return err
				}
			}
			cursor = page.Next
			if err := list.print(page.Runs); err != nil {
				return err
			}
			if !all || cursor == "" {
				return list.end(cursor, eng.Namespace())
			}
		}
	}
	return cmd
}

// pageOf reads a page of runs, ordered by their end or their creation. Only the last page
// may have fewer than limit runs.
func (a *app) pageOf(ctx context.Context, eng *engine.Engine, f store.RunFilter, byEnd bool, cursor string, limit int) (store.RunPage, error) {
	read := eng.List
	if byEnd {
		read = eng.ListEnded
	}
	all := store.RunPage{Next: cursor}
	for {
		page, err := read(ctx, f, all.Next, limit-len(all.Runs))
		if err != nil {
			return store.RunPage{}, err
		}
		all.Runs, all.Next = append(all.Runs, page.Runs...), page.Next
		if len(all.Runs) == limit || page.Next == "" {
			return all, nil
		}
	}
}

// runList prints runs page by page, without keeping them in memory.
type runList struct {
	*app
	byEnd bool
	all   bool // more pages may come
	n     int
	table table
}

// print prints a page.
func (l *runList) print(runs []store.Run) error {
	defer func() { l.n += len(runs) }()
	if l.json {
		return l.printJSONPage(runs)
	}
	if l.n == 0 {
		l.table.head = []string{"ID", "STATUS", "WORKFLOW", "CREATED", "TOOK", "EXTERNAL ID", "NOTE"}
		if l.byEnd {
			l.table.head[3] = "ENDED"
		}
		l.table.more = l.all && len(runs) == store.MaxPage
	}
	l.table.rows = l.table.rows[:0]
	for _, r := range runs {
		at := r.CreatedAt
		if l.byEnd {
			at = r.FinishedAt
		}
		l.table.add(text(r.ID.String()), statusCell(r.Status), text(r.Workflow), text(l.ago(at)), text(l.took(r)), text(externalID(r)), text(l.remark(r)))
	}
	if len(runs) > 0 {
		l.printTable(&l.table, "")
	}
	return nil
}

// printJSONPage writes its part of the JSON of the whole list.
func (l *runList) printJSONPage(runs []store.Run) error {
	var b bytes.Buffer
	if l.n == 0 {
		b.WriteString("{\n  \"runs\": [")
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("    ", "  ")
	for i, r := range runs {
		if l.n+i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		if err := enc.Encode(asRun(r)); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // Encode ends the line
	}
	_, err := l.out.Write(visible(b.Bytes()))
	return err
}

// end writes what follows the last page.
func (l *runList) end(next, namespace string) error {
	switch {
	case l.json:
		close := "]"
		if l.n > 0 {
			close = "\n  ]"
		}
		if next != "" {
			close += fmt.Sprintf(",\n  \"next\": %q", next)
		}
		l.app.print("%s\n}\n", close)
	case l.n == 0:
		l.note("No matching runs in namespace %q.\n", namespace)
	case next != "":
		l.note("More follow: repeat the command with --after %s\n", next)
	}
	return nil
}

func externalID(r store.Run) string {
	if r.Suffix != "" {
		return r.ExternalID + " / " + r.Suffix
	}
	return r.ExternalID
}

// took returns the time since the run started, or its duration, sleeps included.
func (a *app) took(r store.Run) string {
	switch {
	case r.StartedAt.IsZero():
		return ""
	case r.FinishedAt.IsZero():
		return span(a.now().Sub(r.StartedAt))
	}
	return span(r.FinishedAt.Sub(r.StartedAt))
}

// remark returns a short note about the state of a run.
func (a *app) remark(r store.Run) string {
	due := func(what string) string {
		switch d := r.VisibleAt.Sub(a.now()); {
		case r.VisibleAt.IsZero():
			return what
		case d > 0:
			return what + " " + a.ago(r.VisibleAt)
		default:
			return "due for " + span(-d)
		}
	}
	failed := func(s string) string {
		if r.Failure != nil {
			return s + r.Failure.Message
		}
		return s
	}
	if r.Pin != nil && !r.Status.Final() && r.Worker == "" {
		pin := r.Pin.Build
		r.Pin = nil
		return "pinned to " + pin + "; " + a.remark(r)
	}
	switch r.Status {
	case store.Pending:
		if engine.SetAside(&r) {
			return due("again") + failed(", set aside: ")
		}
		if r.Attempt > 1 && r.Failure != nil {
			return due(fmt.Sprintf("attempt %d", r.Attempt)) + failed(", after: ")
		}
		return due("due")
	case store.Sleeping:
		if r.VisibleAt.IsZero() {
			return "waits for an event"
		}
		return due("wakes")
	case store.Running, store.Canceling:
		if r.Worker == "" {
			return "waits for a worker to clean up"
		}
		if !r.VisibleAt.IsZero() && r.VisibleAt.Before(a.now()) {
			return "lease expired " + a.ago(r.VisibleAt)
		}
		s := "held by " + r.Worker
		if r.Pausing {
			s += ", pauses after the current step"
		}
		return s
	case store.Failed, store.Canceled:
		return failed("")
	}
	return ""
}

func (a *app) countCommand() *cobra.Command {
	m := many{a: a}
	var byFailure, exact bool
	cmd := &cobra.Command{
		Use:   "count [flags]",
		Short: "Count runs by queue, workflow and status",
		Long: `Count runs by queue, workflow and status. The command reads the last 10,000 runs
of each status; a number with a plus sign is a lower bound. With --exact, it reads
every run of the namespace. With --since, it reads only runs that ended after that
time.`,
		Example: `  pawl runs count --status active
  pawl runs count --status failed --since 24h --by-failure
  pawl runs count --since 24h --json`,
		Args: cobra.NoArgs,
	}
	m.flags(cmd)
	cmd.Flags().BoolVar(&byFailure, "by-failure", false, "count by failure code too")
	cmd.Flags().BoolVar(&exact, "exact", false, "read every run, however many there are")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		filter, err := m.filter(ctx, eng)
		if err != nil {
			return err
		}
		p := store.CountParams{Namespace: eng.Namespace(), Filter: filter, ByFailure: byFailure}
		if exact {
			p.MaxScan = store.ScanAll
		}
		counts, err := eng.Store().Count(ctx, p)
		if err != nil {
			return err
		}
		if len(counts) == 0 {
			if err := m.none(ctx, eng, filter); err != nil {
				return err
			}
		}
		var sum int64
		for _, c := range counts {
			sum += c.Count
		}
		if a.json {
			type row struct {
				Queue       string       `json:"queue"`
				Workflow    string       `json:"workflow"`
				Status      store.Status `json:"status"`
				FailureCode string       `json:"failure_code,omitempty"`
				Count       int64        `json:"count"`
				Capped      bool         `json:"capped,omitempty"`
			}
			return a.printJSON(struct {
				Counts []row    `json:"counts"`
				Total  int64    `json:"total"`
				Capped []string `json:"capped,omitempty"`
			}{each(counts, func(c store.RunCount) row { return row(c) }), sum, capped(counts)})
		}
		t := table{head: []string{"QUEUE", "WORKFLOW", "STATUS", "FAILURE", "RUNS"}}
		for _, c := range counts {
			t.add(text(c.Queue), text(c.Workflow), statusCell(c.Status), text(c.FailureCode), atLeast(c.Count, c.Capped))
		}
		if len(counts) > 1 {
			t.add(cell{text: "total"}.isA(bold), cell{}, cell{}, cell{}, atLeast(sum, len(capped(counts)) > 0).isA(bold))
		}
		a.printTable(&t, "No matching runs in namespace %q.", eng.Namespace())
		return nil
	}
	return cmd
}

func (a *app) startCommand() *cobra.Command {
	var s startFlags
	cmd := &cobra.Command{
		Use:   "start WORKFLOW [INPUT] [flags]",
		Short: "Start a run",
		Long: `Start a run of a workflow and print its id. The input is JSON. If the workflow
uses another codec, pass --raw. With --external-id, if a run with that external id
already exists, the command prints the id of that run and starts no new one.

With --signal and --external-id, the active run with that external id receives the
signal, or the run is started with it if none is active.

This command cannot encrypt. If the workflow's workers accept only encrypted
payloads, it rejects any input; start the run from a program that has the workers'
codec.`,
		Example: `  pawl runs start fulfil-order '{"Item":"a lamp"}' --external-id order-42
  pawl runs start report --input-file report.json --wait
  pawl runs start cleanup --delay 2h
  pawl runs start publish '"report"' --debounce report --delay 1m --at-most 10m
  pawl runs start report '{}' --tag customer=4711
  pawl runs start digest '"ann"' --external-id notes-of-ann --signal note='"Hi"'`,
		Args:              between(1, 2),
		ValidArgsFunction: a.completeArgs(1, workflowNames),
	}
	s.flags(a, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var arg *string
		if len(args) > 1 {
			arg = &args[1]
		}
		input, err := a.readPayload(arg, s.file, s.raw)
		if err != nil {
			return err
		}
		eng, err := a.engine(ctx)
		if err != nil {
			return err
		}
		if s.anyway {
			eng = a.requiringNothing(eng)
			defer eng.Close()
		}
		opts, err := s.options(a)
		if err != nil {
			return err
		}
		started, err := a.start(ctx, eng, args[0], input, opts)
		if err != nil {
			return err
		}
		if started.Existing {
			a.note("%s; no new run was started.\n", s.keyed.found(s.externalID))
		}
		if s.sig.text != "" {
			a.note("The run has the signal.\n")
		}
		if s.wait {
			a.note("%s\n", started.ID)
			return a.await(ctx, eng, started.ID, s.patience)
		}
		return a.printStarted(started)
	}
	return cmd
}

// requiringNothing returns an engine whose starts wait for a worker.
func (a *app) requiringNothing(eng *engine.Engine) *engine.Engine {
	return engine.New(a.store, engine.Namespace(eng.Namespace()), engine.Require(engine.RequireNothing), engine.Actor(a.actor()), engine.From("cli"))
}

// start starts a run and records the action.
func (a *app) start(ctx context.Context, eng *engine.Engine, workflow string, input []byte, opts []engine.StartOption) (engine.Started, error) {
	started, err := eng.Start(ctx, workflow, input, opts...)
	if errors.Is(err, engine.ErrUnknownWorkflow) {
		err = &codedError{exitNotFound, fmt.Errorf("no worker has ever registered workflow %q in namespace %q; check the name with pawl workflows list, or pass --any to let the run wait for a worker", clean(workflow), eng.Namespace())}
	}
	if err != nil || started.Existing {
		return started, err
	}
	if err := eng.Record(ctx, "start", "", workflow, started.ID); err != nil {
		a.note("pawl: %v\n", err)
	}
	return started, nil
}

// printStarted prints the id of a run that was started or found.
func (a *app) printStarted(s engine.Started) error {
	if a.json {
		return a.printJSON(struct {
			ID       store.ID `json:"id"`
			Existing bool     `json:"existing"`
		}{s.ID, s.Existing})
	}
	a.print("%s\n", s.ID)
	return nil
}

// between checks the number of arguments.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("missing argument; usage: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q; usage: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}
