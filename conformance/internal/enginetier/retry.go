package enginetier

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var retryEngineCases = []Case{
	{Name: "step/retry-after", Promise: "P13", Rule: "An error that says how long to wait is followed by the next attempt after that time, of a step and of a run; it gives no further attempts.", Run: func(e *E) {
		var at []time.Time
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			n, err := workflow.Step(ctx, "busy", func(context.Context) (int, error) {
				at = append(at, time.Now())
				if len(at)%2 == 1 {
					return 0, workflow.Coded("busy", workflow.RetryAfter(errFlaky, e.d(time.Minute)))
				}
				return len(at), nil
			}, workflow.Attempts(2), workflow.Backoff(e.d(time.Hour), 2, 0))
			if err != nil {
				return 0, err
			}
			if ran.add("run") == 1 {
				return 0, workflow.RetryAfter(errFlaky, e.d(2*time.Minute))
			}
			return n, nil
		}, workflow.RunAttempts(2), workflow.RunBackoff(e.d(time.Hour), 2, 0))
		e.process(defs(wf))
		from := time.Now()
		e.eq("output", result(e, start(e, wf, 0)), 2)
		wait := at[1].Sub(at[0])
		e.check(wait >= e.d(time.Minute) && wait < e.d(30*time.Minute), "the second attempt of the step came after %v", wait)
		all := time.Since(from)
		e.check(all >= e.d(3*time.Minute) && all < e.d(40*time.Minute), "the run took %v", all)
		always := workflow.New("always", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "busy", func(context.Context) (int, error) {
				ran.add("always")
				return 0, workflow.RetryAfter(errFlaky, 0)
			}, workflow.Attempts(3))
		})
		e.process(defs(always))
		_, err := start(e, always, 0).Result(e.ctx)
		e.says("result", err, engine.ErrFailed, errFlaky.Error())
		e.eq("attempts", ran.get("always"), 3)
	}},
	{Name: "start/retries", Promise: "P6", Rule: "A start may say how often its run is tried, and when; other runs keep to their workflow's policy.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in string) (int, error) {
			if ran.add(in) < 4 {
				return 0, errFlaky
			}
			return ctx.Info().Attempt, nil
		}, workflow.RunAttempts(2), workflow.RunBackoff(e.d(time.Hour), 2, 0))
		p := e.process(defs(wf))
		for _, eng := range []*engine.Engine{e.eng, p.eng} { // p.eng leases the run as it makes it
			name := eng.Namespace() + map[bool]string{true: "-leased"}[eng == p.eng]
			from := time.Now()
			h, err := wf.Start(e.ctx, eng, name, engine.Attempts(5), engine.Backoff(e.d(time.Second), 1, 0))
			e.ok("start", err)
			e.eq("attempt that succeeded", result(e, h), 4)
			e.check(time.Since(from) < e.d(time.Hour/2), "it took %v", time.Since(from))
		}
		_, err := start(e, wf, "once", engine.Attempts(1)).Result(e.ctx)
		e.says("result", err, engine.ErrFailed, errFlaky.Error())
		e.eq("attempts", ran.get("once"), 1)
		_, err = start(e, wf, "plain", engine.Backoff(e.d(time.Second), 1, 0)).Result(e.ctx)
		e.says("result", err, engine.ErrFailed, errFlaky.Error())
		e.eq("attempts with the workflow's number", ran.get("plain"), 2)
		_, err = wf.Schedule(e.ctx, e.eng, "s", "@daily", "x", engine.ScheduleRuns(engine.Attempts(3)))
		e.says("schedule", err, store.ErrInvalid, "engine.Attempts")
	}},
	{Name: "signal/wrong-type", Promise: "P16", Rule: "A signal that cannot be decoded gives an error that the code can match, and the run can go on; so does a result whose type has changed.", Run: func(e *E) {
		numbers := workflow.NewSignal[int]("n")
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			for wrong := 0; ; wrong++ {
				n, err := numbers.Receive(ctx)
				var decode *workflow.DecodeError
				if !errors.As(err, &decode) {
					return n + wrong, err
				}
				if decode.Type != "int" {
					return 0, err
				}
			}
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		e.ok("send", workflow.NewSignal[string]("n").Send(e.ctx, e.eng, h.ID(), "text"))
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.process(defs(wf)) // the replay takes the same path
		e.ok("send", numbers.Send(e.ctx, e.eng, h.ID(), 7))
		e.eq("output", result(e, h), 8)
		_, err := workflow.Ref[int, []string]("wf").Handle(e.eng, h.ID()).Result(e.ctx)
		var decode *workflow.DecodeError
		e.check(errors.As(err, &decode) && decode.Type == "[]string", "a result of another type: saw %T %v", err, err)
	}},
}
