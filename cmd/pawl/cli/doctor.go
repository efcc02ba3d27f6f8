package cli

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

// Thresholds.
const (
	muchSkew    = 2 * time.Second
	longOverdue = time.Minute
	sample      = 1000 // runs to check
	failedSince = time.Hour
	manyFailed  = 10 // so many failures of a workflow in that time are a fault, if over half of its ended runs failed
	manyTries   = 10 // attempts that look like an endless retry
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
	}{{"workers", d.work}, {"builds", d.builds}, {"failures", d.failures}, {"retries", d.retries}, {"leases", d.leases}, {"schedules", d.schedules}, {"limits", d.limits}} {
		if err := look.look(ctx, eng); err != nil {
			return d.broken(ctx, look.name, err)
		}
	}
	return nil
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
		advice := "synchronize the clocks with NTP; leases and timers use only the database's clock, but times that programs set (engine.At) come from their machines' clocks, and times shown here from this machine's"
		if !f.SharedClock {
			advice = "synchronize the clocks with NTP: all processes that use this database need the same time"
		}
		d.found("clock", store.Warning, advice, "the database's clock is %s %s this machine's", span(skew), words)
	case f.SharedClock:
		d.found("clock", store.Fine, "", "the database's clock is %s %s this machine's; round trip %s", span(skew), words, span(trip))
	default:
		d.found("clock", store.Fine, "", "the store uses this machine's clock")
	}
	return nil
}

// work checks that every active run has a worker.
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
	b := newBacklog(counts)
	online := d.workers(workers, b)
	d.queues(workers, paused, b, online)
	d.paused(paused, b)
	return nil
}

// lane is a workflow in a queue.
type lane struct{ queue, workflow string }

// held reports whether a pause of p's queue or workflow holds back the lane.
func (l lane) held(p store.PausedTarget) bool {
	return p.Queue != "" && p.Queue == l.queue || p.Workflow != "" && p.Workflow == l.workflow
}

// backlog counts the active runs that are not paused, by lane.
type backlog struct {
	order []lane
	runs  map[lane]int64
	all   int64
	more  bool // the counts are lower bounds
}

func newBacklog(counts []store.RunCount) backlog {
	b := backlog{runs: map[lane]int64{}, more: len(capped(counts)) > 0}
	for _, c := range counts {
		l := lane{c.Queue, c.Workflow}
		if c.Status == store.Paused || c.Count == 0 {
			continue
		}
		if b.runs[l] == 0 {
			b.order = append(b.order, l)
		}
		b.runs[l] += c.Count
		b.all += c.Count
	}
	return b
}

// workers reports which workers are online, and returns how many.
func (d *doctor) workers(workers []store.Worker, b backlog) (online int) {
	var draining int
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
	seen := fmt.Sprintf("%d online", online)
	if draining > 0 {
		seen += fmt.Sprintf(", %d draining", draining)
	}
	switch {
	case online == 0 && b.all > 0:
		wait := "runs wait"
		if b.all == 1 {
			wait = "run waits"
		}
		gone := ""
		if len(offline) > 0 {
			gone = "; offline: " + few(offline)
		}
		d.found("workers", store.Fault, "start a worker in this namespace, or check that --namespace is right", "no worker is online; %s %s for one%s", bound3(b.all, b.more), wait, gone)
	case len(offline) > 0:
		d.found("workers", store.Warning, "check why they stopped, then remove them with pawl workers remove; other workers take over their runs", "%s; offline: %s", seen, few(offline))
	default:
		d.found("workers", store.Fine, "", "%s", seen)
	}
	return online
}

// queues reports the lanes that have runs but no online worker.
func (d *doctor) queues(workers []store.Worker, paused []store.PausedTarget, b backlog, online int) {
	var alone []string
	for _, l := range b.order {
		served := slices.ContainsFunc(workers, func(w store.Worker) bool { return w.Serves(l.queue, l.workflow) })
		if served || slices.ContainsFunc(paused, l.held) {
			continue
		}
		s := fmt.Sprintf("workflow %q", l.workflow)
		if l.queue != l.workflow {
			s += fmt.Sprintf(" in queue %q", l.queue)
		}
		alone = append(alone, fmt.Sprintf("%s (%s %s)", s, bound3(b.runs[l], b.more), plural(b.runs[l], "run")))
	}
	if len(alone) > 0 && online > 0 {
		d.found("queues", store.Fault, "start a worker that registers these workflows; if a queue is not the workflow's own, add it with worker.Queues; pawl workers list --json shows which worker takes which workflow from which queue", "no online worker takes %s", few(alone))
	} else if online > 0 || b.all == 0 {
		d.found("queues", store.Fine, "", "every waiting run has an online worker")
	}
}

// paused reports paused queues and workflows, and how many runs they hold back.
func (d *doctor) paused(paused []store.PausedTarget, b backlog) {
	var held []string
	for _, p := range paused {
		var n int64
		for l, c := range b.runs {
			if l.held(p) {
				n += c
			}
		}
		what, cmd := fmt.Sprintf("queue %q", p.Queue), "queues resume "+p.Queue
		if p.Workflow != "" {
			what, cmd = fmt.Sprintf("workflow %q", p.Workflow), "workflows resume "+p.Workflow
		}
		held = append(held, fmt.Sprintf("%s since %s, holding back %s %s (pawl %s)", what, d.ago(p.Since), bound3(n, b.more), plural(n, "run"), cmd))
	}
	if len(held) > 0 {
		d.found("paused", store.Warning, "if the pause is no longer needed, resume with the commands above", "%s", few(held))
		return
	}
	d.found("paused", store.Fine, "", "no queue and no workflow is paused")
}

func few(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], ", ") + fmt.Sprintf(" and %d more", len(list)-5)
	}
	return strings.Join(list, ", ")
}

// failures checks how the runs of the last hour ended.
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
		d.found("failures", store.Fine, "", "0 of %s %s that ended in the last hour failed", bound3(all.ended, more), plural(all.ended, "run"))
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
		list = append(list, fmt.Sprintf("%s %s of %s (%d%%), mostly with code %q", t.workflow, bound3(t.failed, more), bound3(t.ended, more), 100*t.failed/t.ended, most))
	}
	d.found("failures", level, "to count the causes: pawl runs count --status failed --since 1h --by-failure; to list the runs: pawl runs list --status failed --since 1h; to restart them once the cause is fixed: pawl runs restart --status failed --since 1h",
		"%s of %s %s that ended in the last hour failed: %s", bound3(all.failed, more), bound3(all.ended, more), plural(all.ended, "run"), few(list))
	return nil
}

// retries looks for runs and steps with very many attempts.
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
		d.found("retries", store.Fine, "", "no active run or step has %d or more attempts", manyTries)
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, fmt.Sprintf("%s (%s)", name, bound3(byName[name], more)))
	}
	d.found("retries", store.Warning, fmt.Sprintf("to list the runs: pawl runs list --status active --attempts %d; to see the errors: pawl runs show RUN; to end runs that will never succeed: pawl runs cancel", manyTries),
		"%s active %s with at least %d attempts of the run or of one step: %s", bound3(n, more), plural(n, "run"), manyTries, few(list))
	return nil
}

// leases looks for runs that are overdue: pending, or with an expired lease.
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
		bad = append(bad, fmt.Sprintf("%d %s a lease that expired more than a minute ago", lapsed, map[bool]string{true: "run has", false: "runs have"}[lapsed == 1]))
	}
	if late > 0 {
		bad = append(bad, fmt.Sprintf("%d pending %s overdue by more than a minute", late, map[bool]string{true: "run is", false: "runs are"}[late == 1]))
	}
	switch {
	case len(bad) > 0:
		d.found("overdue", store.Warning, fmt.Sprintf("start more workers, or give them more slots; to see what the most overdue run waits for: pawl runs explain %s", oldest.ID), "%s", strings.Join(bad, ", "))
	default:
		d.found("overdue", store.Fine, "", "no run is overdue")
	}
	if len(crashed) > 0 {
		var list []string
		for w, n := range crashed {
			list = append(list, fmt.Sprintf("%s (%d)", w, n))
		}
		slices.Sort(list)
		d.found("crashes", store.Warning, "their workers crashed, hung, or lost the connection to the database; check the workers' logs", "runs whose last lease expired: %s", few(list))
	}
	return nil
}

// schedules looks for overdue fire times.
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
		d.found("schedules", store.Fault, "workers fire schedules: start a worker in this namespace, or check the logs of those that are online; a schedule with overlap policy queue may be waiting for its previous run", "due but not fired: %s", few(late))
		return nil
	}
	d.found("schedules", store.Fine, "", "no schedule is late")
	return nil
}
