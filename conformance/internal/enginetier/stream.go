package enginetier

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	tokens  = workflow.NewStream[string]("tokens")
	summary = workflow.NewStream[string]("report", workflow.WithRecord())
)

// follow reads a stream of a run from a cursor until the run ends, as a reader would show it: what was superseded is
// marked by "!". It stops after n items if n is above zero.
func follow(e *E, s workflow.Stream[string], eng *engine.Engine, run store.ID, from workflow.Cursor, n int) (text string, at workflow.Cursor) {
	e.Helper()
	var out []string
	at = from
	for it, err := range s.Read(e.ctx, eng, run, from) {
		if err != nil {
			e.Fatalf("read of stream %s: saw %v, expected no error", s.Name(), err)
		}
		value := it.Value
		if it.Reset {
			value = "!" + value
		}
		out, at = append(out, value), it.Cursor
		if len(out) == n {
			break
		}
	}
	return strings.Join(out, " "), at
}

var streamEngineCases = []Case{
	{Name: "stream/followed", Promise: "P27", Rule: "A reader gets what steps and the run append while they work, in order, in any process, and ends with the run.", Run: func(e *E) {
		gate := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			if err := tokens.AppendInRun(ctx, "begin"); err != nil {
				return 0, err
			}
			err := workflow.Do(ctx, "gen", func(ctx context.Context) error {
				if err := tokens.Append(ctx, "a", "b"); err != nil {
					return err
				}
				select {
				case <-gate:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				return tokens.Append(ctx, "c")
			})
			return n, errors.Join(err, tokens.AppendInRun(ctx, "end"))
		})
		e.process(defs(wf))
		h := start(e, wf, 7)
		first, at := follow(e, tokens, e.eng, h.ID(), "", 3)
		e.eq("items while the step works", first, "begin a b")
		close(gate)
		other := e.build(defs(wf)) // another process
		rest, end := follow(e, tokens, other.eng, h.ID(), at, 0)
		e.eq("the rest, in another process", rest, "c end")
		e.eq("output", result(e, h), 7)
		all, _ := follow(e, tokens, e.eng, h.ID(), "", 0)
		e.eq("all, after the end", all, "begin a b c end")
		none, _ := follow(e, tokens, e.eng, h.ID(), end, 0)
		e.eq("behind the end", none, "")
		nothing, _ := follow(e, summary, e.eng, h.ID(), "", 0)
		e.eq("a stream that nobody has written to", nothing, "")
	}},
	{Name: "stream/superseded", Promise: "P27", Rule: "An attempt that is tried again supersedes what the one before has appended; a reader in the middle is told so.", Run: func(e *E) {
		gate := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			return n, workflow.Do(ctx, "gen", func(ctx context.Context) error {
				if workflow.Attempt(ctx) == 1 {
					err := errors.Join(tokens.Append(ctx, "a"), tokens.Append(ctx, "b"))
					<-gate
					return errors.Join(err, errors.New("broken"))
				}
				return tokens.Append(ctx, "A", "B")
			}, workflow.Attempts(2), workflow.Backoff(1, 1, 1))
		})
		e.process(defs(wf))
		h := start(e, wf, 1)
		first, at := follow(e, tokens, e.eng, h.ID(), "", 2)
		e.eq("the first attempt", first, "a b")
		close(gate)
		rest, _ := follow(e, tokens, e.eng, h.ID(), at, 0)
		e.eq("the rest", rest, "!A B")
		all, _ := follow(e, tokens, e.eng, h.ID(), "", 0)
		e.eq("all", all, "!A B")
	}},
	{Name: "stream/generations", Promise: "P27", Rule: "A step that is tried again after its run has continued as new supersedes what it has appended since, and a reader learns of which generation the items are.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			err := workflow.Do(ctx, "gen", func(ctx context.Context) error {
				err := tokens.Append(ctx, fmt.Sprint(n, workflow.Attempt(ctx)))
				if workflow.Attempt(ctx) == 1 {
					err = errors.Join(err, errors.New("broken"))
				}
				return err
			}, workflow.Attempts(2), workflow.Backoff(1, 1, 1))
			if err == nil && n < 2 {
				err = workflow.ContinueAsNew(ctx, n+1)
			}
			return n, err
		})
		h := startBefore(e, wf)
		e.process(defs(wf))
		result(e, h)
		var got []string
		for it, err := range tokens.Read(e.ctx, e.eng, h.ID(), "") {
			e.ok("read", err)
			got = append(got, fmt.Sprint(it.Value, " ", it.Step, " ", it.Generation, " ", it.Reset))
		}
		e.eq("items with their steps and generations", got, []string{"0 2 gen 0 true", "1 2 gen 1 true", "2 2 gen 2 true"})
	}},
	{Name: "stream/crash", Promise: "P27", Rule: "When a worker dies in a step, the step of the next worker supersedes what it had appended, and a replay appends nothing of the run again.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			if err := tokens.AppendInRun(ctx, "begin"); err != nil {
				return 0, err
			}
			return n, workflow.Do(ctx, "gen", func(ctx context.Context) error {
				nth := ran.add("gen")
				err := tokens.Append(ctx, fmt.Sprint("a", nth), fmt.Sprint("b", nth))
				if nth == 1 {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return err
			})
		})
		p := e.process(defs(wf), worker.Lease(e.ofLease(5*time.Second)))
		h := start(e, wf, 1)
		first, at := follow(e, tokens, e.eng, h.ID(), "", 3)
		e.eq("items of the first worker", first, "begin a1 b1")
		p.kill()
		e.process(defs(wf))
		rest, _ := follow(e, tokens, e.eng, h.ID(), at, 0)
		e.eq("the rest", rest, "!a2 b2")
		result(e, h)
	}},
	{Name: "stream/with-record", Promise: "P27", Rule: "Items of a stream with the record are seen with the record of the attempt that succeeds, and nothing of others is.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			err := workflow.Do(ctx, "gen", func(ctx context.Context) error {
				nth := workflow.Attempt(ctx)
				err := errors.Join(summary.Append(ctx, fmt.Sprint("a", nth)), summary.Append(ctx, fmt.Sprint("b", nth)), tokens.Append(ctx, "t"))
				page, readErr := e.eng.ReadStream(ctx, store.ReadStreamParams{Run: e.one().ID, Stream: summary.Name()})
				if err = errors.Join(err, readErr); err == nil && len(page.Items) != 0 {
					err = fmt.Errorf("saw %d items before the record", len(page.Items))
				}
				if nth < 3 {
					return errors.Join(err, errors.New("broken"))
				}
				return err
			}, workflow.Attempts(3), workflow.Backoff(1, 1, 1))
			return n, errors.Join(err, summary.AppendInRun(ctx, "end"))
		})
		e.process(defs(wf))
		h := start(e, wf, 3)
		all, _ := follow(e, summary, e.eng, h.ID(), "", 0)
		e.eq("items", all, "a3 b3 end")
		e.eq("output", result(e, h), 3)
	}},
	{Name: "stream/in-a-transaction", Promise: "P3", Rule: "Items of a transactional step are seen with its record, and those of an attempt whose transaction is rolled back never are.", Run: func(e *E) {
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "middle", func(ctx context.Context, tx *sql.Tx) error {
				err := errors.Join(addRow(ctx, tx, table), tokens.Append(ctx, fmt.Sprint("t", workflow.Attempt(ctx))), summary.Append(ctx, "s"))
				if workflow.Attempt(ctx) == 1 {
					err = errors.Join(err, errors.New("broken"))
				}
				return err
			}, workflow.Attempts(2), workflow.Backoff(1, 1, 1))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		all, _ := follow(e, tokens, e.eng, h.ID(), "", 0)
		e.eq("items", all, "t2")
		others, _ := follow(e, summary, e.eng, h.ID(), "", 0)
		e.eq("items of another stream", others, "s")
		e.eq("rows", result(e, h), 1)
	}},
	{Name: "stream/concurrent", Promise: "P27", Rule: "Values that goroutines of a step and branches append at once are all there once, each goroutine's in its order.", Run: func(e *E) {
		const writers, each = 4, 25
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			return n, workflow.Do(ctx, "gen", func(ctx context.Context) error {
				errs := make([]error, writers)
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for i := range each {
							errs[w] = errors.Join(errs[w], tokens.Append(ctx, fmt.Sprintf("%d.%d", w, i)))
						}
					})
				}
				wg.Wait()
				return errors.Join(errs...)
			})
		})
		p := e.build(defs(wf))
		p.wire.loseEvery(5) // answers that are lost add nothing
		p.run()
		h := start(e, wf, 1)
		all, _ := follow(e, tokens, e.eng, h.ID(), "", 0)
		next := [writers]int{}
		for _, text := range strings.Fields(all) {
			var w, i int
			_, err := fmt.Sscanf(text, "%d.%d", &w, &i)
			e.ok("scan", err)
			e.eq("the next value of its goroutine", i, next[w])
			next[w]++
		}
		e.eq("values", next, [writers]int{each, each, each, each})
		result(e, h)
	}},
	{Name: "stream/refused", Promise: "P16", Rule: "What a stream cannot take, a name that is not valid, a context that is not of a step, and a cursor of another stream get an error that says what to do, and a step that returns it is not tried again.", Run: func(e *E) {
		var ran tally
		outside := tokens.Append(e.ctx, "x")
		e.check(errors.Is(outside, store.ErrInvalid) && strings.Contains(outside.Error(), "AppendInRun"), "outside a step: saw %v", outside)
		var late context.Context
		wf := workflow.New("wf", func(ctx workflow.Context, large bool) (string, error) {
			name := workflow.NewStream[int](" bad ").AppendInRun(ctx, 1)
			many := tokens.AppendInRun(ctx, make([]string, 1001)...)
			err := workflow.Do(ctx, "gen", func(ctx context.Context) error {
				ran.add("gen")
				late = ctx
				return tokens.Append(ctx, "fine", strings.Repeat("x", e.s.Limits().Payload))
			})
			over := tokens.Append(late, "late")
			return fmt.Sprint(errors.Is(name, store.ErrInvalid), errors.Is(many, store.ErrInvalid), workflow.ErrorCode(err) == workflow.CodeStream, errors.Is(over, store.ErrInvalid)), nil
		})
		e.process(defs(wf))
		h := start(e, wf, true)
		e.eq("errors", result(e, h), "true true true true")
		e.eq("attempts", ran.get("gen"), 1)
		ok := workflow.New("ok", func(ctx workflow.Context, n int) (int, error) { return n, tokens.AppendInRun(ctx, "a", "b") })
		e.process(defs(ok))
		a, b := start(e, ok, 1), start(e, ok, 2)
		result(e, a)
		result(e, b)
		_, at := follow(e, tokens, e.eng, a.ID(), "", 1)
		for what, err := range map[string]error{
			"another run": firstError(tokens.Read(e.ctx, e.eng, b.ID(), at)), "another stream": firstError(summary.Read(e.ctx, e.eng, a.ID(), at)), "no cursor": firstError(tokens.Read(e.ctx, e.eng, a.ID(), "nonsense")),
		} {
			e.check(errors.Is(err, store.ErrInvalid) && strings.Contains(err.Error(), "cursor"), "a cursor of %s: saw %v, expected ErrInvalid that names the cursor", what, err)
		}
		err := firstError(tokens.Read(e.ctx, e.eng, store.NewID(), ""))
		e.check(errors.Is(err, store.ErrNotFound), "no run: saw %v, expected ErrNotFound", err)
		err = firstError(workflow.NewStream[int]("tokens").Read(e.ctx, e.eng, a.ID(), ""))
		var undecoded *workflow.DecodeError
		e.check(errors.As(err, &undecoded), "values of another type: saw %v, expected a DecodeError", err)
	}},
	{Name: "stream/kept", Promise: "P27", Rule: "Items stay when a run continues as new and is restarted; they move with an export; a fork begins without.", Run: func(e *E) {
		fail := true
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			err := workflow.Do(ctx, "gen", func(ctx context.Context) error { return tokens.Append(ctx, fmt.Sprint("g", n)) })
			if err == nil && n == 0 {
				return 0, workflow.ContinueAsNew(ctx, 1)
			}
			err = errors.Join(err, workflow.Do(ctx, "more", func(ctx context.Context) error {
				err := tokens.Append(ctx, "m")
				if fail {
					err = errors.Join(err, workflow.Coded("never", errors.New("broken")))
				}
				return err
			}, workflow.Attempts(1)))
			return n, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		_, err := h.Result(e.ctx)
		e.check(err != nil, "it did not fail")
		all, at := follow(e, tokens, e.eng, h.ID(), "", 0)
		e.eq("items of both generations", all, "g0 g1 m")
		fail = false
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		rest, _ := follow(e, tokens, e.eng, h.ID(), at, 0)
		e.eq("items of the restarted step", rest, "!m")
		result(e, h)
		laptop := e.elsewhere()
		_, err = laptop.Import(e.ctx, bytes.NewReader(e.export(h.ID())))
		e.ok("import", err)
		moved, _ := follow(e, tokens, laptop, h.ID(), at, 0)
		e.eq("items elsewhere, from the same cursor", moved, "!m")
		fork, err := e.eng.Fork(e.ctx, h.ID())
		e.ok("fork", err)
		copied, _ := follow(e, tokens, e.eng, fork.ID, "", 0)
		e.eq("items of the fork, whose steps are recorded", copied, "")
	}},
}

// firstError reads until there is an error.
func firstError[T any](items func(func(workflow.Item[T], error) bool)) (err error) {
	for _, err = range items {
		if err != nil {
			return err
		}
	}
	return nil
}

// one returns the only run.
func (e *E) one() store.Run {
	page, err := e.eng.List(e.ctx, store.RunFilter{}, "", 0)
	e.ok("list", err)
	if len(page.Runs) != 1 {
		e.Fatalf("saw %d runs, expected 1", len(page.Runs))
	}
	return page.Runs[0]
}
