package enginetier

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// orchard is a workflow of a map of maps: n rows of 3 items, of which the last one of each row is held.
func orchard() (wf *workflow.Workflow[int, int], all []workflow.Definition) {
	held := hold("held")
	row := workflow.New("row", func(ctx workflow.Context, n int) (int, error) {
		if _, err := workflow.Map(ctx, "items", upTo(2), double); err != nil {
			return 0, err
		}
		return workflow.Child(ctx, "held", held, n)
	})
	wf = workflow.New("orchard", func(ctx workflow.Context, n int) (int, error) {
		rows, err := workflow.Map(ctx, "rows", upTo(n), row)
		return len(rows), err
	})
	return wf, defs(wf, row, held, double)
}

// heldItems waits until n held items wait, and returns them.
func (e *E) heldItems(n int) (ids []store.ID) {
	e.Helper()
	for {
		page, err := e.eng.List(e.ctx, store.RunFilter{Workflow: "held", Statuses: []store.Status{store.Sleeping}}, "", store.MaxPage)
		e.ok("list", err)
		if len(page.Runs) == n {
			for i := range page.Runs {
				ids = append(ids, page.Runs[i].ID)
			}
			return ids
		}
		pause(e)
	}
}

// progressOf reads a run's progress without its times.
func (e *E) progressOf(run store.ID) engine.Progress {
	e.Helper()
	p, err := e.eng.Progress(e.ctx, run)
	e.ok("progress", err)
	e.eq("the run", p.Run, run)
	e.eq("Capped", p.Capped, false)
	return p
}

func treeCounts(open, completed int64) store.TreeCounts {
	return store.TreeCounts{Total: open + completed, Open: open, Completed: completed}
}

var progressEngineCases = []Case{
	{Name: "progress/all-levels", Promise: "P29", Rule: "The progress of a run counts its descendants of all levels, while they run, after a crash, and afterwards; it has a rate and an estimate.", Run: func(e *E) {
		wf, all := orchard()
		first := e.process(all)
		h := start(e, wf, 4)
		held := e.heldItems(4)
		check := func(when string, want ...store.TreeCounts) engine.Progress {
			e.Helper()
			p := e.progressOf(h.ID())
			e.eq("levels "+when, p.Levels, want)
			var sum store.TreeCounts
			for _, level := range want {
				sum.Add(level)
			}
			e.eq("the sum "+when, p.TreeCounts, sum)
			return p
		}
		p := check("while items are held", treeCounts(4, 0), treeCounts(4, 8))
		e.check(p.Rate > 0 && p.Left > 0, "with 8 of 16 ended: saw rate %v and %v left, expected both above 0", p.Rate, p.Left)
		e.eq("steps", len(p.Steps), 1)
		first.kill()
		e.process(all)
		check("after a crash", treeCounts(4, 0), treeCounts(4, 8))
		for _, id := range held {
			send(e, word, id, "on")
		}
		result(e, h)
		p = check("afterwards", treeCounts(0, 4), treeCounts(0, 12))
		e.eq("the status afterwards", p.Status, store.Completed)
		e.eq("what is left afterwards", p.Left, time.Duration(0))
	}},
	{Name: "progress/watched", Promise: "P29", Rule: "A watch of the progress yields the present counts, then later ones, and ends with those of the final run.", Run: func(e *E) {
		wf, all := orchard()
		e.process(all)
		h := start(e, wf, 3)
		var last engine.Progress
		seen, released := 0, false
		for p, err := range e.eng.WatchProgress(e.ctx, h.ID()) {
			e.ok("watch", err)
			if seen > 0 && p.Ended() < last.Ended() {
				e.Errorf("the ended descendants of a later look: saw %d after %d, expected no fewer", p.Ended(), last.Ended())
			}
			last = p
			if seen++; p.Open == 6 && p.Completed == 6 && !released { // all that is held
				released = true
				for _, id := range e.heldItems(3) {
					send(e, word, id, "on")
				}
			}
		}
		e.eq("the last status", last.Status, store.Completed)
		e.eq("the last levels", last.Levels, []store.TreeCounts{treeCounts(0, 3), treeCounts(0, 9)})
		e.check(seen >= 2, "looks: saw %d, expected more than one", seen)
	}},
	{Name: "progress/refused", Promise: "P16", Rule: "The progress of a run that does not exist is an error that says so, and a watch ends with its context.", Run: func(e *E) {
		_, err := e.eng.Progress(e.ctx, store.NewID())
		e.check(errors.Is(err, store.ErrNotFound), "progress of no run: saw %v", err)
		watch := func(ctx context.Context, id store.ID) (n int, err error) {
			for _, err = range e.eng.WatchProgress(ctx, id) {
				if err == nil {
					n++
				}
			}
			return n, err
		}
		n, err := watch(e.ctx, store.NewID())
		e.check(n == 0 && errors.Is(err, store.ErrNotFound), "a watch of no run: saw %d looks and %v", n, err)
		kid := hold("kid")
		e.process(defs(kid))
		h := start(e, kid, 1)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		for _, err = range e.eng.WatchProgress(ctx, h.ID()) {
			cancel()
		}
		e.check(errors.Is(err, context.Canceled), "a watch whose context has ended: saw %v", err)
	}},
}
