package enginetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// clocked is a store whose clock the case sets: for schedules, housekeeping and the runs that they
// create.
type clocked struct {
	store.Store
	mu  sync.Mutex
	now time.Time
}

func (s *clocked) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *clocked) set(e *E, text string) {
	e.Helper()
	t, err := time.Parse(time.RFC3339, text)
	e.ok("a time", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = t
}

func (s *clocked) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *clocked) Clock(context.Context) (time.Time, error) { return s.time(), nil }

func (s *clocked) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	p.Now = s.time()
	return s.Store.Create(ctx, p)
}

func (s *clocked) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Now = s.time()
	return s.Store.Claim(ctx, p)
}

func (s *clocked) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	p.Now = s.time()
	return s.Store.Commit(ctx, p)
}

func (s *clocked) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	p.Now = s.time()
	return s.Store.Cancel(ctx, p)
}

func (s *clocked) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	p.Now = s.time()
	return s.Store.PutSchedule(ctx, p)
}

func (s *clocked) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	p.Now = s.time()
	return s.Store.ListSchedules(ctx, p)
}

func (s *clocked) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	p.Now = s.time()
	return s.Store.Fire(ctx, p)
}

func (s *clocked) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	p.Now = s.time()
	return s.Store.Lock(ctx, p)
}

func (s *clocked) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	p.Now = s.time()
	return s.Store.Purge(ctx, p)
}

func (s *clocked) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	p.Now = s.time()
	return s.Store.PutWorker(ctx, p)
}

func (s *clocked) ListWorkers(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
	p.Now = s.time()
	return s.Store.ListWorkers(ctx, p)
}

func (s *clocked) AskWorkers(ctx context.Context, p store.AskWorkersParams) (int, error) {
	p.Now = s.time()
	return s.Store.AskWorkers(ctx, p)
}

// at returns an engine at a given time.
func (e *E) at(text string, opts ...engine.Option) (*engine.Engine, *clocked) {
	e.Helper()
	s := &clocked{Store: e.s}
	s.set(e, text)
	return e.client(s, opts...), s
}

// client makes an engine without a worker.
func (e *E) client(s store.Store, opts ...engine.Option) *engine.Engine {
	eng := engine.New(s, append([]engine.Option{engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireNothing)}, opts...)...)
	e.Cleanup(eng.Close)
	return eng
}

func (e *E) put(eng *engine.Engine, name, spec string, opts ...engine.ScheduleOption) engine.Schedule {
	e.Helper()
	s, err := eng.PutSchedule(e.ctx, name, "wf", spec, []byte("1"), opts...)
	e.ok("PutSchedule", err)
	return s
}

// keep does the housekeeping once.
func (e *E) keep(eng *engine.Engine) engine.Pass {
	e.Helper()
	pass, err := eng.Housekeep(e.ctx)
	e.ok("Housekeep", err)
	return pass
}

// firings lists the outcomes of a schedule's times, the oldest first: "03:00 started".
func (e *E) firings(eng *engine.Engine, name, layout string) []string {
	e.Helper()
	list := []string{}
	for _, f := range e.allFirings(eng, name) {
		list = append(list, f.At.UTC().Format(layout)+" "+f.Outcome.String())
	}
	return list
}

func (e *E) allFirings(eng *engine.Engine, name string) []engine.Firing {
	e.Helper()
	var all []engine.Firing
	for cursor := ""; ; {
		page, err := eng.Firings(e.ctx, name, cursor, 1000)
		e.ok("Firings", err)
		all = append(all, page.Firings...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Reverse(all)
	return all
}

// runsOf lists the runs of a schedule.
func (e *E) runsOf(name string) []store.Run {
	e.Helper()
	var all []store.Run
	for cursor := ""; ; {
		page, err := e.eng.List(e.ctx, store.RunFilter{ExternalID: engine.ScheduleID(name)}, cursor, 1000)
		e.ok("List", err)
		all = append(all, page.Runs...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// take claims the one run that is due, as a worker would.
func (e *E) take(s store.Store) store.ClaimedRun {
	e.Helper()
	claimed, err := s.Claim(e.ctx, store.ClaimParams{Namespace: "engine", Worker: "w", LeaseFor: time.Hour, Demands: []store.Demand{{Queue: "wf", Workflows: []string{"wf"}, Max: 10}}})
	e.ok("Claim", err)
	if len(claimed.Runs) != 1 {
		e.Fatalf("Claim: saw %d runs, expected one", len(claimed.Runs))
	}
	return claimed.Runs[0]
}

// finish commits the end of a run that was taken.
func (e *E) finish(s store.Store, run store.ClaimedRun, t *store.Transition) {
	e.Helper()
	res, err := s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Seen: run.Run.Events, Transition: t}}})
	e.ok("Commit", err)
	e.ok("the commit", res[0].Err)
}

const hm = "15:04"

var scheduleEngineCases = []Case{
	{Name: "schedule/fires", Promise: "P10", Rule: "A schedule that is put while workers are at rest starts a run for each of its times, not before it, with its input; the run knows its time.", Run: func(e *E) {
		type seen struct {
			name     string
			at, late time.Time
			in       int
		}
		runs := make(chan seen, 1000)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			now, err := workflow.Now(ctx, "now")
			name, at := workflow.ScheduledBy(ctx)
			runs <- seen{name, at, now, in}
			return in, err
		})
		e.process(defs(wf))
		e.process(defs(wf))
		pause(e)
		every := max(e.d(20*time.Second), time.Second)
		var opts []engine.ScheduleOption
		if !e.h.Bubble || !e.s.Features().Hints { // a worker that is busy, or learns of the schedule late, must miss nothing
			opts = append(opts, engine.ScheduleCatchUp(engine.CatchUpAll))
		}
		s, err := wf.Schedule(e.ctx, e.eng, "s", fmt.Sprint("@every ", every), 7, opts...)
		e.ok("Schedule", err)
		expected := make(map[time.Time]bool)
		for n := range 4 {
			expected[s.NextAt.UTC().Add(time.Duration(n)*every)] = true
		}
		for len(expected) > 0 { // runs that are caught up may be in another order
			r := receive(e, "a firing", runs)
			e.eq("schedule and input", []any{r.name, r.in}, []any{"s", 7})
			e.check(!r.late.Before(r.at), "the run of %v ran at %v", r.at, r.late)
			first, since := s.NextAt.UTC(), r.at.Sub(s.NextAt)
			e.check(since >= 0 && since%every == 0, "a run was started for %v; the first time is %v, then every %v", r.at, first, every)
			if e.h.Bubble && len(opts) == 0 {
				e.check(r.late.Sub(r.at) <= 2*time.Second, "the run of %v ran at %v", r.at, r.late)
			}
			delete(expected, r.at)
		}
		firings := e.allFirings(e.eng, "s")
		e.check(len(firings) >= 4, "saw %d firings, expected four or more", len(firings))
		for _, f := range firings {
			run, err := e.eng.Get(e.ctx, f.Run)
			e.ok("get", err)
			name, at := engine.ScheduledBy(run)
			e.check(f.Outcome == engine.FiringStarted && name == "s" && at.Equal(f.At), "firing of %v: saw %v, and a run of %q for %v", f.At, f.Outcome, name, at)
		}
		e.check(len(e.runsOf("s")) >= 4, "the schedule's runs are not listed by its external id")
	}},
	{Name: "schedule/forgets", Promise: "P10", Rule: "Firings are recorded for thirty days, or as long as the engine was told, and those that are older are gone with the next ones.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "s", "@daily", engine.ScheduleCatchUp(engine.CatchUpAll))
		e.put(eng, "kept", "@daily", engine.ScheduleCatchUp(engine.CatchUpAll))
		brief := e.client(clock, engine.KeepFirings(48*time.Hour))
		ever := e.client(clock, engine.KeepFirings(0))
		day := func(n int) string { return clock.time().AddDate(0, 0, -n).UTC().Format("2006-01-02") + " started" }
		for range 35 {
			clock.advance(24 * time.Hour)
			e.keep(eng)
		}
		have := e.firings(eng, "s", time.DateOnly)
		e.eq("firings, their number and the first", []any{len(have), have[0]}, []any{31, day(30)})
		clock.advance(24 * time.Hour)
		e.keep(ever)
		e.eq("firings, kept for ever", len(e.firings(eng, "s", time.DateOnly)), 32)
		for range 4 { // not all at once
			clock.advance(24 * time.Hour)
			e.keep(brief)
		}
		e.eq("firings of two days", e.firings(eng, "s", time.DateOnly), []string{day(2), day(1), day(0)})
		e.eq("runs", len(e.runsOf("s")), 40)
	}},
	{Name: "schedule/put-again", Promise: "P4", Rule: "A schedule put again as it is changes nothing; with another input it keeps its time, with another rule it gets a new one, and it stays paused.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T10:20:30Z")
		first := e.put(eng, "s", "0 * * * *", engine.ScheduleTimeZone("Europe/Berlin"))
		e.eq("NextAt", first.NextAt.UTC().Format(time.RFC3339), "1998-06-01T11:00:00Z")
		clock.advance(time.Minute)
		e.eq("put again", e.put(eng, "s", "0 * * * *", engine.ScheduleTimeZone("Europe/Berlin")), first)
		clock.advance(39 * time.Minute) // due since 11:00
		changed, err := eng.PutSchedule(e.ctx, "s", "wf", "0 * * * *", []byte("2"), engine.ScheduleTimeZone("Europe/Berlin"), engine.SchedulePaused())
		e.ok("PutSchedule", err)
		e.eq("changed: NextAt, Paused, CreatedAt", []any{changed.NextAt, changed.Paused, changed.CreatedAt}, []any{first.NextAt, false, first.CreatedAt})
		e.eq("changed: UpdatedAt", changed.UpdatedAt, clock.time())
		e.eq("fired", e.keep(eng).Fired, 1)
		runs := e.runsOf("s")
		if len(runs) != 1 {
			e.Fatalf("saw %d runs, expected one", len(runs))
		}
		run, err := eng.Get(e.ctx, runs[0].ID)
		e.ok("get", err)
		e.eq("the run's input", string(run.Input), "2")
		s := e.put(eng, "s", "30 * * * *")
		e.eq("NextAt of the new rule", s.NextAt.UTC().Format(time.RFC3339), "1998-06-01T11:30:00Z")
		e.eq("LastAt", s.LastAt, first.NextAt)
		e.ok("PauseSchedule", eng.PauseSchedule(e.ctx, "s"))
		s = e.put(eng, "s", "45 * * * *")
		e.check(s.Paused && s.NextAt.IsZero(), "saw it paused %v, due at %v; expected it to stay paused", s.Paused, s.NextAt)
	}},
	{Name: "schedule/changed-at-once", Promise: "P4", Rule: "If two programs change a schedule at the same time, neither undoes the other's change.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T10:00:00Z")
		e.put(eng, "s", "@hourly")
		// Before one of them writes, according to what it has read, the other runs.
		other := &refused{Store: clock, at: make(chan struct{}, 1)}
		done := make(chan error, 1)
		meanwhile := &interrupted{Store: clock, put: func() {
			go func() { done <- e.client(other).PauseSchedule(e.ctx, "s") }()
			select {
			case err := <-done:
				done <- err
			case <-other.at:
			}
		}}
		_, err := e.client(meanwhile).PutSchedule(e.ctx, "s", "wf", "@hourly", []byte("2"))
		e.ok("PutSchedule", err)
		e.ok("PauseSchedule", receive(e, "the pause", done))
		s, err := eng.Schedule(e.ctx, "s")
		e.ok("Schedule", err)
		e.check(s.Paused && string(s.Input) == "2", "saw it paused %v, with input %s; expected both changes", s.Paused, s.Input)
		held, err := clock.Lock(e.ctx, store.LockParams{Namespace: "engine", Name: "pawl.schedules.edit", Owner: "case", For: time.Second})
		e.ok("Lock", err)
		e.check(held.Held, "a change that is over keeps others waiting")
	}},
	{Name: "schedule/each-once", Promise: "P10", Rule: "Ten schedulers fire 1,000 times that are due, each once, while they race, lose answers and die.", Run: func(e *E) {
		start, _ := e.at("1998-06-01T00:00:00Z")
		for i := range 100 {
			e.put(start, fmt.Sprintf("s%02d", i), "@hourly", engine.ScheduleCatchUp(engine.CatchUpAll))
		}
		e.put(start, "odd", "@yearly")
		var wg sync.WaitGroup
		for i := range 10 {
			w := newWire(e.s)
			if i%2 == 0 {
				w.loseEvery(7 + i)
			}
			if i == 3 || i == 4 {
				calls := 0
				var mu sync.Mutex
				w.before = func(string) {
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls == 60*i {
						w.set(wireCut)
					}
				}
			}
			clock := &clocked{Store: w}
			clock.set(e, "1998-06-01T10:30:00Z")
			eng := e.client(lawless{clock})
			wg.Go(func() {
				_, err := eng.Housekeep(e.ctx)
				for store.Retryable(err) && e.ctx.Err() == nil { // it is left to the next pass
					_, err = eng.Housekeep(e.ctx)
				}
				e.check(err == nil || i == 3 || i == 4, "scheduler %d: %v", i, err)
			})
		}
		wg.Wait()
		for i := range 100 {
			name := fmt.Sprintf("s%02d", i)
			firings := e.allFirings(e.eng, name)
			e.check(len(firings) == 10, "%s: saw %d firings, expected ten", name, len(firings))
			for j, f := range firings {
				e.check(f.Outcome == engine.FiringStarted && f.At.UTC().Hour() == j+1, "%s: firing %d: saw %v at %v", name, j, f.Outcome, f.At)
			}
		}
		counts, err := e.eng.Count(e.ctx, store.RunFilter{})
		e.ok("count", err)
		e.check(len(counts) == 1 && counts[0].Count == 1000, "runs: saw %v, expected 1000", counts)
	}},
	{Name: "schedule/one-at-a-time", Promise: "P10", Rule: "While one process fires, others leave what is due to it; when it dies they go on after its lock has run out.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "s", "@hourly")
		clock.advance(time.Hour)
		dead := bridge.Of(eng).Housekeeper("dead", 10*time.Second)
		pass, err := dead.Fire(e.ctx)
		e.ok("Fire", err)
		e.eq("fired", pass.Fired, 1)
		e.put(eng, "t", "*/5 * * * * *")
		clock.advance(5 * time.Second)
		before := time.Now()
		pass = bridge.Pass(e.keep(eng))
		e.check(pass.Elsewhere && pass.Fired == 0, "saw %+v, expected that it is done elsewhere", pass)
		in, after := pass.Again.Sub(before), time.Until(pass.Again) // the pass may take its time
		e.check(in > 4*time.Second && after <= 5*time.Second, "again: saw in %v to %v, expected when the lock runs out", after, in)
		clock.advance(5 * time.Second)
		e.eq("fired later", e.keep(eng).Fired, 1)
		pass, err = bridge.Of(eng).Housekeeper("next", time.Second).Fire(e.ctx)
		e.ok("Fire", err)
		e.check(!pass.Elsewhere, "a pass that is over keeps others waiting")
	}},
	{Name: "schedule/outage-of-a-day", Promise: "P10", Rule: "After a day without schedulers, catch-up none fires no missed time, one the latest, and all each of them, or the latest up to its bound. Missed times are recorded.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T11:40:00Z")
		e.put(eng, "none", "@hourly")
		e.put(eng, "one", "@hourly", engine.ScheduleCatchUp(engine.CatchUpOne))
		e.put(eng, "all", "@hourly", engine.ScheduleCatchUp(engine.CatchUpAll))
		e.put(eng, "three", "@hourly", engine.ScheduleCatchUp(engine.CatchUpAll), engine.MaxCatchUp(3))
		e.put(eng, "every", "@every 1s", engine.ScheduleCatchUp(engine.CatchUpAll), engine.MaxCatchUp(60))
		e.put(eng, "late", "30 * * * *")
		clock.set(e, "1998-06-02T12:30:59Z")
		pass := e.keep(eng)
		e.eq("fired", pass.Fired, 0+1+25+3+60+1)
		e.eq("recorded without a run", pass.Skipped, 1+1+0+1+1+1)
		layout := "2 15:04"
		e.eq("none", e.firings(eng, "none", layout), []string{"1 12:00 missed"})
		e.eq("one", e.firings(eng, "one", layout), []string{"1 12:00 missed", "2 12:00 started"})
		all := e.firings(eng, "all", layout)
		e.eq("all", ends(all), "25: 1 12:00 started, 1 13:00 started ... 2 12:00 started")
		e.eq("three", e.firings(eng, "three", layout), []string{"1 12:00 missed", "2 10:00 started", "2 11:00 started", "2 12:00 started"})
		e.eq("late", e.firings(eng, "late", layout), []string{"1 12:30 missed", "2 12:30 started"})
		every := e.firings(eng, "every", "15:04:05")
		e.eq("every", ends(every), "61: 11:40:01 missed, 12:30:00 started ... 12:30:59 started")
		for _, name := range []string{"none", "one", "all", "three"} {
			s, err := eng.Schedule(e.ctx, name)
			e.ok("Schedule", err)
			e.eq("NextAt of "+name, s.NextAt.UTC().Format(time.RFC3339), "1998-06-02T13:00:00Z")
		}
		before := time.Now()
		pass = e.keep(eng)
		e.eq("fired again", pass.Fired+pass.Skipped, 0)
		in, after := pass.Next.Sub(before), time.Until(pass.Next)
		e.check(in > 0 && after <= time.Second, "the next time: saw in %v to %v, expected in a second", after, in)
	}},
	{Name: "schedule/clocks-go-forward", Promise: "P10", Rule: "When clocks are set forward, a time that does not exist is fired at the end of the gap, once; what is hourly stays so.", Run: func(e *E) {
		// Berlin, 29 March 1998: 02:00 was followed by 03:00, at 01:00 UTC.
		e.clocks("1998-03-28T23:40:00Z", map[string]string{
			"30 2 * * *":      "01:00",
			"0,20,40 2 * * *": "01:00",
			"0 3 * * *":       "01:00",
			"30 * * * *":      "00:30 01:30 02:30",
			"@every 1h":       "00:40 01:40 02:40",
		})
	}},
	{Name: "schedule/clocks-go-back", Promise: "P10", Rule: "When clocks are set back, a time that comes twice is fired once, the first time; what is hourly stays so.", Run: func(e *E) {
		// Berlin, 25 October 1998: 03:00 was followed by 02:00, at 01:00 UTC.
		e.clocks("1998-10-24T23:40:00Z", map[string]string{
			"30 2 * * *":      "00:30",
			"0,20,40 2 * * *": "00:00 00:20 00:40",
			"0 3 * * *":       "02:00",
			"30 * * * *":      "00:30 01:30 02:30",
			"@every 1h":       "00:40 01:40 02:40",
		})
	}},
	{Name: "schedule/overlap", Promise: "P8", Rule: "While a run of a schedule is active, allow starts another, skip starts none, queue waits for its end, and cancel cancels it first.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		for _, o := range []engine.Overlap{engine.OverlapAllow, engine.OverlapSkip, engine.OverlapQueue, engine.OverlapCancel} {
			e.put(eng, o.String(), "@hourly", engine.ScheduleOverlap(o))
		}
		clock.advance(time.Hour)
		e.eq("fired at one", e.keep(eng).Fired, 4)
		clock.advance(time.Hour)
		pass := e.keep(eng)
		e.eq("at two: fired, skipped, waiting", []int{pass.Fired, pass.Skipped, pass.Waiting}, []int{2, 1, 1})
		e.eq("allow", e.firings(eng, "allow", hm), []string{"01:00 started", "02:00 started"})
		e.eq("skip", e.firings(eng, "skip", hm), []string{"01:00 started", "02:00 overlapped"})
		e.eq("queue", e.firings(eng, "queue", hm), []string{"01:00 started"})
		e.eq("cancel", e.firings(eng, "cancel", hm), []string{"01:00 started", "02:00 started"})
		first := e.allFirings(eng, "skip")
		e.eq("the run that stood in the way", first[1].Run, first[0].Run)
		canceled, err := eng.Get(e.ctx, e.allFirings(eng, "cancel")[0].Run)
		e.ok("get", err)
		e.check(canceled.Status == store.Canceled && strings.Contains(canceled.Failure.Message, "due again"), "the old run: saw it %v (%v)", canceled.Status, canceled.Failure)
		clock.advance(30 * time.Minute)
		for _, name := range []string{"skip", "queue"} {
			e.ok("Cancel", eng.Cancel(e.ctx, e.allFirings(eng, name)[0].Run, ""))
		}
		pass = e.keep(eng)
		e.eq("at half past two: fired, skipped, waiting", []int{pass.Fired, pass.Skipped, pass.Waiting}, []int{1, 0, 0})
		e.eq("queue", e.firings(eng, "queue", hm), []string{"01:00 started", "02:00 started"})
		clock.advance(30 * time.Minute)
		e.keep(eng)
		e.eq("skip", e.firings(eng, "skip", hm), []string{"01:00 started", "02:00 overlapped", "03:00 started"})
	}},
	{Name: "schedule/queue-of-many", Promise: "P8", Rule: "Of the times that come while a queued schedule's run is active, all get their turn with catch-up all, in their order, and the latest alone otherwise.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		for _, c := range []engine.CatchUp{engine.CatchUpNone, engine.CatchUpOne, engine.CatchUpAll} {
			e.put(eng, c.String(), "@hourly", engine.ScheduleOverlap(engine.OverlapQueue), engine.ScheduleCatchUp(c), bounded(c))
		}
		clock.advance(time.Hour)
		e.keep(eng)
		clock.advance(5*time.Hour + time.Minute)
		e.eq("waiting", e.keep(eng).Waiting, 3)
		end := func() {
			for _, c := range []string{"none", "one", "all"} {
				list := e.allFirings(eng, c)
				_ = eng.Cancel(e.ctx, list[len(list)-1].Run, "")
			}
			e.keep(eng)
		}
		for range 3 {
			end()
		}
		want := []string{"01:00 started", "02:00 missed", "06:00 started"}
		e.eq("none", e.firings(eng, "none", hm), want)
		e.eq("one", e.firings(eng, "one", hm), want)
		e.eq("all", e.firings(eng, "all", hm), []string{"01:00 started", "02:00 missed", "04:00 started", "05:00 started", "06:00 started"})
	}},
	{Name: "schedule/cancel-waits-for-the-old", Promise: "P11", Rule: "With overlap cancel, the active run is canceled, and the new one starts when it has ended.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "s", "@hourly", engine.ScheduleOverlap(engine.OverlapCancel))
		clock.advance(time.Hour)
		e.keep(eng)
		old := e.take(clock)
		clock.advance(time.Hour)
		before := time.Now()
		pass := e.keep(eng)
		e.eq("fired, waiting", []int{pass.Fired, pass.Waiting}, []int{0, 1})
		in, after := pass.Again.Sub(before), time.Until(pass.Again) // the pass may take its time
		e.check(in > 0 && after < 20*time.Second, "again: saw in %v to %v", after, in)
		run, err := eng.Get(e.ctx, old.Run.ID)
		e.ok("get", err)
		e.eq("the old run", run.Status, store.Canceling)
		clock.advance(10 * time.Second)
		e.eq("fired while it ends", e.keep(eng).Fired, 0)
		e.finish(clock, old, &store.Transition{Kind: store.CancelRun})
		clock.advance(time.Second)
		e.eq("fired when it has ended", e.keep(eng).Fired, 1)
		e.eq("firings", e.firings(eng, "s", hm), []string{"01:00 started", "02:00 started"})
	}},
	{Name: "schedule/overlap-at-work", Promise: "P8", Rule: "With a worker, a queued schedule's run follows as soon as the one before has ended, and runs never overlap.", Run: func(e *E) {
		gate := make(chan struct{})
		began := make(chan time.Time, 100)
		var active, most tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "work", func(ctx context.Context) (int, error) {
				most.add(fmt.Sprint(active.add("n")))
				began <- time.Now()
				select {
				case <-gate:
				case <-ctx.Done():
				}
				active.drop("n")
				return in, ctx.Err()
			})
		})
		e.process(defs(wf))
		e.process(defs(wf))
		_, err := wf.Schedule(e.ctx, e.eng, "s", "@every 1s", 1, engine.ScheduleOverlap(engine.OverlapQueue), engine.ScheduleCatchUp(engine.CatchUpAll))
		e.ok("Schedule", err)
		receive(e, "the first run", began)
		timer := time.NewTimer(2500 * time.Millisecond)
		<-timer.C
		e.eq("firings while the first works", len(e.allFirings(e.eng, "s")), 1)
		for range 3 {
			from := time.Now()
			gate <- struct{}{}
			at := receive(e, "the next run", began)
			if e.h.Bubble {
				e.check(at.Sub(from) < 20*time.Second, "the next run began %v after the one before", at.Sub(from))
			}
		}
		e.ok("PauseSchedule", e.eng.PauseSchedule(e.ctx, "s"))
		close(gate)
		e.eq("runs at the same time", most.get("2"), 0)
	}},
	{Name: "schedule/changed-while-due", Promise: "P10", Rule: "A time that is due and not fired is fired with a new input, and dropped when the rule changes or the schedule is paused or deleted.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		for _, name := range []string{"rule", "paused", "deleted"} {
			e.put(eng, name, "@hourly")
		}
		clock.advance(time.Hour + time.Second)
		e.put(eng, "rule", "30 * * * *")
		e.ok("PauseSchedule", eng.PauseSchedule(e.ctx, "paused"))
		e.ok("DeleteSchedule", eng.DeleteSchedule(e.ctx, "deleted"))
		pass := e.keep(eng)
		e.eq("fired", pass.Fired+pass.Skipped, 0)
		clock.advance(30 * time.Minute)
		e.eq("fired at half past", e.keep(eng).Fired, 1)
		e.eq("rule", e.firings(eng, "rule", hm), []string{"01:30 started"})
		// A schedule that was read as due fires nothing once it is paused.
		e.put(eng, "late", "@hourly")
		clock.advance(30 * time.Minute)
		meanwhile := &interrupted{Store: clock, due: func() { e.ok("PauseSchedule", eng.PauseSchedule(e.ctx, "late")) }}
		e.keep(e.client(meanwhile))
		e.eq("firings of one paused meanwhile", e.firings(eng, "late", hm), []string{})
		// A schedule that got another input fires with that input.
		e.put(eng, "new", "@hourly")
		clock.advance(time.Hour)
		meanwhile = &interrupted{Store: clock, due: func() {
			_, err := eng.PutSchedule(e.ctx, "new", "wf", "@hourly", []byte("2"))
			e.ok("PutSchedule", err)
		}}
		e.keep(e.client(meanwhile))
		runs := e.runsOf("new")
		e.eq("runs of one changed meanwhile", len(runs), 1)
		run, err := eng.Get(e.ctx, runs[0].ID)
		e.ok("Get", err)
		e.eq("the run's input", string(run.Input), "2")
	}},
	{Name: "schedule/pause-and-resume", Promise: "P10", Rule: "A paused schedule fires nothing; resumed, it continues with its next time and makes up for none.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "s", "@hourly", engine.ScheduleCatchUp(engine.CatchUpAll))
		e.ok("PauseSchedule", eng.PauseSchedule(e.ctx, "s"))
		e.ok("PauseSchedule again", eng.PauseSchedule(e.ctx, "s"))
		clock.advance(5*time.Hour + 30*time.Minute)
		e.check(e.keep(eng).Next.IsZero(), "a paused schedule has a next time")
		e.ok("ResumeSchedule", eng.ResumeSchedule(e.ctx, "s"))
		e.ok("ResumeSchedule again", eng.ResumeSchedule(e.ctx, "s"))
		e.keep(eng)
		e.eq("firings", e.firings(eng, "s", hm), []string{})
		clock.advance(30 * time.Minute)
		e.keep(eng)
		e.eq("firings later", e.firings(eng, "s", hm), []string{"06:00 started"})
		e.check(errors.Is(eng.ResumeSchedule(e.ctx, "none"), store.ErrNotFound), "resuming no schedule is not ErrNotFound")
	}},
	{Name: "schedule/trigger", Promise: "P8", Rule: "A schedule can be triggered at any time, also while it is paused; its times stay, and where overlaps are not allowed an active run is given back.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "many", "@hourly")
		e.put(eng, "one", "@hourly", engine.ScheduleOverlap(engine.OverlapSkip), engine.ScheduleRuns(engine.Priority(7), engine.Timeout(time.Hour)))
		for _, name := range []string{"many", "one"} {
			e.ok("PauseSchedule", eng.PauseSchedule(e.ctx, name))
			first, err := eng.TriggerSchedule(e.ctx, name)
			e.ok("TriggerSchedule", err)
			second, err := eng.TriggerSchedule(e.ctx, name)
			e.ok("TriggerSchedule", err)
			e.eq("the second of "+name+" is the first", second == engine.Started{ID: first.ID, Existing: true}, name == "one")
			e.eq("runs of "+name, len(e.runsOf(name)), map[string]int{"many": 2, "one": 1}[name])
			run, err := eng.Get(e.ctx, first.ID)
			e.ok("get", err)
			by, at := engine.ScheduledBy(run)
			e.eq("schedule, input, time", []any{by, string(run.Input), at.IsZero()}, []any{name, "1", true})
			if name == "one" {
				e.eq("priority and deadline", []any{run.Priority, run.Deadline}, []any{7, clock.time().Add(time.Hour)})
			}
			e.eq("firings", e.firings(eng, name, hm), []string{})
		}
		_, err := eng.TriggerSchedule(e.ctx, "none")
		e.check(errors.Is(err, store.ErrNotFound), "TriggerSchedule of none: saw %v, expected %v", err, store.ErrNotFound)
	}},
	{Name: "schedule/deleted-and-put-anew", Promise: "P10", Rule: "A schedule that is deleted and put again does not fire the same time twice.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:59:00Z")
		for range 2 {
			e.put(eng, "s", "@hourly")
			clock.advance(time.Minute)
			e.keep(eng)
			e.eq("firings", e.firings(eng, "s", hm), []string{"01:00 started"})
			clock.advance(-time.Minute)
			e.ok("DeleteSchedule", eng.DeleteSchedule(e.ctx, "s"))
		}
		e.eq("runs", len(e.runsOf("s")), 1)
		e.check(errors.Is(eng.DeleteSchedule(e.ctx, "s"), store.ErrNotFound), "deleting no schedule is not ErrNotFound")
	}},
	{Name: "schedule/killed-anywhere", Promise: "P10", Rule: "If a scheduler dies before or after any call of its pass, the next one fires each time once.", Run: func(e *E) {
		for dies := 1; ; dies++ {
			survived := false
			for _, applied := range []bool{false, true} {
				name := fmt.Sprintf("s%d%v", dies, applied)
				eng, clock := e.at("1998-06-01T00:00:00Z")
				e.put(eng, name, "@hourly", engine.ScheduleCatchUp(engine.CatchUpAll), engine.ScheduleOverlap(engine.OverlapAllow))
				e.put(eng, name+" queued", "@hourly", engine.ScheduleOverlap(engine.OverlapCancel))
				clock.advance(3 * time.Hour)
				m := &mortal{Store: clock, left: dies, applied: applied}
				_, err := e.client(m).Housekeep(e.ctx)
				survived = survived || err == nil
				clock.advance(time.Minute) // the lock of the dead process has expired
				e.keep(eng)
				e.eq(name, e.firings(eng, name, hm), []string{"01:00 started", "02:00 started", "03:00 started"})
				e.eq(name+" queued", e.firings(eng, name+" queued", hm), []string{"01:00 missed", "03:00 started"})
				e.eq("runs", len(e.runsOf(name)), 3)
				for _, s := range []string{name, name + " queued"} {
					e.ok("DeleteSchedule", eng.DeleteSchedule(e.ctx, s))
				}
			}
			if survived {
				e.check(dies > 8, "a pass makes %d calls only: this proves nothing", dies)
				return
			}
		}
	}},
	{Name: "schedule/one-broken", Promise: "P10", Rule: "A schedule that cannot be fired does not stop others.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		for i := range 120 {
			_, err := clock.PutSchedule(e.ctx, store.PutScheduleParams{Namespace: "engine", Schedule: store.Schedule{
				Name: fmt.Sprintf("broken%d", i), Workflow: "wf", Queue: "wf", Spec: "@hourly", Meta: []byte("?"), NextAt: clock.time(),
			}})
			e.ok("PutSchedule", err)
		}
		e.put(eng, "whole", "@hourly")
		clock.advance(time.Hour)
		before := time.Now()
		pass := e.keep(eng)
		e.eq("fired, waiting", []int{pass.Fired, pass.Waiting}, []int{1, 120})
		e.check(pass.Again.Sub(before) > 10*time.Second, "it is tried again in %v", pass.Again.Sub(before))
	}},
	{Name: "schedule/listed", Promise: "P14", Rule: "Schedules are listed by name, with everything that was put. Their next times can be computed in advance.", Run: func(e *E) {
		eng, _ := e.at("1998-06-01T10:20:30Z")
		want := e.put(eng, "b", "0 9 * * MON", engine.ScheduleTimeZone("Europe/Berlin"), engine.ScheduleCatchUp(engine.CatchUpAll), engine.MaxCatchUp(5),
			engine.ScheduleOverlap(engine.OverlapQueue), engine.ScheduleRuns(engine.Queue("q"), engine.Priority(3), engine.Delay(time.Minute), engine.Timeout(time.Hour)))
		e.eq("what was put", fmt.Sprintf("%+v", want), `{Name:b Workflow:wf Queue:q Spec:0 9 * * MON TimeZone:Europe/Berlin Input:[49] CatchUp:all MaxCatchUp:5 Overlap:queue `+
			`Priority:3 Delay:1m0s Timeout:1h0m0s Under:[] Tags:map[] Paused:false NextAt:1998-06-08 07:00:00 +0000 UTC LastAt:0001-01-01 00:00:00 +0000 UTC `+
			`CreatedAt:1998-06-01 10:20:30 +0000 UTC UpdatedAt:1998-06-01 10:20:30 +0000 UTC}`)
		e.put(eng, "a", "@daily", engine.SchedulePaused())
		page, err := eng.Schedules(e.ctx, "", 1)
		e.ok("Schedules", err)
		e.check(len(page.Schedules) == 1 && page.Schedules[0].Name == "a" && page.Schedules[0].Paused && page.Schedules[0].NextAt.IsZero(), "saw %+v", page.Schedules)
		page, err = eng.Schedules(e.ctx, page.Next, 1)
		e.ok("Schedules", err)
		e.eq("the second", page.Schedules, []engine.Schedule{want})
		got, err := eng.Schedule(e.ctx, "b")
		e.ok("Schedule", err)
		e.eq("Schedule", got, want)
		times, err := got.Upcoming(3)
		e.ok("Upcoming", err)
		e.eq("upcoming", fmt.Sprint(times), "[1998-06-08 07:00:00 +0000 UTC 1998-06-15 07:00:00 +0000 UTC 1998-06-22 07:00:00 +0000 UTC]")
	}},
	{Name: "schedule/bad-input", Promise: "P16", Rule: "The error for a wrong schedule says what is wrong, where, and what to do.", Run: func(e *E) {
		eng, _ := e.at("1998-06-01T00:00:00Z")
		for _, tt := range []struct {
			name, spec string
			opt        engine.ScheduleOption
			says       string
		}{
			{"", "@daily", nil, "invalid schedule: it is empty"},
			{"s", "0 0 30 2 *", nil, `schedule "s": invalid schedule expression: "0 0 30 2 *": that day never comes`},
			{"s", "61 * * * *", nil, `its minute, "61"`},
			{"s", "* * *", nil, `it has 3 fields; give five`},
			{"s", "CRON_TZ=UTC 0 0 * * *", nil, `give it as the schedule's time zone`},
			{"s", "@daily", engine.ScheduleTimeZone("Mars/Olympus"), `invalid time zone: "Mars/Olympus" is unknown on this machine`},
			{"s", "@daily", engine.MaxCatchUp(5), `invalid max catch-up: it applies only to the catch-up policy all, but the schedule's is none`},
			{"s", "@daily", engine.MaxCatchUp(0), `invalid max catch-up: 0 is not between 1 and`},
			{"s", "@daily", engine.ScheduleOverlap(9), `invalid overlap policy`},
			{"s", "@daily", engine.ScheduleCatchUp(9), `invalid catch-up policy`},
			{"s", "@daily", engine.ScheduleRuns(engine.ExternalID("x")), `the schedule chooses their ids`},
			{"s", "@daily", engine.ScheduleRuns(engine.At(time.Now())), `leave out engine.At`},
			{"s", "@daily", engine.ScheduleRuns(engine.Priority(1000)), `priority`},
		} {
			opts := []engine.ScheduleOption{}
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			_, err := eng.PutSchedule(e.ctx, tt.name, "wf", tt.spec, nil, opts...)
			e.check(errors.Is(err, store.ErrInvalid) && strings.Contains(err.Error(), tt.says), "%q: saw %v, expected %q", tt.spec, err, tt.says)
		}
		_, err := eng.PutSchedule(e.ctx, "s", "wf", "@daily", make([]byte, e.s.Limits().Payload+1))
		e.check(errors.Is(err, store.ErrTooLarge), "too large an input: saw %v", err)
		_, err = e.eng.PutSchedule(e.ctx, "s", "nobody's", "@daily", nil)
		e.check(errors.Is(err, engine.ErrUnknownWorkflow), "an unknown workflow: saw %v", err)
		_, err = eng.Schedule(e.ctx, "s")
		e.check(errors.Is(err, store.ErrNotFound), "what was refused: saw %v, expected that it is not there", err)
		_, err = eng.Firings(e.ctx, "s", "", 0)
		e.check(errors.Is(err, store.ErrNotFound), "firings of no schedule: saw %v", err)
	}},
}

// ends shows the ends of a long list.
func ends(list []string) string {
	if len(list) < 3 {
		return fmt.Sprintf("%d: %v", len(list), list)
	}
	return fmt.Sprintf("%d: %s, %s ... %s", len(list), list[0], list[1], list[len(list)-1])
}

// clocks fires schedules through four hours in Berlin and checks when they fire.
func (e *E) clocks(from string, want map[string]string) {
	e.Helper()
	eng, clock := e.at(from)
	for spec := range want {
		e.put(eng, spec, spec, engine.ScheduleTimeZone("Europe/Berlin"))
	}
	for range 4 * 6 {
		e.keep(eng)
		clock.advance(10 * time.Minute)
	}
	for spec, times := range want {
		var got []string
		for _, f := range e.allFirings(eng, spec) {
			if f.At.UTC().Hour() > 2 {
				break
			}
			got = append(got, f.At.UTC().Format(hm))
			e.check(f.Outcome == engine.FiringStarted && !f.FiredAt.Before(f.At), "%s: saw %v at %v, for %v", spec, f.Outcome, f.FiredAt, f.At)
		}
		e.eq(spec, strings.Join(got, " "), times)
	}
}

// lawless grants every lock to everybody.
type lawless struct{ store.Store }

func (s lawless) Lock(_ context.Context, p store.LockParams) (store.LockResult, error) {
	return store.LockResult{Held: true, Owner: p.Owner}, nil
}

// interrupted calls a function once between a read of the schedules and the calls that follow.
type interrupted struct {
	store.Store
	due, put func() // after due schedules were read; before a schedule is put
	once     sync.Once
}

func (s *interrupted) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	page, err := s.Store.ListSchedules(ctx, p)
	if p.Due && s.due != nil {
		s.once.Do(s.due)
	}
	return page, err
}

func (s *interrupted) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	if s.put != nil {
		s.once.Do(s.put)
	}
	return s.Store.PutSchedule(ctx, p)
}

// refused reports when it has been refused a lock.
type refused struct {
	store.Store
	at chan struct{}
}

func (s *refused) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	res, err := s.Store.Lock(ctx, p)
	if err == nil && !res.Held && p.For > 0 {
		select {
		case s.at <- struct{}{}:
		default:
		}
	}
	return res, err
}

// mortal is the store of a process that dies at a call.
type mortal struct {
	store.Store
	mu      sync.Mutex
	left    int
	applied bool // the call at which it dies is applied
}

// die returns whether a call is made, and whether its answer is received.
func (s *mortal) die() (made, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left > 0 || s.left == 0 && s.applied, s.left > 0
}

func mortally[P, R any](ctx context.Context, s *mortal, p P, call func(context.Context, P) (R, error)) (R, error) {
	var none R
	made, heard := s.die()
	if !made {
		return none, errCut
	}
	res, err := call(ctx, p)
	if !heard {
		return none, errCut
	}
	return res, err
}

func (s *mortal) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	return mortally(ctx, s, p, s.Store.ListSchedules)
}

func (s *mortal) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	return mortally(ctx, s, p, s.Store.Fire)
}

func (s *mortal) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return mortally(ctx, s, p, s.Store.Find)
}

func (s *mortal) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	return mortally(ctx, s, p, s.Store.Lock)
}

func (s *mortal) ListWorkflows(ctx context.Context, p store.ListWorkflowsParams) (store.WorkflowPage, error) {
	return mortally(ctx, s, p, s.Store.ListWorkflows)
}

// untilFired waits until a schedule has n firings.
func (e *E) untilFired(name string, n int) []engine.Firing {
	e.Helper()
	for {
		if list := e.allFirings(e.eng, name); len(list) >= n {
			return list
		}
		pause(e)
	}
}

var housekeepingEngineCases = []Case{
	{Name: "housekeeping/takes-over", Promise: "P10", Rule: "When the process that fires schedules dies, another continues, and no time is fired twice or skipped.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		_, err := e.eng.PutSchedule(e.ctx, "s", "wf", "@every 1s", []byte("1"), engine.ScheduleCatchUp(engine.CatchUpAll))
		e.check(errors.Is(err, engine.ErrUnknownWorkflow), "before any worker: saw %v", err)
		procs := []*proc{e.process(defs(wf)), e.process(defs(wf)), e.process(defs(wf))}
		_, err = wf.Schedule(e.ctx, e.eng, "s", "@every 1s", 1, engine.ScheduleCatchUp(engine.CatchUpAll))
		e.ok("Schedule", err)
		n := len(e.untilFired("s", 2))
		procs[0].kill()
		n = len(e.untilFired("s", n+2))
		procs[1].stop()
		e.untilFired("s", n+2)
		e.ok("PauseSchedule", e.eng.PauseSchedule(e.ctx, "s"))
		firings := e.allFirings(e.eng, "s")
		for i, f := range firings {
			e.eq("outcome", f.Outcome, engine.FiringStarted)
			if i > 0 {
				e.check(f.At.Sub(firings[i-1].At) == time.Second, "%v came after %v", f.At, firings[i-1].At)
			}
			if e.h.Bubble {
				e.check(f.FiredAt.Sub(f.At) <= 15*time.Second, "the time %v was fired at %v", f.At, f.FiredAt)
			}
		}
		e.eq("runs", len(e.runsOf("s")), len(firings))
	}},
	{Name: "housekeeping/rests", Promise: "P18", Rule: "While nothing is due, workers read the schedules every ten seconds, or rarely if the store sends hints of them, and write nothing for them. They look for runs less often, too.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		eng, _ := e.at("1998-06-01T00:00:00Z")
		e.put(eng, "paused", "@hourly", engine.SchedulePaused())
		_, err := e.client(e.s).PutSchedule(e.ctx, "far", "wf", "@yearly", nil)
		e.ok("PutSchedule", err)
		var calls tally
		p := e.build(defs(wf))
		p.wire.before = func(verb string) { calls.add(verb) }
		p.run()
		rest := e.d(10 * time.Minute)
		if !e.h.Bubble {
			rest = e.d(time.Minute)
		}
		timer := time.NewTimer(rest)
		<-timer.C
		looks := calls.get("list-schedules")
		every := 9 * time.Second
		if e.s.Features().Hints {
			every = 4 * time.Minute
		}
		// Once at first, and up to three times because of hints of earlier puts.
		e.check(looks >= 1 && looks <= 5+int(rest/every), "it looked at the schedules %d times in %v", looks, rest)
		if e.h.Bubble && e.s.Features().Hints {
			claims := calls.get("claim")
			e.check(claims >= 50 && claims <= 70, "it looked for runs %d times in %v, expected every ten seconds after the first minute", claims, rest)
		}
		for _, verb := range []string{"lock", "fire", "purge", "put-schedule"} {
			e.eq("calls of "+verb, calls.get(verb), 0)
		}
	}},
	{Name: "housekeeping/put-before-hints", Promise: "P10", Rule: "A schedule that is put after a worker has looked at the schedules, and before it receives hints, is fired in time.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.build(defs(wf))
		looked, put := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p.wire.after = func(verb string) {
			if verb == "list-schedules" {
				once.Do(func() { close(looked) })
			}
		}
		p.wire.before = func(verb string) {
			if verb == "hints" {
				<-put
			}
		}
		p.run()
		<-looked
		_, err := wf.Schedule(e.ctx, e.eng, "s", "@every 1s", 1)
		e.ok("Schedule", err)
		begin := time.Now()
		close(put)
		e.untilFired("s", 1)
		// Without hints, a worker looks every ten seconds.
		e.check(time.Since(begin) < 30*time.Second, "it took %v", time.Since(begin))
	}},
	{Name: "housekeeping/until-idle", Promise: "P10", Rule: "A worker that runs until it is idle fires what is due, executes it, and returns the next fire time.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		next, err := e.untilIdle(e.ctx, defs(wf))
		e.ok("RunUntilIdle", err)
		e.check(next.IsZero(), "without schedules: saw %v", next)
		_, err = wf.Schedule(e.ctx, e.eng, "s", "@every 1h", 5, engine.ScheduleOverlap(engine.OverlapQueue), engine.ScheduleCatchUp(engine.CatchUpAll))
		e.ok("Schedule", err)
		e.putBack("s", 3*time.Hour+30*time.Minute)
		next, err = e.untilIdle(e.ctx, defs(wf))
		e.ok("RunUntilIdle", err)
		firings := e.allFirings(e.eng, "s")
		e.eq("firings: those that were due", len(firings), 3)
		for _, f := range firings {
			out, err := wf.Handle(e.eng, f.Run).Result(e.ctx)
			e.ok("result", err)
			e.eq("output", out, 5)
		}
		s, err := e.eng.Schedule(e.ctx, "s")
		e.ok("Schedule", err)
		e.check(next.Sub(s.NextAt).Abs() < 200*time.Millisecond, "next: saw %v, expected %v", next, s.NextAt)
	}},
	{Name: "housekeeping/ends-with-the-worker", Promise: "P10", Rule: "A worker that has fired schedules and shuts down lets others fire at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(wf), worker.ID("first"))
		pause(e)
		_, err := wf.Schedule(e.ctx, e.eng, "s", "@every 1s", 5)
		e.ok("Schedule", err)
		e.untilFired("s", 1)
		p.stop()
		res, err := e.s.Lock(e.ctx, store.LockParams{Namespace: "engine", Name: "pawl.schedules.fire", Owner: "second", For: time.Second})
		e.ok("Lock", err)
		e.check(res.Held, "the lock: saw %q hold it until %v", res.Owner, res.Until)
	}},
	{Name: "housekeeping/dead-workers", Promise: "P6", Rule: "A worker that has not been heard of for a day is no longer registered; until then it is listed as offline.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z")
		for _, id := range []string{"dead", "lives"} {
			e.ok("PutWorker", clock.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: store.Worker{ID: id, Status: store.Online, TTL: time.Minute}}))
		}
		clock.advance(23 * time.Hour)
		e.ok("PutWorker", clock.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: store.Worker{ID: "lives", Status: store.Online, TTL: time.Minute}}))
		e.eq("removed", e.keep(eng).Workers, 0)
		clock.advance(time.Hour)
		e.eq("removed after a day", e.keep(eng).Workers, 1)
		workers, err := store.AllWorkers(e.ctx, clock, store.ListWorkersParams{Namespace: "engine"})
		e.ok("ListWorkers", err)
		e.check(len(workers) == 1 && workers[0].ID == "lives", "saw %+v", workers)
	}},
}

// putBack makes a schedule due since an earlier time, as if no worker had fired it since.
func (e *E) putBack(name string, by time.Duration) {
	e.Helper()
	page, err := e.s.ListSchedules(e.ctx, store.ListSchedulesParams{Namespace: "engine", Names: []string{name}})
	e.ok("ListSchedules", err)
	e.eq("schedules", len(page.Schedules), 1)
	s := page.Schedules[0]
	s.NextAt = s.NextAt.Add(-by)
	_, err = e.s.PutSchedule(e.ctx, store.PutScheduleParams{Namespace: "engine", Schedule: s})
	e.ok("PutSchedule", err)
}

// bounded is the number of times that a schedule of that policy catches up at most: three, if the
// policy allows a limit.
func bounded(c engine.CatchUp) engine.ScheduleOption {
	if c == engine.CatchUpAll {
		return engine.MaxCatchUp(3)
	}
	return engine.ScheduleCatchUp(c)
}
