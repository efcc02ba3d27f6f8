package procs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// evidence is what is known independently of the store.
type evidence struct {
	asked   map[store.ID]ask // starts that were tried
	acked   map[store.ID]ack // those acknowledged
	journal []entry
	paused  map[int][]span // by process id: when it was stopped

	// forgets says that the database has lost acknowledged writes: runs may be gone, and what the
	// processes recorded about existing runs need not have happened.
	forgets bool
}

func newEvidence() *evidence {
	return &evidence{asked: map[store.ID]ask{}, acked: map[store.ID]ack{}, paused: map[int][]span{}}
}

// ask is a start that was tried, ack the answer to one; at is when, in microseconds.
type (
	ask struct {
		order
		at int64
	}
	ack struct {
		run store.ID
		at  int64
	}
)

type span struct{ from, to time.Time }

// complaints are the findings of a checker.
type complaints struct {
	list []string
	more int
}

func (c *complaints) addf(format string, args ...any) {
	if len(c.list) < 20 {
		c.list = append(c.list, fmt.Sprintf(format, args...))
	} else {
		c.more++
	}
}

func (c *complaints) count() int { return len(c.list) + c.more }

func (c *complaints) err() error {
	if len(c.list) == 0 {
		return nil
	}
	text := strings.Join(c.list, "\n")
	if c.more > 0 {
		text += fmt.Sprintf("\nand %d more", c.more)
	}
	return errors.New(text)
}

// outcome is what the API returns.
type outcome struct {
	runs   map[store.ID]store.Run
	orders map[store.ID]order
	steps  map[store.ID]map[store.StepKey]store.Step
	fired  int // runs that schedules have started
	wrong  int // runs whose history is not what their input asks for
}

// String returns how many runs there are of each workflow.
func (out *outcome) String() string {
	kinds := map[string]int{}
	for _, run := range out.runs {
		kinds[run.Workflow+" "+run.Status.String()]++
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return "runs: " + strings.Join(list, ", ")
}

// stuck returns how many runs are not final.
func (out *outcome) stuck() (n int) {
	for _, run := range out.runs {
		if !run.Status.Final() {
			n++
		}
	}
	return n
}

// readOutcome reads everything through the engine.
func readOutcome(ctx context.Context, eng *engine.Engine) (*outcome, error) {
	o := &outcome{runs: map[store.ID]store.Run{}, orders: map[store.ID]order{}, steps: map[store.ID]map[store.StepKey]store.Step{}}
	for cursor := ""; ; {
		page, err := eng.List(ctx, store.RunFilter{}, cursor, store.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Runs {
			if _, twice := o.runs[row.ID]; twice {
				return nil, fmt.Errorf("run %s is listed twice", row.ID)
			}
			run, err := eng.Get(ctx, row.ID)
			if err != nil {
				return nil, err
			}
			var in order
			if err := json.Unmarshal(run.Input, &in); err != nil {
				return nil, fmt.Errorf("input of run %s: %w", run.ID, err)
			}
			steps, err := eng.Steps(ctx, run.ID)
			if err != nil {
				return nil, err
			}
			byKey := map[store.StepKey]store.Step{}
			for _, s := range steps {
				if _, twice := byKey[s.StepKey]; twice {
					return nil, fmt.Errorf("step %s of run %s is recorded twice", s.StepKey, run.ID)
				}
				byKey[s.StepKey] = s
			}
			o.runs[run.ID], o.orders[run.ID], o.steps[run.ID] = run, in, byKey
		}
		if cursor = page.Next; cursor == "" {
			return o, nil
		}
	}
}

// checkAPI compares what the API returns with what was asked for.
func checkAPI(ctx context.Context, eng *engine.Engine, ev *evidence, out *outcome) error {
	var c complaints
	counts, err := eng.Count(ctx, store.RunFilter{})
	if err != nil {
		return err
	}
	total := int64(0)
	for _, n := range counts {
		total += n.Count
	}
	if total != int64(len(out.runs)) {
		c.addf("Count says %d runs, List gives %d", total, len(out.runs))
	}
	for id, ack := range ev.acked {
		want := ev.asked[id]
		run, found := out.runs[ack.run]
		switch {
		case !found && ev.forgets: // lost completely: nothing else refers to it
		case !found:
			c.addf("run %s was acknowledged but does not exist", ack.run)
		case id != ack.run && (want.ID == "" || run.ExternalID != want.ID):
			c.addf("start %s of external id %q was answered with run %s of external id %q", id, want.ID, ack.run, run.ExternalID)
		}
		if _, made := out.runs[id]; made && id != ack.run {
			c.addf("start %s was answered with run %s, yet it made a run", id, ack.run)
		}
	}
	for id, run := range out.runs {
		want, asked := ev.asked[id]
		if mine := out.orders[id]; !asked && (!run.Parent.IsZero() || mine.Kind == "tick") {
			want.order, asked = mine, true // checkChildren and checkFirings check who has started it
		}
		if !asked {
			c.addf("run %s exists, but nobody has started it", id)
			continue
		}
		if want.order != out.orders[id] {
			c.addf("run %s has another input than it was started with: %+v", id, out.orders[id])
			continue
		}
		before := c.count()
		out.checkRun(&c, &run, want.order)
		if c.count() > before {
			out.wrong++
		}
	}
	out.checkChildren(&c)
	if err := out.checkFirings(ctx, eng, &c); err != nil {
		return err
	}
	return c.err()
}

// checkChildren checks that a run has the children that its input asks for, each of them once.
func (out *outcome) checkChildren(c *complaints) {
	children := map[store.ID]map[order]int{}
	for id, run := range out.runs {
		if run.Parent.IsZero() {
			continue
		}
		if _, found := out.runs[run.Parent]; !found {
			c.addf("run %s is a child of run %s, which does not exist", id, run.Parent)
		}
		if children[run.Parent] == nil {
			children[run.Parent] = map[order]int{}
		}
		children[run.Parent][out.orders[id]]++
	}
	for id, o := range out.orders {
		kids := o.kids()
		for _, kid := range kids {
			if n := children[id][kid]; n != 1 {
				c.addf("run %s has child %+v %d times", id, kid, n)
			}
		}
		if n := len(children[id]); n > len(kids) {
			c.addf("run %s has children of %d kinds, expected %d", id, n, len(kids))
		}
	}
}

// checkFirings checks that each fire time of a schedule has started one run, and nothing else has.
func (out *outcome) checkFirings(ctx context.Context, eng *engine.Engine, c *complaints) error {
	page, err := eng.Schedules(ctx, "", store.MaxPage)
	if err != nil {
		return err
	}
	fired := map[store.ID]time.Time{}
	for _, s := range page.Schedules {
		times := map[time.Time]bool{}
		for cursor := ""; ; {
			firings, err := eng.Firings(ctx, s.Name, cursor, store.MaxPage)
			if err != nil {
				return err
			}
			for _, f := range firings.Firings {
				if times[f.At] {
					c.addf("schedule %s fired %v twice", s.Name, f.At)
				}
				times[f.At] = true
				if f.Run.IsZero() {
					continue
				}
				if at, twice := fired[f.Run]; twice {
					c.addf("run %s was started at %v and at %v by schedule %s", f.Run, at, f.At, s.Name)
				}
				fired[f.Run] = f.At
				if _, found := out.runs[f.Run]; !found {
					c.addf("schedule %s has fired %v with run %s, which does not exist", s.Name, f.At, f.Run)
				}
			}
			if cursor = firings.Next; cursor == "" {
				break
			}
		}
	}
	for id, o := range out.orders {
		if _, found := fired[id]; o.Kind == "tick" && !found {
			c.addf("run %s of a schedule is in no record of its firings", id)
		}
	}
	out.fired = len(fired)
	return nil
}

// checkRun checks one run that must have completed.
func (out *outcome) checkRun(c *complaints, run *store.Run, want order) {
	steps := out.steps[run.ID]
	if want.canceled() {
		out.checkCanceled(c, run, want)
		return
	}
	if run.Status != store.Completed {
		c.addf("run %s (%s) is %v: %+v", run.ID, run.Workflow, run.Status, run.Failure)
		return
	}
	if got, wanted := string(run.Output), strconv.Quote(want.output()); got != wanted {
		c.addf("run %s returned %s, expected %s", run.ID, got, wanted)
	}
	if want.Kind == "tick" {
		want.ID = run.ExternalID // created by the schedule
	}
	if run.Workflow != want.Kind || run.ExternalID != want.ID || run.Attempt != want.runAttempt() {
		c.addf("run %s: workflow %q, external id %q, attempt %d; expected %q, %q, %d", run.ID, run.Workflow, run.ExternalID, run.Attempt, want.Kind, want.ID, want.runAttempt())
	}
	if visible := run.CreatedAt.Add(want.Delay); run.StartedAt.Before(visible) {
		c.addf("run %s was started %v before its time", run.ID, visible.Sub(run.StartedAt))
	}
	if run.Worker == "" || !run.VisibleAt.IsZero() || run.FinishedAt.IsZero() || run.Crashes != 0 || run.FinishedAt.Before(run.StartedAt) {
		c.addf("run %s is final, but: worker %q, visible at %v, started at %v, finished at %v, %d crashes", run.ID, run.Worker, run.VisibleAt, run.StartedAt, run.FinishedAt, run.Crashes)
	}
	all := want.steps()
	if len(steps) != len(all) {
		c.addf("run %s (%s) has %d steps, expected %d", run.ID, want.Kind, len(steps), len(all))
	}
	for _, w := range all {
		s, found := steps[w.StepKey]
		switch {
		case !found:
			c.addf("step %s of run %s is missing", w.StepKey, run.ID)
		case s.Status != store.StepCompleted || s.Kind != w.kind || s.Attempt < w.attempt || s.Attempt > w.attempt && !w.tx:
			c.addf("step %s of run %s is a %v, %v in attempt %d; expected a %v, completed in attempt %d", w.StepKey, run.ID, s.Kind, s.Status, s.Attempt, w.kind, w.attempt)
		case w.output != "" && string(s.Output) != w.output:
			c.addf("step %s of run %s returned %s, expected %s", w.StepKey, run.ID, s.Output, w.output)
		case s.Epoch < 1 || s.Epoch > run.Epoch:
			c.addf("step %s of run %s was recorded in epoch %d of %d", w.StepKey, run.ID, s.Epoch, run.Epoch)
		case s.FinishedAt.Before(s.DueAt):
			c.addf("step %s of run %s ended %v before it was due", w.StepKey, run.ID, s.DueAt.Sub(s.FinishedAt))
		}
	}
	if want.Kind == "nap" {
		out.checkNap(c, run, want)
	}
}

// checkCanceled checks one run that must have been canceled, in any state.
func (out *outcome) checkCanceled(c *complaints, run *store.Run, want order) {
	if run.Status != store.Canceled || !run.VisibleAt.IsZero() || run.FinishedAt.IsZero() {
		c.addf("run %s (%s) is %v: worker %q, visible at %v, finished at %v; expected it canceled", run.ID, run.Workflow, run.Status, run.Worker, run.VisibleAt, run.FinishedAt)
	}
	before := true
	for _, w := range want.steps() {
		s, found := out.steps[run.ID][w.StepKey]
		if found && !before {
			c.addf("run %s was canceled with step %s and without the one before", run.ID, w.StepKey)
		}
		before = found && s.Status == store.StepCompleted
	}
}

// checkNap checks the sleep with the times that the steps around it have read.
func (out *outcome) checkNap(c *complaints, run *store.Run, want order) {
	read := func(name string) time.Time {
		var t int64
		if err := json.Unmarshal(out.steps[run.ID][store.StepKey{Name: name, Occurrence: 1}].Output, &t); err != nil {
			c.addf("step %s of run %s: %v", name, run.ID, err)
		}
		return time.UnixMicro(t)
	}
	dozed, woke := read("doze"), read("wake")
	if early := dozed.Add(want.Wait).Sub(woke); early > 0 {
		c.addf("run %s slept from %v to %v: it woke %v early", run.ID, dozed, woke, early)
	}
	if due := out.steps[run.ID][store.StepKey{Name: "nap", Occurrence: 1}].DueAt; woke.Before(due) {
		c.addf("run %s woke %v before its sleep was due", run.ID, due.Sub(woke))
	}
}

// tally is what the journals show in addition to complaints.
type tally struct {
	claims, takeovers, commits, repeated int
	effects                              int
	again                                int            // effects that had happened before
	late                                 int            // of these: after the step's record, by a process that was stopped in the meantime
	unknown, known                       int            // commits whose answer was lost, and those of them whose outcome was learned later
	blind                                map[string]int // claims and creates whose answer was lost
	asked, applied                       int            // transactions of steps whose outcome was asked for, and those that had been applied
	quiet                                time.Duration  // the longest time between two signs of life of a run that a worker held
}

// checkJournal compares what the processes did with what is recorded.
func checkJournal(ev *evidence, out *outcome) (tally, error) {
	var c complaints
	var sum tally
	sum.blind = map[string]int{}
	type byRun struct{ claims, extends, commits, effects, releases, unknown []entry }
	runs := map[store.ID]*byRun{}
	for _, e := range ev.journal {
		if e.Op == "blind" {
			sum.blind[e.Step]++
			continue
		}
		if e.Op == "asked" {
			sum.asked++
			if e.Step == "recorded" {
				sum.applied++
			}
			continue
		}
		r := runs[e.Run]
		if r == nil {
			r = &byRun{}
			runs[e.Run] = r
		}
		switch e.Op {
		case "claim":
			r.claims = append(r.claims, e)
		case "extend":
			r.extends = append(r.extends, e)
		case "commit":
			r.commits = append(r.commits, e)
		case "effect":
			r.effects = append(r.effects, e)
		case "release":
			r.releases = append(r.releases, e)
		case "unknown":
			r.unknown = append(r.unknown, e)
		}
	}
	for id, r := range runs {
		if _, found := out.runs[id]; !found && ev.forgets {
			continue
		} else if !found {
			c.addf("somebody has worked on run %s, which does not exist", id)
			continue
		}
		sum.claims += len(r.claims)
		sum.effects += len(r.effects)
		checkLeases(&c, &sum, id, r.claims, r.extends, r.releases)
		r.claims = withoutReleased(r.claims, r.releases, r.commits)
		sum.takeovers += takeovers(r.claims)
		checkCommits(&c, &sum, id, r.claims, r.commits)
		sum.learned(r.unknown, r.commits)
		sum.quiet = max(sum.quiet, quiet(r.claims, r.commits, r.effects))
		out.checkEffects(&c, &sum, ev, id, r.claims, r.effects)
	}
	for id := range out.runs {
		if runs[id] == nil && !out.orders[id].canceled() {
			c.addf("nobody has worked on run %s, yet it is final", id)
		}
	}
	out.checkExternalIDs(&c, ev)
	if ev.forgets {
		return sum, nil // what was remembered and what is recorded need not agree
	}
	return sum, c.err()
}

// learned counts the commits of a run whose answer was lost, and those of them that were answered
// when they were sent again.
func (sum *tally) learned(unknown, commits []entry) {
	type number struct{ epoch, seq int64 }
	lost := map[number]bool{}
	for _, e := range unknown {
		lost[number{e.Epoch, e.Seq}] = true
	}
	sum.unknown += len(lost)
	for _, e := range commits {
		if n := (number{e.Epoch, e.Seq}); lost[n] {
			delete(lost, n)
			sum.known++
		}
	}
}

// quiet is the longest time between two signs of life of a run, from its first
// claim on.
func quiet(lists ...[]entry) (longest time.Duration) {
	var at []int64
	for _, list := range lists {
		for _, e := range list {
			at = append(at, max(e.From, e.To))
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		longest = max(longest, time.Duration(at[i]-at[i-1])*time.Microsecond)
	}
	return longest
}

// checkExternalIDs checks that an external id has one active run (P8). The times in the rows cannot
// be used, because they are read before the write waits for its turn; a run was certainly active
// between its acknowledgement and the call that finished it.
func (out *outcome) checkExternalIDs(c *complaints, ev *evidence) {
	began, ended := map[store.ID]int64{}, map[store.ID]int64{} // of the commit that finished the run
	for _, e := range ev.journal {
		if e.Op == "commit" && e.Final {
			ended[e.Run] = e.To
			if !e.Repeated {
				began[e.Run] = e.From
			}
		}
	}
	made := map[string][]store.ID{}
	for id, a := range ev.acked {
		want := ev.asked[id]
		if want.ID == "" {
			continue
		}
		if id == a.run {
			made[want.ID] = append(made[want.ID], id)
		} else if end, ok := ended[a.run]; ok && end < want.at {
			c.addf("start %s of external id %q was answered with run %s, which had finished", id, want.ID, a.run)
		}
	}
	for external, ids := range made {
		for _, a := range ids {
			for _, b := range ids {
				if end, ok := began[a]; ok && a != b && ev.acked[a].at < ev.asked[b].at && ev.acked[b].at < end {
					c.addf("run %s of external id %q was made while run %s was active", b, external, a)
				}
			}
		}
	}
}

// checkLeases checks that an epoch is granted once (P1), and that a lease is not taken over while
// it is valid (P13), unless its holder has given the run back, or has tried to. A claim that
// succeeded while its process was killed has no entry.
func checkLeases(c *complaints, sum *tally, id store.ID, claims, extends, releases []entry) {
	until := map[int64]entry{} // the longest lease of each epoch
	note := func(e entry) {
		if l, ok := until[e.Epoch]; !ok || e.From+e.Lease > l.From+l.Lease {
			until[e.Epoch] = e
		}
	}
	given := map[int64]entry{}
	for _, e := range claims {
		if first, twice := given[e.Epoch]; twice {
			c.addf("run %s, epoch %d was given to processes %d and %d", id, e.Epoch, first.PID, e.PID)
		}
		given[e.Epoch] = e
		note(e)
	}
	for _, e := range extends {
		note(e)
	}
	for _, e := range releases {
		delete(until, e.Epoch)
	}
	for _, e := range claims {
		if !e.Recovered {
			continue
		}
		// The lease began after From, and the claim had its answer at To.
		if before, ok := until[e.Epoch-1]; ok && e.To+1 < before.From+before.Lease {
			c.addf("run %s: process %d took over epoch %d of process %d at least %d µs before its end", id, e.PID, before.Epoch, before.PID, before.From+before.Lease-e.To)
		}
	}
}

// takeovers counts the leases that were granted because the previous one had expired.
func takeovers(claims []entry) (n int) {
	for _, e := range claims {
		if e.Recovered {
			n++
		}
	}
	return n
}

// withoutReleased returns the claims, with Recovered unset where it does not mean that a lease
// expired: the previous holder has given the run back and got the answer.
func withoutReleased(claims, releases, commits []entry) []entry {
	type number struct{ epoch, seq int64 }
	asked, over := map[number]bool{}, map[int64]bool{}
	for _, e := range releases {
		asked[number{e.Epoch, e.Seq}] = true
	}
	for _, e := range commits {
		if asked[number{e.Epoch, e.Seq}] {
			over[e.Epoch] = true
		}
	}
	claims = slices.Clone(claims)
	for i := range claims {
		e := &claims[i]
		e.Recovered = e.Recovered && !over[e.Epoch-1]
	}
	return claims
}

// checkCommits checks that a commit is applied once (P4), and never after a newer lease (P2).
func checkCommits(c *complaints, sum *tally, id store.ID, claims, commits []entry) {
	type number struct{ epoch, seq int64 }
	applied := map[number]entry{}
	for _, e := range commits {
		if e.Repeated {
			sum.repeated++
			continue
		}
		sum.commits++
		n := number{e.Epoch, e.Seq}
		if first, twice := applied[n]; twice {
			c.addf("run %s: commit %d of epoch %d was applied twice, by processes %d and %d", id, e.Seq, e.Epoch, first.PID, e.PID)
		}
		applied[n] = e
		for _, newer := range claims {
			if newer.Epoch > e.Epoch && newer.To < e.From {
				c.addf("run %s: process %d committed under epoch %d after process %d had been given epoch %d", id, e.PID, e.Epoch, newer.PID, newer.Epoch)
			}
		}
	}
}

// checkEffects checks that what is recorded was done, and was repeated only if a crash, or what
// looked like one, came between the work and its record.
func (out *outcome) checkEffects(c *complaints, sum *tally, ev *evidence, id store.ID, claims, effects []entry) {
	slices.SortFunc(effects, func(a, b entry) int { return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.From, b.From)) })
	held := map[int64]entry{}
	for _, e := range claims {
		held[e.Epoch] = e
	}
	// takenOver reports whether a lease after the one epoch and up to the other was granted because
	// the previous one had expired.
	takenOver := func(after, upTo int64) bool {
		for _, e := range claims {
			if e.Recovered && e.Epoch > after && e.Epoch <= upTo {
				return true
			}
		}
		return false
	}
	done := map[work][]entry{}
	first := map[work]int64{}
	for _, e := range effects {
		w := work{e.stepKey(), e.Try, e.Attempt}
		step, recorded := out.steps[id][w.key]
		if lease, ok := held[e.Epoch]; !ok || lease.PID != e.PID {
			c.addf("run %s: process %d did step %s without a lease of epoch %d", id, e.PID, w.key, e.Epoch)
		}
		if key := id.String() + "/" + w.key.String(); e.Key != key {
			c.addf("run %s: step %s had the idempotency key %q, expected %q", id, w.key, e.Key, key)
		}
		if before := done[w]; len(before) > 0 {
			sum.again++
			if last := before[len(before)-1]; !takenOver(last.Epoch, e.Epoch) {
				c.addf("run %s: attempt %d of step %s was done by process %d in epoch %d and by process %d in epoch %d, but no lease between them had run out",
					id, e.Attempt, w.key, last.PID, last.Epoch, e.PID, e.Epoch)
			}
		}
		done[w] = append(done[w], e)
		if at, ok := first[w]; !ok || e.From < at {
			first[w] = e.From
		}
		if !recorded || !step.Status.Final() {
			continue
		}
		if e.Epoch > step.Epoch {
			c.addf("run %s: process %d did step %s in epoch %d though epoch %d had recorded it", id, e.PID, w.key, e.Epoch, step.Epoch)
		} else if e.From > step.FinishedAt.UnixMicro() {
			// Its lease was lost. A worker begins no step under a lease that it knows to have
			// expired; this can happen only if the worker was stopped between that check and the
			// step's first line.
			sum.late++
			if e.Epoch == step.Epoch || !ev.stopped(e.PID, held[e.Epoch].From, e.From) {
				c.addf("run %s: process %d began step %s of epoch %d at %d, after epoch %d had recorded it at %d, and it was not stopped before",
					id, e.PID, w.key, e.Epoch, e.From, step.Epoch, step.FinishedAt.UnixMicro())
			}
		}
	}
	out.checkOrder(c, id, effects)
	out.checkDone(c, id, done)
	// Retries keep their distance, less a random part of up to a fifth.
	for w, at := range first {
		before, ok := first[work{w.key, w.try, w.attempt - 1}]
		if wait := out.orders[id].Wait.Microseconds() * 8 / 10; ok && at-before < wait {
			c.addf("run %s: attempt %d of step %s came %d µs after the one before, expected %d at least", id, w.attempt, w.key, at-before, wait)
		}
	}
}

// work is one attempt of a step, in one attempt of its run.
type work struct {
	key          store.StepKey
	try, attempt int
}

// checkDone checks that the lease which recorded a step has done its work.
func (out *outcome) checkDone(c *complaints, id store.ID, done map[work][]entry) {
	silent := map[store.StepKey]bool{}
	for _, w := range out.orders[id].steps() {
		silent[w.StepKey] = w.tx || w.silent
	}
	for key, step := range out.steps[id] {
		if step.Kind != store.KindFunction || silent[key] || step.Status != store.StepCompleted {
			continue
		}
		list := done[work{key, out.runs[id].Attempt, step.Attempt}]
		if out.runs[id].Workflow == "again" && key.Name == "keep" { // recorded by the attempt that failed
			list = done[work{key, 1, step.Attempt}]
		}
		if !slices.ContainsFunc(list, func(e entry) bool { return e.Epoch == step.Epoch }) {
			c.addf("run %s: step %s is recorded by epoch %d, which has not done it", id, key, step.Epoch)
		}
	}
}

// checkOrder checks that a side effect begins when everything before it is durable, so that what
// came before it in its line of execution is never done again.
func (out *outcome) checkOrder(c *complaints, id store.ID, effects []entry) {
	place := map[store.StepKey]int{}
	for i, w := range out.orders[id].steps() {
		place[w.StepKey] = i
	}
	for _, a := range effects {
		for _, b := range effects {
			ka, kb := a.stepKey(), b.stepKey()
			before := ka.Related(kb) && cmp.Or(cmp.Compare(a.Try, b.Try), cmp.Compare(place[ka], place[kb]), cmp.Compare(a.Attempt, b.Attempt)) < 0
			if before && a.Epoch > b.Epoch {
				c.addf("run %s: attempt %d of step %s was done in epoch %d after attempt %d of step %s had begun in epoch %d: it was not durable by then",
					id, a.Attempt, ka, a.Epoch, b.Attempt, kb, b.Epoch)
			}
		}
	}
}

// kept returns the starts that were acknowledged and whose run exists.
func (ev *evidence) kept(out *outcome) (list []store.ID) {
	for id, a := range ev.acked {
		if _, found := out.runs[a.run]; found {
			list = append(list, id)
		}
	}
	return list
}

// stopped reports whether a process was stopped at some time between.
func (ev *evidence) stopped(pid int, from, to int64) bool {
	return slices.ContainsFunc(ev.paused[pid], func(s span) bool {
		return s.from.UnixMicro() <= to && (s.to.IsZero() || s.to.UnixMicro() >= from)
	})
}

// hear parses a line of a starter.
func (ev *evidence) hear(line string) error {
	part := strings.SplitN(line, " ", 4)
	if len(part) != 4 {
		return fmt.Errorf("%q is not understood", line)
	}
	id, err1 := store.ParseID(part[1])
	at, err2 := strconv.ParseInt(part[2], 10, 64)
	err := errors.Join(err1, err2)
	switch part[0] {
	case "ask":
		a := ask{at: at}
		err = errors.Join(err, json.Unmarshal([]byte(part[3]), &a.order))
		ev.asked[id] = a
	case "ack":
		run, bad := store.ParseID(part[3])
		err = errors.Join(err, bad)
		ev.acked[id] = ack{run, at}
	default:
		err = errors.New("no such verb")
	}
	if err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	return nil
}
