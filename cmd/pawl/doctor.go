package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// What counts as much.
const (
	muchSkew    = 2 * time.Second
	longOverdue = time.Minute
	sample      = 1000 // runs that are looked at
	failedSince = time.Hour
	manyFailed  = 10 // failures of a workflow in that time, and more than half of what ended: a fault
	manyTries   = 10 // attempts that look like an endless retry
)

func (a *app) doctorCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Look for what is wrong, and say what to do",
		Long: `Look at the way to the database, its schema, its health, and at who works on
what in the namespace; say what is wrong and what to do. Nothing is changed.

The exit code is 0 if no fault was found, and 1 otherwise; with --strict, a
warning counts as a fault.`,
		Example: "  pawl doctor\n  pawl doctor --json | jq '.findings[] | select(.level!=\"ok\")'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "a warning is a fault, too")
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
	a.print("\n%d looked at: %d %s, %d %s\n", len(list), counts[store.Fault], plural(int64(counts[store.Fault]), "fault"), counts[store.Warning], plural(int64(counts[store.Warning]), "warning"))
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

// doctor gathers findings.
type doctor struct {
	*app
	findings []store.Finding
}

func (d *doctor) found(name string, level store.Level, advice, seen string, args ...any) {
	d.findings = append(d.findings, store.Finding{Name: name, Level: level, Advice: advice, Seen: fmt.Sprintf(seen, args...)})
}

// examine looks at one thing after the other, and ends where the next ones could
// not be looked at. Its error is for what is no finding: an interruption.
func (d *doctor) examine(ctx context.Context) error {
	began := d.now()
	schema, err := d.schema(ctx)
	if err != nil {
		return d.broken(ctx, "connection", err)
	}
	d.found("connection", store.Fine, "", "%s, in %s", schema.Place, span(d.now().Sub(began)))
	switch {
	case schema.Version == 0:
		d.found("schema", store.Fault, "run pawl migrate up; or, if the tables are elsewhere, correct the URL", "there are no tables of Pawl's")
		return nil
	case schema.Version < schema.Newest:
		d.found("schema", store.Fault, fmt.Sprintf("run pawl migrate up, or apply what pawl migrate sql --since %d prints", schema.Version), "version %d, and this program needs %d", schema.Version, schema.Newest)
		return nil
	case schema.Version > schema.Newest:
		d.found("schema", store.Fault, "use a newer pawl, and newer programs", "version %d, and this program knows versions up to %d", schema.Version, schema.Newest)
		return nil
	}
	d.found("schema", store.Fine, "", "version %d, the newest", schema.Version)
	eng, err := d.engine(ctx)
	if err != nil {
		return d.broken(ctx, "store", err)
	}
	if err := d.clock(ctx); err != nil {
		return d.broken(ctx, "clock", err)
	}
	if diagnoser, ok := d.store.(store.Diagnoser); ok {
		list, err := diagnoser.Diagnose(ctx)
		d.findings = append(d.findings, list...)
		if err != nil {
			return d.broken(ctx, "database", err)
		}
	}
	for _, look := range []struct {
		name string
		look func(context.Context, *engine.Engine) error
	}{{"workers", d.work}, {"failures", d.failures}, {"retries", d.retries}, {"leases", d.leases}, {"schedules", d.schedules}} {
		if err := look.look(ctx, eng); err != nil {
			return d.broken(ctx, look.name, err)
		}
	}
	return nil
}

// broken makes a finding of an error.
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
		advice = "check that the server runs and that this machine may reach it, then look again"
	}
	d.found(name, store.Fault, advice, "%v", err)
	return nil
}

func (d *doctor) clock(ctx context.Context) error {
	before := d.now()
	now, err := d.store.Clock(ctx)
	if err != nil {
		return err
	}
	after := d.now()
	trip := after.Sub(before)
	skew := now.Sub(before.Add(trip / 2))
	words := "ahead of"
	if skew < 0 {
		skew, words = -skew, "behind"
	}
	switch f := d.store.Features(); {
	case skew-trip/2 > muchSkew:
		advice := "set the clocks, by NTP; leases and timers go by the database's clock alone, but times that programs name themselves (engine.At) and what is shown here do not"
		if !f.SharedClock {
			advice = "set the clocks, by NTP: every process that uses this database needs the same one"
		}
		d.found("clock", store.Warning, advice, "the database's is %s %s this machine's", span(skew), words)
	case f.SharedClock:
		d.found("clock", store.Fine, "", "the database's, %s %s this machine's, asked in %s", span(skew), words, span(trip))
	default:
		d.found("clock", store.Fine, "", "this machine's")
	}
	return nil
}

// work looks for runs that nobody works on.
func (d *doctor) work(ctx context.Context, eng *engine.Engine) error {
	workers, err := eng.Workers(ctx)
	if err != nil {
		return err
	}
	counts, err := eng.Count(ctx, store.RunFilter{Statuses: active})
	if err != nil {
		return err
	}
	paused, err := eng.Paused(ctx)
	if err != nil {
		return err
	}
	var online, draining int
	var offline []string
	for _, w := range workers {
		switch w.Status {
		case store.Online:
			online++
		case store.Draining:
			draining++
		default:
			offline = append(offline, fmt.Sprintf("%s (seen %s)", w.ID, d.ago(w.SeenAt)))
		}
	}
	type lane struct{ queue, workflow string }
	more := capped(counts)
	var order []lane
	waiting := map[lane]int64{}
	var all int64
	for _, c := range counts {
		l := lane{c.Queue, c.Workflow}
		if c.Status == store.Paused || c.Count == 0 {
			continue
		}
		if waiting[l] == 0 {
			order = append(order, l)
		}
		waiting[l] += c.Count
		all += c.Count
	}
	seen := fmt.Sprintf("%d online", online)
	if draining > 0 {
		seen += fmt.Sprintf(", %d draining", draining)
	}
	switch {
	case online == 0 && all > 0:
		wait := "runs wait"
		if all == 1 {
			wait = "run waits"
		}
		gone := ""
		if len(offline) > 0 {
			gone = "; not heard of: " + few(offline)
		}
		d.found("workers", store.Fault, "start a worker in this namespace, or see whether --namespace is the right one", "none is online, and %s %s for one%s", bound3(all, len(more) > 0), wait, gone)
	case len(offline) > 0:
		d.found("workers", store.Warning, "see why they ended, and forget them with pawl workers remove; their runs go to others by themselves", "%s; not heard of: %s", seen, few(offline))
	default:
		d.found("workers", store.Fine, "", "%s", seen)
	}
	isPaused := func(l lane) bool {
		return slices.ContainsFunc(paused, func(p store.PausedTarget) bool {
			return p.Queue != "" && p.Queue == l.queue || p.Workflow != "" && p.Workflow == l.workflow
		})
	}
	var alone []string
	for _, l := range order {
		served := slices.ContainsFunc(workers, func(w store.Worker) bool {
			return w.Serves(l.queue, l.workflow)
		})
		if !served && !isPaused(l) {
			s := fmt.Sprintf("workflow %q", l.workflow)
			if l.queue != l.workflow {
				s += fmt.Sprintf(" in queue %q", l.queue)
			}
			alone = append(alone, fmt.Sprintf("%s (%s %s)", s, bound3(waiting[l], len(more) > 0), plural(waiting[l], "run")))
		}
	}
	if len(alone) > 0 && online > 0 {
		d.found("queues", store.Fault, "start a worker that registers these workflows, with worker.Queues for a queue that is not a workflow's own; pawl workers list --json shows who takes what from which queue", "no worker that is online takes %s", few(alone))
	} else if online > 0 || all == 0 {
		d.found("queues", store.Fine, "", "what waits has a worker that takes it")
	}
	var held []string
	for _, p := range paused {
		var n int64
		what, cmd := fmt.Sprintf("queue %q", p.Queue), "queues resume "+p.Queue
		for l, c := range waiting {
			if p.Queue != "" && p.Queue == l.queue || p.Workflow != "" && p.Workflow == l.workflow {
				n += c
			}
		}
		if p.Workflow != "" {
			what, cmd = fmt.Sprintf("workflow %q", p.Workflow), "workflows resume "+p.Workflow
		}
		held = append(held, fmt.Sprintf("%s since %s, %s %s held back (pawl %s)", what, d.ago(p.Since), bound3(n, len(more) > 0), plural(n, "run"), cmd))
	}
	if len(held) > 0 {
		d.found("paused", store.Warning, "resume them with the commands above, if nobody needs the pause any more", "%s", few(held))
	} else {
		d.found("paused", store.Fine, "", "no queue and no workflow")
	}
	return nil
}

func few(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], ", ") + fmt.Sprintf(" and %d more", len(list)-5)
	}
	return strings.Join(list, ", ")
}

// failures looks at how the runs of the last hour ended.
func (d *doctor) failures(ctx context.Context, eng *engine.Engine) error {
	now, err := d.store.Clock(ctx)
	if err != nil {
		return err
	}
	counts, err := eng.CountFailures(ctx, store.RunFilter{
		Statuses: []store.Status{store.Completed, store.Failed, store.Canceled}, FinishedAfter: now.Add(-failedSince),
	})
	if err != nil {
		return err
	}
	type tally struct {
		workflow      string
		ended, failed int64
		codes         map[string]int64
	}
	byName := map[string]*tally{}
	all := tally{codes: map[string]int64{}}
	more := len(capped(counts)) > 0
	for _, c := range counts {
		if c.Count == 0 {
			continue
		}
		t := byName[c.Workflow]
		if t == nil {
			t = &tally{workflow: c.Workflow, codes: map[string]int64{}}
			byName[c.Workflow] = t
		}
		t.ended += c.Count
		all.ended += c.Count
		if c.Status == store.Failed {
			t.failed += c.Count
			t.codes[c.FailureCode] += c.Count
			all.failed += c.Count
		}
	}
	if all.failed == 0 {
		d.found("failures", store.Fine, "", "none of %s %s that ended in the last hour", bound3(all.ended, more), plural(all.ended, "run"))
		return nil
	}
	tallies := slices.Collect(maps.Values(byName))
	slices.SortFunc(tallies, func(x, y *tally) int { return cmp.Or(int(y.failed-x.failed), strings.Compare(x.workflow, y.workflow)) })
	level := store.Warning
	var list []string
	for _, t := range tallies {
		if t.failed == 0 {
			break
		}
		if t.failed >= manyFailed && 2*t.failed > t.ended {
			level = store.Fault
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(t.codes)), func(x, y string) int { return cmp.Compare(t.codes[x], t.codes[y]) })
		list = append(list, fmt.Sprintf("%s %s of %s (%d%%), most by %q", t.workflow, bound3(t.failed, more), bound3(t.ended, more), 100*t.failed/t.ended, most))
	}
	d.found("failures", level, "pawl runs count --status failed --since 1h --by-failure tells them apart, pawl runs list --status failed --since 1h shows them; pawl runs restart --status failed --since 1h when the reason is gone",
		"%s of %s %s that ended in the last hour failed: %s", bound3(all.failed, more), bound3(all.ended, more), plural(all.ended, "run"), few(list))
	return nil
}

// retries looks for runs that are tried again and again.
func (d *doctor) retries(ctx context.Context, eng *engine.Engine) error {
	counts, err := eng.CountFailures(ctx, store.RunFilter{Statuses: active, MinAttempt: manyTries})
	if err != nil {
		return err
	}
	var n int64
	byName := map[string]int64{}
	more := len(capped(counts)) > 0
	for _, c := range counts {
		if c.Count > 0 {
			n += c.Count
			byName[c.Workflow] += c.Count
		}
	}
	if n == 0 {
		d.found("retries", store.Fine, "", "no run was tried %d times", manyTries)
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, fmt.Sprintf("%s (%s)", name, bound3(byName[name], more)))
	}
	d.found("retries", store.Warning, fmt.Sprintf("pawl runs list --status active --attempts %d shows them, and pawl runs show RUN why; what will never succeed is ended by pawl runs cancel", manyTries),
		"%s active %s, or a step of theirs, tried %d times and more: %s", bound3(n, more), map[bool]string{true: "run was", false: "runs were"}[n == 1], manyTries, few(list))
	return nil
}

// leases looks for runs that should have been claimed long ago.
func (d *doctor) leases(ctx context.Context, eng *engine.Engine) error {
	page, err := eng.Store().List(ctx, store.ListParams{
		Namespace: eng.Namespace(), Filter: store.RunFilter{Statuses: []store.Status{store.Running, store.Canceling, store.Pending}}, OldestFirst: true, Limit: sample,
		MaxScan: 10 * store.DefaultScan,
	})
	if err != nil {
		return err
	}
	now, err := d.store.Clock(ctx)
	if err != nil {
		return err
	}
	var lapsed, late int
	var oldest store.Run
	crashed := map[string]int{}
	for _, r := range page.Runs {
		if r.Crashes > 0 {
			crashed[r.Workflow]++
		}
		if r.VisibleAt.IsZero() || now.Sub(r.VisibleAt) < longOverdue {
			continue
		}
		if r.Status == store.Pending {
			late++
		} else {
			lapsed++
		}
		if oldest.ID.IsZero() || r.VisibleAt.Before(oldest.VisibleAt) {
			oldest = r
		}
	}
	var bad []string
	if lapsed > 0 {
		bad = append(bad, fmt.Sprintf("%d %s a lease that ran out over a minute ago", lapsed, map[bool]string{true: "run has", false: "runs have"}[lapsed == 1]))
	}
	if late > 0 {
		bad = append(bad, fmt.Sprintf("%d pending %s due for over a minute", late, map[bool]string{true: "run is", false: "runs are"}[late == 1]))
	}
	switch {
	case len(bad) > 0:
		d.found("overdue", store.Warning, fmt.Sprintf("start more workers, or give them more slots; pawl runs explain %s says what the longest of them waits for", oldest.ID), "%s", strings.Join(bad, ", "))
	default:
		d.found("overdue", store.Fine, "", "nothing is due for long")
	}
	if len(crashed) > 0 {
		var list []string
		for w, n := range crashed {
			list = append(list, fmt.Sprintf("%s (%d)", w, n))
		}
		slices.Sort(list)
		d.found("crashes", store.Warning, "their workers died, hung, or lost the database; look at the workers' logs", "runs whose last lease ran out: %s", few(list))
	}
	return nil
}

// schedules looks for fire times that have passed.
func (d *doctor) schedules(ctx context.Context, eng *engine.Engine) error {
	now, err := d.store.Clock(ctx)
	if err != nil {
		return err
	}
	page, err := eng.Store().ListSchedules(ctx, store.ListSchedulesParams{Namespace: eng.Namespace(), Due: true, Limit: sample})
	if err != nil {
		return err
	}
	var late []string
	for _, s := range page.Schedules {
		if now.Sub(s.NextAt) > longOverdue {
			late = append(late, fmt.Sprintf("%s (%s)", s.Name, d.ago(s.NextAt)))
		}
	}
	if len(late) > 0 {
		d.found("schedules", store.Fault, "workers fire them: start one in this namespace, or look at the logs of those that there are; a schedule that lets its runs queue may wait for the run before", "due and not fired: %s", few(late))
		return nil
	}
	d.found("schedules", store.Fine, "", "none is late")
	return nil
}
