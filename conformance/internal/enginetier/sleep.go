package enginetier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var sleepEngineCases = []Case{
	{Name: "sleep/not-early", Promise: "P13", Rule: "A sleep ends no earlier than it should, and soon after.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, d time.Duration) (time.Duration, error) {
			from, err := workflow.Now(ctx, "from")
			if err != nil {
				return 0, err
			}
			if err := workflow.Sleep(ctx, "nap", d); err != nil {
				return 0, err
			}
			to, err := workflow.Now(ctx, "to")
			return to.Sub(from), err
		})
		e.process(defs(wf))
		for _, d := range []time.Duration{0, time.Millisecond, e.d(time.Second), e.d(time.Minute)} {
			h := start(e, wf, d)
			slept := result(e, h)
			e.check(slept >= d, "a sleep of %v took %v", d, slept)
			if e.h.Bubble {
				e.check(slept <= d+time.Second, "a sleep of %v took %v", d, slept)
			}
		}
	}},
	{Name: "sleep/until", Promise: "P13", Rule: "SleepUntil ends at its time by the store's clock; a time that has passed does not wait.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, at time.Time) (time.Time, error) {
			if err := workflow.SleepUntil(ctx, "until", at); err != nil {
				return time.Time{}, err
			}
			return workflow.Now(ctx, "now")
		})
		e.process(defs(wf))
		now, err := e.s.Clock(e.ctx)
		e.ok("clock", err)
		for _, at := range []time.Time{now.Add(-time.Hour), now.Add(e.d(time.Minute))} {
			woke := result(e, start(e, wf, at))
			e.check(!woke.Before(at), "it slept until %v and woke at %v", at, woke)
		}
	}},
	{Name: "sleep/many-at-once", Promise: "P13", Rule: "Of 10,000 sleeps (600 under the race detector or with -short) that end in the same second on one worker none ends early, and all end.", Run: func(e *E) {
		n := kit.ManyItems()
		wf := workflow.New("wf", func(ctx workflow.Context, at time.Time) (time.Duration, error) {
			if err := workflow.SleepUntil(ctx, "until", at); err != nil {
				return 0, err
			}
			now, err := workflow.Now(ctx, "now")
			return now.Sub(at), err
		})
		e.process(defs(wf), worker.Concurrency(100))
		now, err := e.s.Clock(e.ctx)
		e.ok("clock", err)
		first := now.Add(time.Duration(n) * 2 * time.Millisecond) // when all should have fallen asleep
		in := make([]workflow.Each[time.Time], n)
		for i := range in {
			in[i].In = first.Add(time.Duration(i%100) * 10 * time.Millisecond)
		}
		hs, err := wf.StartMany(e.ctx, e.eng, in)
		e.ok("start of many", err)
		late := results(e, hs)
		slices.Sort(late)
		e.check(late[0] >= 0, "a sleep ended %v early", -late[0])
		e.Logf("lateness of %d sleeps that end in the same second: median %v, p99 %v, at most %v", n, late[n/2], late[n*99/100], late[n-1])
		counts, err := e.s.Count(e.ctx, store.CountParams{Namespace: e.eng.Namespace(), Filter: store.RunFilter{Workflow: "wf"}, MaxScan: store.ScanAll})
		e.ok("count", err)
		e.eq("runs", counts, []store.RunCount{{Queue: "wf", Workflow: "wf", Status: store.Completed, Count: int64(n)}})
	}},
	{Name: "sleep/holds-no-slot", Promise: "P13", Rule: "A hundred runs that sleep 2 s on ten slots are all done after little more than 2 s.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, i int) (int, error) {
			return i, workflow.Sleep(ctx, "nap", e.d(2*time.Second))
		})
		e.process(defs(wf))
		from := time.Now()
		results(e, startN(e, wf, 100))
		took := time.Since(from)
		e.check(took >= e.d(2*time.Second), "they took %v", took)
		if e.h.Bubble { // in real time, other work may delay this
			e.check(took < e.d(4*time.Second), "they took %v, expected little more than %v", took, e.d(2*time.Second))
		}
	}},
	{Name: "sleep/through-crash-and-outage", Promise: "P6", Rule: "A run that slept 10 s through a crash and a 20 s outage continues at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Sleep(ctx, "nap", e.d(10*time.Second))
		})
		first := e.process(defs(wf))
		h := start(e, wf, 3)
		due := e.until(h.ID(), store.Sleeping).VisibleAt
		first.kill()
		timer := time.NewTimer(e.d(20 * time.Second))
		<-timer.C
		from := time.Now()
		e.process(defs(wf))
		e.eq("output", result(e, h), 3)
		if e.h.Bubble {
			e.check(time.Since(from) < time.Second, "it went on %v after the outage", time.Since(from))
		}
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.check(run.FinishedAt.After(due), "it finished at %v, before %v", run.FinishedAt, due)
	}},
	{Name: "sleep/counts-from-its-first-time", Promise: "P13", Rule: "A replay does not begin a sleep again.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("short", func(ctx workflow.Context) error {
				for range 5 {
					if err := workflow.Sleep(ctx, "nap", e.d(10*time.Second)); err != nil {
						return err
					}
				}
				return nil
			})
			g.Go("long", func(ctx workflow.Context) error { return workflow.Sleep(ctx, "nap", e.d(60*time.Second)) })
			return in, g.Wait()
		})
		e.process(defs(wf))
		from := time.Now() // before the start, which may be answered late
		result(e, start(e, wf, 1))
		took := time.Since(from)
		e.check(took >= e.d(60*time.Second), "it took %v", took)
		if e.h.Bubble {
			e.check(took < 62*time.Second, "it took %v: the long sleep began anew with each replay", took)
		}
	}},
	{Name: "sleep/long-retry-suspends", Promise: "P5", Rule: "A long wait for a step's next attempt puts the run to sleep, and the attempt count survives.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
				if ran.add("flaky"); workflow.Attempt(ctx) < 3 {
					return 0, errFlaky
				}
				return workflow.Attempt(ctx), nil
			}, workflow.Backoff(e.d(20*time.Second), 1, 0))
		})
		p := e.process(defs(wf), worker.Park(time.Millisecond))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		p.kill()
		e.process(defs(wf), worker.Park(time.Millisecond))
		e.eq("attempt that succeeded", result(e, h), 3)
		e.eq("executions", ran.get("flaky"), 3)
	}},
	{Name: "slots/ten-at-a-time", Promise: "P1", Rule: "A hundred runs whose steps work 0.5 s on ten slots proceed ten at a time.", Run: func(e *E) {
		busy := make(chan struct{}, 1000)
		var most tally
		wf := workflow.New("wf", func(ctx workflow.Context, i int) (int, error) {
			return workflow.Step(ctx, "work", func(ctx context.Context) (int, error) {
				busy <- struct{}{}
				n := len(busy)
				most.add(fmt.Sprint(n))
				timer := time.NewTimer(e.d(500 * time.Millisecond))
				defer timer.Stop()
				<-timer.C
				<-busy
				return n, nil
			})
		})
		e.process(defs(wf))
		from := time.Now()
		for _, n := range results(e, startN(e, wf, 100)) {
			e.check(n <= 10, "%d steps ran at the same time", n)
		}
		took := time.Since(from)
		e.check(took >= e.d(5*time.Second), "they took %v", took)
		e.check(most.get("10") > 0, "ten never ran at the same time")
		if e.h.Bubble {
			e.check(took < 7*time.Second, "they took %v, expected little more than 5s", took)
		}
	}},
}
