package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Thresholds of [Engine.Doctor].
const (
	muchSkew    = 2 * time.Second
	longOverdue = time.Minute
	sample      = 1000 // runs to check
	failedSince = time.Hour
	manyFailed  = 10 // so many failures of a workflow in that time are a fault, if over half of its ended runs failed
	manyTries   = 10 // attempts that look like an endless retry
)

// Doctor looks for problems of the database, of the workers and of the runs of the namespace, and
// returns what each check has found, with advice in words and commands of the command line. It changes
// nothing, and reads a bounded number of runs. A check that fails is a finding too, and the last one. now
// is this machine's clock, which is compared with the store's; nil means time.Now.
// Doctor fails only if the context has ended.
func (e *Engine) Doctor(ctx context.Context, now func() time.Time) ([]store.Finding, error) {
	d := doctor{e: e, now: now}
	if now == nil {
		d.now = time.Now
	}
	err := d.examine(ctx)
	return d.findings, err
}

// doctor collects findings.
type doctor struct {
	e        *Engine
	now      func() time.Time
	findings []store.Finding
}

func (d *doctor) found(name string, level store.Level, advice, seen string, args ...any) {
	d.findings = append(d.findings, store.Finding{Name: name, Level: level, Advice: advice, Seen: fmt.Sprintf(seen, args...)})
}

// examine makes the checks in order. It stops if a check fails.
func (d *doctor) examine(ctx context.Context) error {
	if err := d.clock(ctx); err != nil {
		return d.broken(ctx, "clock", err)
	}
	if diagnoser, ok := d.e.store.(store.Diagnoser); ok {
		list, err := diagnoser.Diagnose(ctx)
		d.findings = append(d.findings, list...)
		if err != nil {
			return d.broken(ctx, "database", err)
		}
	}
	for _, look := range []struct {
		name string
		look func(context.Context) error
	}{{"workers", d.work}, {"builds", d.builds}, {"failures", d.failures}, {"retries", d.retries}, {"leases", d.leases}, {"schedules", d.schedules}, {"limits", d.limits}, {"subscriptions", d.subscriptions}} {
		if err := look.look(ctx); err != nil {
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
	if store.Retryable(err) {
		advice = "check that the server is running and that this machine can reach it, then try again"
	}
	d.found(name, store.Fault, advice, "%v", err)
	return nil
}

func (d *doctor) clock(ctx context.Context) error {
	before := d.now()
	now, err := d.e.store.Clock(ctx)
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
	switch f := d.e.store.Features(); {
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
func (d *doctor) work(ctx context.Context) error {
	workers, err := d.e.Workers(ctx)
	if err != nil {
		return err
	}
	counts, err := d.e.Count(ctx, store.RunFilter{Statuses: active()})
	if err != nil {
		return err
	}
	paused, err := d.e.Paused(ctx)
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
func (d *doctor) failures(ctx context.Context) error {
	now, err := d.e.store.Clock(ctx)
	if err != nil {
		return err
	}
	counts, err := d.e.CountFailures(ctx, store.RunFilter{
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
func (d *doctor) retries(ctx context.Context) error {
	counts, err := d.e.CountFailures(ctx, store.RunFilter{Statuses: active(), MinAttempt: manyTries})
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
func (d *doctor) leases(ctx context.Context) error {
	page, err := d.e.store.List(ctx, store.ListParams{
		Namespace: d.e.namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Running, store.Canceling, store.Pending}}, OldestFirst: true, Limit: sample,
		MaxScan: 10 * store.DefaultScan,
	})
	if err != nil {
		return err
	}
	now, err := d.e.store.Clock(ctx)
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
func (d *doctor) schedules(ctx context.Context) error {
	now, err := d.e.store.Clock(ctx)
	if err != nil {
		return err
	}
	page, err := d.e.store.ListSchedules(ctx, store.ListSchedulesParams{Namespace: d.e.namespace, Due: true, Limit: sample})
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

// builds reports runs that are pinned to a build without an online worker.
func (d *doctor) builds(ctx context.Context) error {
	builds, err := d.e.Stranded(ctx)
	if err != nil {
		return err
	}
	if len(builds) == 0 {
		d.found("builds", store.Fine, "", "no run is stranded")
		return nil
	}
	var list []string
	for _, b := range builds {
		list = append(list, fmt.Sprintf("build %q (%s %s)", b.Name, group3(b.Pinned), plural(b.Pinned, "run")))
	}
	d.found("builds", store.Fault, "start workers of these builds, or let any build try the runs with pawl runs unpin --stranded; to list the runs: pawl runs list --stranded; to see why a run is pinned: pawl runs explain RUN",
		"runs are pinned to builds without an online worker: %s", few(list))
	return nil
}

// bound3 is group3, with a plus sign after a lower bound.
func bound3(n int64, capped bool) string {
	if capped {
		return group3(n) + "+"
	}
	return group3(n)
}

// capped returns the statuses whose counts are lower bounds.
func capped(counts []store.RunCount) (names []string) {
	for _, s := range store.Statuses() {
		if slices.ContainsFunc(counts, func(c store.RunCount) bool { return c.Status == s && c.Capped }) {
			names = append(names, s.String())
		}
	}
	return names
}

// group3 formats a number with its digits in groups of three.
func group3(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span formats a duration.
func span(d time.Duration) string {
	d = max(d, 0)
	part := func(big time.Duration, b string, small time.Duration, s string) string {
		n, rest := d/big, d%big/small
		if rest == 0 {
			return fmt.Sprintf("%d%s", n, b)
		}
		return fmt.Sprintf("%d%s%d%s", n, b, rest, s)
	}
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return part(time.Minute, "m", time.Second, "s")
	case d < day:
		return part(time.Hour, "h", time.Minute, "m")
	case d < 365*day:
		return part(day, "d", time.Hour, "h")
	}
	return part(365*day, "y", day, "d")
}

// ago formats a time relative to now.
func (d *doctor) ago(t time.Time) string {
	switch d := d.now().Sub(t); {
	case t.IsZero():
		return ""
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
