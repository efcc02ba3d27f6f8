package enginetier

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var debounceEngineCases = []Case{
	{Name: "debounce/last-input", Promise: "P28", Rule: "Of several starts with a key, one run executes the last input. Starts that come when it has begun make another run.", Run: func(e *E) {
		hold := newGate()
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(sctx context.Context) error {
				if in == 3 {
					return hold.pass(sctx)
				}
				return nil
			})
		})
		p := e.build(defs(wf))
		first := start(e, wf, 1, engine.Debounce("k", e.d(time.Second), 0), engine.Tags(map[string]string{"n": "1"}))
		e.check(!first.Existing(), "the first start says that it has created no run")
		for in := 2; in <= 3; in++ {
			h := start(e, wf, in, engine.Debounce("k", e.d(time.Second), 0), engine.Tags(map[string]string{"n": fmt.Sprint(in)}))
			e.check(h.Existing() && h.ID() == first.ID(), "start %d: saw run %v (existing: %v), expected the first one, %v", in, h.ID(), h.Existing(), first.ID())
		}
		other := start(e, wf, 7, engine.Debounce("other", 0, 0))
		p.run()
		receive(e, "the work of the third input", hold.entered)
		e.eq("tags", e.tags(first.ID()), store.Tags{"n": "3"})
		next := start(e, wf, 4, engine.Debounce("k", 0, 0))
		e.check(!next.Existing() && next.ID() != first.ID(), "a start after the run has begun: saw run %v, expected another than %v", next.ID(), first.ID())
		e.eq("output of the next run", result(e, next), 4)
		close(hold.open)
		e.eq("output of the run", result(e, first), 3)
		e.eq("output of the run of another key", result(e, other), 7)
	}},
	{Name: "debounce/no-input-lost", Promise: "P28", Rule: "Starts of many callers that race with the runs' beginnings: each run executes one input, none twice, and every handle's result is that of its start or of a later one.", Run: func(e *E) {
		var mu sync.Mutex
		ran := map[string]int{}
		wf := workflow.New("wf", func(ctx workflow.Context, in string) (string, error) {
			return in, workflow.Do(ctx, "work", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				ran[in]++
				return nil
			})
		})
		e.process(defs(wf))
		e.process(defs(wf))
		const callers, each = 4, 8
		var handles [callers][each]workflow.Handle[string]
		errs := make(chan error, callers)
		for c := range callers {
			go func() {
				for i := range each {
					h, err := wf.Start(e.ctx, e.eng, fmt.Sprintf("%d/%d", c, i), engine.Debounce("k", time.Millisecond, 0))
					if err != nil {
						errs <- err
						return
					}
					handles[c][i] = h
				}
				errs <- nil
			}()
		}
		for range callers {
			e.ok("start", receive(e, "the end of a caller", errs))
		}
		runs := map[store.ID]string{}
		for c := range callers {
			for i, h := range handles[c] {
				out := result(e, h)
				runs[h.ID()] = out
				var by, n int
				_, err := fmt.Sscanf(out, "%d/%d", &by, &n)
				e.ok("output", err)
				e.check(by != c || n >= i, "the run of start %d/%d executed %s, which is older", c, i, out)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		e.eq("inputs executed", len(ran), len(runs))
		for id, in := range runs {
			e.check(ran[in] == 1, "input %s of run %v was executed %d times", in, id, ran[in])
		}
	}},
	{Name: "debounce/bad-input", Promise: "P16", Rule: "A key with an external id, a limit of the delay that is shorter than the delay, and a schedule's run with a key are refused, with a reason.", Run: func(e *E) {
		wf := workflow.New("wf", func(_ workflow.Context, in int) (int, error) { return in, nil })
		e.process(defs(wf))
		_, err := wf.Start(e.ctx, e.eng, 1, engine.Debounce("k", time.Second, 0), engine.ExternalID("x"))
		e.says("start with both", err, store.ErrInvalid, "external id")
		_, err = wf.Start(e.ctx, e.eng, 1, engine.Debounce("k", time.Minute, time.Second))
		e.says("start with a short limit", err, store.ErrInvalid, "shorter")
		_, err = wf.Start(e.ctx, e.eng, 1, engine.Debounce("k", -time.Second, 0))
		e.says("start with a negative delay", err, store.ErrInvalid, "delay")
		_, err = wf.Schedule(e.ctx, e.eng, "s", "@hourly", 1, engine.ScheduleRuns(engine.Debounce("k", time.Second, 0)))
		e.says("schedule", err, store.ErrInvalid, "Debounce")
	}},
}
