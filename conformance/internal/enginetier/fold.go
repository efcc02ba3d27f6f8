package enginetier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// listing appends places and outputs to a text, so that the text shows their order.
func listing(into *string) workflow.GenerateOption {
	return workflow.Fold(into, func(text string, place int64, n int) (string, error) {
		return text + fmt.Sprintf(" %d:%d", place, n), nil
	})
}

// listed is what listing makes of the numbers below n.
func listed(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, " %d:%d", i+1, i)
	}
	return text.String()
}

var foldEngineCases = []Case{
	{Name: "fold/in-order", Promise: "P9", Rule: "A fold gets the output of every item once, in the order of the items, after the initial value. A replay returns the recorded result and does not fold again.", Run: func(e *E) {
		var ran, folded tally
		item := handled(&ran)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			text := "begin"
			list := workflow.Fold(&text, func(text string, place int64, n int) (string, error) {
				folded.add(fmt.Sprint(n))
				return text + fmt.Sprintf(" %d:%d", place, n), nil
			})
			if _, err := workflow.Generate(ctx, "discover", numbers(57), item, workflow.Batch(10), list); err != nil {
				return "", err
			}
			return text, again(e, ctx, "nap")
		})
		e.process(defs(wf, item))
		e.eq("result", result(e, start(e, wf, 0)), "begin"+listed(57))
		for i := range 57 {
			e.eq(fmt.Sprint("folds of item ", i), folded.get(fmt.Sprint(i)), 1)
		}
	}},
	{Name: "fold/empty", Promise: "P9", Rule: "A fold over no items results in its initial value.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			text := "begin"
			_, err := workflow.Generate(ctx, "discover", numbers(0), item, listing(&text))
			return text, err
		})
		e.process(defs(wf, item))
		e.eq("result", result(e, start(e, wf, 0)), "begin")
	}},
	{Name: "fold/killed", Promise: "P4", Rule: "A fold whose worker dies begins anew and counts no item twice.", Run: func(e *E) {
		const n = 30
		var ran tally
		item := handled(&ran)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			var text string
			_, err := workflow.Generate(ctx, "discover", numbers(n), item, workflow.Batch(7), listing(&text))
			return text, err
		})
		h := startBefore(e, wf, item)
		for i := range 4 {
			p := e.process(defs(wf, item), worker.MaxCrashes(100))
			select {
			case <-p.wire.dieAt("commit", 2+3*i, i%2 == 0):
				p.kill()
			case <-e.ended(h.ID()):
				p.kill()
			}
		}
		e.process(defs(wf, item), worker.MaxCrashes(100))
		e.eq("result", result(e, h), listed(n))
		once(e, h.ID(), n)
	}},
	{Name: "fold/items-fail", Promise: "P9", Rule: "A fold gets the outputs of the items that completed if the step allows the failures of the others, and nothing if it does not.", Run: func(e *E) {
		item := workflow.New("item", func(_ workflow.Context, n int) (int, error) {
			if n == 2 {
				return 0, workflow.Permanent(errors.New("it is two"))
			}
			return n, nil
		})
		wf := workflow.New("wf", func(ctx workflow.Context, tolerated int) (string, error) {
			text := "begin"
			_, err := workflow.Generate(ctx, "discover", numbers(4), item, listing(&text), workflow.Tolerate(tolerated))
			var items *workflow.ItemsError
			if errors.As(err, &items) != (tolerated == 0) {
				return "", fmt.Errorf("with %d tolerated: saw %v", tolerated, err)
			}
			return text, nil
		})
		e.process(defs(wf, item))
		e.eq("result if one may fail", result(e, start(e, wf, 1)), "begin 1:0 2:1 4:3")
		e.eq("result if none may fail", result(e, start(e, wf, 0)), "begin")
	}},
	{Name: "fold/error", Promise: "P9", Rule: "An error of the fold fails the step.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			text := "begin"
			_, err := workflow.Generate(ctx, "discover", numbers(3), item, workflow.Fold(&text, func(text string, _ int64, n int) (string, error) {
				if n == 1 {
					return "", errors.New("one cannot be folded")
				}
				return text + "!", nil
			}))
			return text, err
		})
		e.process(defs(wf, item))
		_, err := start(e, wf, 0).Result(e.ctx)
		e.says("result", err, engine.ErrFailed, "one cannot be folded")
	}},
	{Name: "fold/refused", Promise: "P16", Rule: "A fold of another output type, or without a variable or a function, is refused before anything runs. A history without a fold does not fit code that folds.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		var none *string
		folds := false
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			var text string
			for what, opt := range map[string]workflow.GenerateOption{
				"another type": workflow.Fold(&text, func(text string, _ int64, s string) (string, error) { return text + s, nil }),
				"no variable":  workflow.Fold(none, func(text string, _ int64, n int) (string, error) { return text, nil }),
				"no function":  workflow.Fold[int](&text, nil),
			} {
				if _, err := workflow.Generate(ctx, "refused", numbers(3), item, opt); !errors.Is(err, store.ErrInvalid) {
					return "", fmt.Errorf("%s: saw %v", what, err)
				}
			}
			var opts []workflow.GenerateOption
			if folds {
				opts = append(opts, listing(&text))
			}
			if _, err := workflow.Generate(ctx, "discover", numbers(3), item, opts...); err != nil {
				return "", err
			}
			_, err := word.Receive(ctx)
			return text, err
		})
		p := e.process(defs(wf, item), worker.Build("dev"))
		h := start(e, wf, 0)
		e.untilStep(h.ID(), "word", store.StepRunning)
		p.stop()
		folds = true
		e.process(defs(wf, item), worker.Build("dev"))
		send(e, word, h.ID(), "look again")
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrFailed, "was recorded without a fold")
	}},
}
