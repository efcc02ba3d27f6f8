package enginetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// finished creates a run that has ended in that way.
func (e *E) finished(s store.Store, wf string, t *store.Transition) store.ID {
	e.Helper()
	run := store.NewRun{ID: store.NewID(), Workflow: wf, Queue: wf, Worker: "w", LeaseFor: time.Hour}
	res, err := s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{run}})
	e.ok("Create", err)
	e.ok("the create", res[0].Err)
	if t != nil {
		e.finish(s, store.ClaimedRun{Lease: res[0].Lease}, t)
	}
	return run.ID
}

// kept returns which of the runs still exist.
func (e *E) kept(runs map[string]store.ID) string {
	e.Helper()
	var names []string
	for name, id := range runs {
		_, err := e.eng.Get(e.ctx, id)
		if err == nil {
			names = append(names, name)
		}
		e.check(err == nil || errors.Is(err, store.ErrNotFound), "get: %v", err)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

var retentionEngineCases = []Case{
	{Name: "retention/by-status-and-workflow", Promise: "P13", Rule: "Final runs are kept as long as their workflow's retention for their status says, and forever if there is none.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z",
			engine.Retain(engine.KeepFor(10*time.Hour)),
			engine.Retain(engine.Retention{Completed: time.Hour, Failed: 5 * time.Hour}, "a", "b"),
			engine.Retain(engine.Retention{}, "ever"))
		for _, name := range []string{"a", "b", "ever", "other"} {
			w, err := bridge.Of(eng).Registration(name, name, nil)
			e.ok("Registration", err)
			e.ok("PutWorkflows", clock.PutWorkflows(e.ctx, store.PutWorkflowsParams{Namespace: "engine", Workflows: []store.Workflow{w}}))
		}
		plain := e.client(clock) // it does not know about retention itself
		runs := map[string]store.ID{}
		for _, name := range []string{"a", "ever", "other", "unknown"} {
			runs[name+"+"] = e.finished(clock, name, &store.Transition{Kind: store.CompleteRun})
			runs[name+"-"] = e.finished(clock, name, &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "x"}})
			runs[name+"x"] = e.finished(clock, name, &store.Transition{Kind: store.CancelRun, Failure: &store.Failure{Code: "x"}})
			runs[name+"~"] = e.finished(clock, name, nil)
		}
		all := e.kept(runs)
		for _, step := range []struct {
			at   string
			gone string
		}{
			{"00:59:59", ""}, {"01:00:00", "a+"}, {"04:59:59", "a+"}, {"05:00:00", "a+ a-"}, {"09:59:59", "a+ a-"},
			{"10:00:00", "a+ a- other+ other- otherx"}, {"23:00:00", "a+ a- other+ other- otherx"},
		} {
			clock.set(e, "1998-06-01T"+step.at+"Z")
			e.untidied(clock)
			e.keep(plain)
			want := all
			for _, name := range strings.Fields(step.gone) {
				want = strings.Join(strings.Fields(strings.Replace(" "+want+" ", " "+name+" ", " ", 1)), " ")
			}
			e.eq("kept at "+step.at, e.kept(runs), want)
		}
	}},
	{Name: "retention/one-at-a-time", Promise: "P18", Rule: "Retention is done by one process at a time, and by no other before it is time again.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z", engine.Retain(engine.KeepFor(time.Hour)))
		w, err := bridge.Of(eng).Registration("wf", "wf", nil)
		e.ok("Registration", err)
		e.ok("PutWorkflows", clock.PutWorkflows(e.ctx, store.PutWorkflowsParams{Namespace: "engine", Workflows: []store.Workflow{w}}))
		e.finished(clock, "wf", &store.Transition{Kind: store.CompleteRun})
		clock.advance(2 * time.Hour)
		first, second := bridge.Of(eng).Housekeeper("first", time.Second), bridge.Of(eng).Housekeeper("second", time.Second)
		for i, want := range []struct {
			keeper    bridge.Housekeeper
			elsewhere bool
			purged    int
		}{{first, false, 1}, {second, true, 0}, {first, false, 0}} {
			pass, err := want.keeper.Tidy(e.ctx)
			e.ok("Tidy", err)
			e.eq(fmt.Sprint("pass ", i), []any{pass.Elsewhere, pass.Purged}, []any{want.elsewhere, want.purged})
			in := time.Until(pass.Next)
			e.check(in > 5*time.Minute && in <= 6*time.Minute, "next: saw in %v, expected a tenth of the hour", in)
		}
		clock.advance(6 * time.Minute)
		pass, err := second.Tidy(e.ctx)
		e.ok("Tidy", err)
		e.check(!pass.Elsewhere, "the lock is held when it is time again")
	}},
	{Name: "retention/keeps-children", Promise: "P9", Rule: "A child whose parent is not final is kept, however old; it goes when the parent is final.", Run: func(e *E) {
		eng, clock := e.at("1998-06-01T00:00:00Z", engine.Retain(engine.KeepFor(time.Hour)))
		for _, name := range []string{"wf", "child"} {
			w, err := bridge.Of(eng).Registration(name, name, nil)
			e.ok("Registration", err)
			e.ok("PutWorkflows", clock.PutWorkflows(e.ctx, store.PutWorkflowsParams{Namespace: "engine", Workflows: []store.Workflow{w}}))
		}
		_, err := eng.Start(e.ctx, "wf", nil)
		e.ok("Start", err)
		parent := e.take(clock)
		kid := store.NewRun{ID: store.DeriveID(parent.Run.ID, "kid"), Workflow: "child", Queue: "child", Group: "g", Ordinal: 1}
		res, err := clock.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: parent.Lease, Seq: 1, Spawn: []store.NewRun{kid}}}})
		e.ok("Commit", err)
		e.ok("the commit", res[0].Err)
		e.ok("Cancel", eng.Cancel(e.ctx, kid.ID, ""))
		runs := map[string]store.ID{"parent": parent.Run.ID, "child": kid.ID}
		clock.advance(2 * time.Hour)
		e.keep(eng)
		e.eq("kept", e.kept(runs), "child parent")
		res, err = clock.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: parent.Lease, Seq: 2, Seen: 100, Transition: &store.Transition{Kind: store.CompleteRun}}}})
		e.ok("Commit", err)
		e.ok("the commit", res[0].Err)
		clock.advance(59 * time.Minute)
		e.keep(eng)
		e.eq("kept with the parent final", e.kept(runs), "parent")
		clock.advance(time.Hour)
		e.keep(eng)
		e.eq("kept at last", e.kept(runs), "")
	}},
	{Name: "retention/purge-by-hand", Promise: "P14", Rule: "Purge deletes what its filter selects and no more, in bounded batches.", Run: func(e *E) {
		w := newWire(e.s)
		var calls tally
		w.before = func(verb string) { calls.add(verb) }
		clock := &clocked{Store: w}
		clock.set(e, "1998-06-01T00:00:00Z")
		eng := e.client(clock)
		started, err := eng.StartMany(e.ctx, "wf", make([]engine.Item, 620))
		e.ok("StartMany", err)
		for _, part := range [][]engine.Started{started[:520], started[520:610]} {
			ids := make([]store.ID, len(part))
			for i := range part {
				ids[i] = part[i].ID
			}
			_, err := clock.Cancel(e.ctx, store.CancelParams{Namespace: "engine", IDs: ids})
			e.ok("Cancel", err)
			clock.advance(time.Hour)
		}
		purge := func(f engine.PurgeFilter) int {
			e.Helper()
			n, err := eng.Purge(e.ctx, f)
			e.ok("Purge", err)
			return n
		}
		e.eq("purged of another workflow", purge(engine.PurgeFilter{Workflow: "other"}), 0)
		e.eq("purged of another status", purge(engine.PurgeFilter{Statuses: []store.Status{store.Failed}}), 0)
		e.eq("purged up to a limit", purge(engine.PurgeFilter{Limit: 7}), 7)
		before := calls.get("purge")
		e.eq("purged of the old", purge(engine.PurgeFilter{Workflow: "wf", OlderThan: 2 * time.Hour}), 513)
		e.eq("batches", calls.get("purge")-before, 2)
		e.eq("purged of all", purge(engine.PurgeFilter{}), 90)
		counts, err := eng.Count(e.ctx, store.RunFilter{})
		e.ok("Count", err)
		e.check(len(counts) == 1 && counts[0].Status == store.Pending && counts[0].Count == 10, "left: saw %+v", counts)
		w.loseEvery(1) // every answer is lost
		ctx, cancel := context.WithTimeout(e.ctx, e.d(10*time.Second))
		defer cancel()
		_, err = eng.Purge(ctx, engine.PurgeFilter{})
		e.check(err != nil, "a purge whose answers are lost: saw no error")
		for _, f := range []engine.PurgeFilter{{Limit: -1}, {Statuses: []store.Status{store.Running}}, {OlderThan: -1}} {
			_, err = eng.Purge(e.ctx, f)
			e.check(errors.Is(err, store.ErrInvalid), "%+v: saw %v, expected %v", f, err, store.ErrInvalid)
		}
	}},
	{Name: "retention/by-workers", Promise: "P13", Rule: "Workers register the retention of their workflows and apply it. An invalid retention is refused.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		bridge.Of(e.eng).Know("wf", "wf")
		tidy := func(r engine.Retention) error {
			eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Retain(r, "wf"))
			defer eng.Close()
			w := worker.New(eng, worker.Lease(e.ofLease(leaseFor)), worker.Grace(e.d(time.Second)))
			e.ok("Register", w.Register(wf))
			_, err := w.RunUntilIdle(e.ctx)
			return err
		}
		err := tidy(engine.Retention{Failed: -1})
		e.check(errors.Is(err, store.ErrInvalid) && strings.Contains(err.Error(), `for workflow "wf" is negative`), "a negative retention: saw %v", err)
		h := start(e, wf, 1)
		e.ok("RunUntilIdle", tidy(engine.KeepFor(100*time.Hour)))
		result(e, h)
		all, err := e.eng.RetentionOf(e.ctx)
		e.ok("RetentionOf", err)
		e.eq("registered", all, map[string]engine.Retention{"wf": engine.KeepFor(100 * time.Hour)})
		pause(e)
		e.untidied(e.s)
		e.ok("RunUntilIdle", tidy(engine.KeepFor(time.Millisecond)))
		_, err = e.eng.Get(e.ctx, h.ID())
		e.check(errors.Is(err, store.ErrNotFound), "the old run: saw %v, expected %v", err, store.ErrNotFound)
		if !e.h.Bubble {
			return // a worker that keeps running does it after some minutes
		}
		old := start(e, wf, 2)
		e.process(defs(wf))
		result(e, old)
		timer := time.NewTimer(20 * time.Minute)
		<-timer.C
		_, err = e.eng.Get(e.ctx, old.ID())
		e.ok("a run whose workflow keeps it", err)
	}},
}

// untidied lets retention run again at once.
func (e *E) untidied(s store.Store) {
	e.Helper()
	lock := store.LockParams{Namespace: "engine", Name: "pawl.retention", Owner: "case", For: time.Microsecond}
	res, err := s.Lock(e.ctx, lock)
	e.ok("Lock", err)
	lock.Owner, lock.For = res.Owner, 0
	_, err = s.Lock(e.ctx, lock)
	e.ok("Lock", err)
}
