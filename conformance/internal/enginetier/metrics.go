package enginetier

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// metered makes the case's engines, and those of later processes, count into one meter.
func (e *E) metered() *meter {
	m := &meter{}
	e.opts = []engine.Option{engine.Metrics(m)}
	e.eng.Close()
	e.eng = e.client(newWire(e.s), e.opts...)
	return m
}

// balance compares the counts of a meter for a namespace with what its store has. gone contains
// final runs that the store no longer has as such: purged, or restarted since.
func (e *E) balance(m *meter, eng *engine.Engine, gone map[store.RunCount]int64) {
	e.Helper()
	rows, err := eng.Count(e.ctx, store.RunFilter{})
	e.ok("count", err)
	ns := []string{"pawl.namespace", eng.Namespace()}
	type lane struct{ queue, workflow string }
	active, final := map[lane]int64{}, maps.Clone(gone)
	if final == nil {
		final = map[store.RunCount]int64{}
	}
	for _, r := range rows {
		l := lane{r.Queue, r.Workflow}
		if active[l] += 0; r.Status.Final() {
			final[store.RunCount{Queue: r.Queue, Workflow: r.Workflow, Status: r.Status}] += r.Count
		} else {
			active[l] += r.Count
		}
	}
	for l, want := range active {
		attrs := append(ns[:2:2], "pawl.queue", l.queue, "pawl.workflow", l.workflow)
		started, finished := m.sum("pawl.run.started", attrs...), m.sum("pawl.run.finished", attrs...)
		e.check(started-finished == want, "%s: saw %d started and %d finished, and the store has %d that are not final", l.workflow, started, finished, want)
	}
	for r, want := range final {
		got := m.sum("pawl.run.finished", append(ns[:2:2], "pawl.queue", r.Queue, "pawl.workflow", r.Workflow, "pawl.status", r.Status.String())...)
		e.check(got == want, "%s that are %v: saw %d counted, expected %d", r.Workflow, r.Status, got, want)
	}
}

var metricsEngineCases = []Case{
	{Name: "metrics/balance", Promise: "P4", Rule: "Of runs of every kind and with every end, as many are counted as started and not as finished as the store has that are not final, each once.", Run: balanceOfRuns},
}

// unfinished lists the runs that are not final.
func (e *E) unfinished() []store.Run {
	e.Helper()
	page, err := e.eng.List(e.ctx, store.RunFilter{Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}}, "", 1000)
	e.ok("list", err)
	return page.Runs
}

// balanceRuns are the runs of the case metrics/balance. Its methods make them, in this order.
type balanceRuns struct {
	m        *meter
	gone     map[store.RunCount]int64 // runs that were counted as ended, and that the store no longer has as such
	at, hold chan struct{}            // a step of holds has begun, and may end

	works, fails, waits, anew, holds, family, parent *workflow.Workflow[int, int]

	all           []workflow.Definition
	first, second *proc
	broken        workflow.Handle[int]
	open, closed  bytes.Buffer // exported runs
}

var neverSent = workflow.NewSignal[int]("never")

func balanceOfRuns(e *E) {
	b := &balanceRuns{m: e.metered(), gone: map[store.RunCount]int64{}}
	b.define()
	b.defineFamilies(e)
	b.all = defs(b.works, b.fails, b.waits, b.anew, b.holds, b.family, b.parent)
	b.fire(e)
	b.first = e.process(b.all)
	b.start(e)
	b.cancel(e)
	b.takeOver(e)
	b.restartAndFork(e)
	b.export(e)
	b.shutDown(e)
	b.compare(e)
	b.importElsewhere(e)
}

// define makes workflows that work, fail, wait for a signal that never arrives, continue as new, or
// wait in a step.
func (b *balanceRuns) define() {
	b.works = workflow.New("works", func(_ workflow.Context, in int) (int, error) { return in, nil })
	b.fails = workflow.New("fails", func(ctx workflow.Context, in int) (int, error) {
		return in, workflow.Do(ctx, "step", func(context.Context) error { return workflow.Permanent(errors.New("no")) })
	})
	b.waits = workflow.New("waits", func(ctx workflow.Context, in int) (int, error) {
		if err := workflow.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
		_, err := neverSent.Receive(ctx)
		return in, err
	})
	b.anew = workflow.New("anew", func(ctx workflow.Context, in int) (int, error) {
		if in > 0 {
			return 0, workflow.ContinueAsNew(ctx, in-1)
		}
		return 0, nil
	})
	b.at, b.hold = make(chan struct{}, 4), make(chan struct{})
	b.holds = workflow.New("holds", func(ctx workflow.Context, in int) (int, error) {
		return in, workflow.Do(ctx, "step", func(context.Context) error {
			b.at <- struct{}{}
			<-b.hold
			return nil
		})
	})
}

// defineFamilies makes workflows with children: children that work, items of a map that fails and
// cancels the others, generated items, a child that its parent leaves behind, one that it waits for.
func (b *balanceRuns) defineFamilies(e *E) {
	b.family = workflow.New("family", func(ctx workflow.Context, in int) (int, error) {
		if _, err := workflow.Child(ctx, "child", b.works, in); err != nil {
			return 0, err
		}
		if _, err := workflow.Map(ctx, "map", []int{1, 2, 3}, b.works); err != nil {
			return 0, err
		}
		_, err := workflow.Map(ctx, "bad", []int{1, 2, 3, 4}, b.fails, workflow.AtOnce(2))
		e.check(err != nil, "a map of items that fail did not")
		_, err = workflow.Generate(ctx, "generate", func(_ context.Context, yield func(int) error) error {
			for i := range 5 {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, b.works)
		if err != nil {
			return 0, err
		}
		_, err = workflow.StartChild(ctx, "left", b.works, in, workflow.ChildDelay(24*time.Hour))
		return in, err
	})
	b.parent = workflow.New("parent", func(ctx workflow.Context, in int) (int, error) {
		if in == 0 {
			_, err := neverSent.Receive(ctx)
			return 0, err
		}
		_, err := workflow.Map(ctx, "below", []int{in - 1, in - 1}, workflow.New("parent", func(workflow.Context, int) (int, error) { return 0, nil }))
		return 0, err
	})
}

// fire lets a schedule of another time make a run. Nobody repeats it.
func (b *balanceRuns) fire(e *E) {
	old, clock := e.at("1998-06-01T00:00:00Z", e.opts...)
	_, err := old.PutSchedule(e.ctx, "s", "works", "@hourly", []byte("1"))
	e.ok("PutSchedule", err)
	clock.set(e, "1998-06-01T01:00:00Z")
	e.eq("firings", e.keep(old).Fired, 1)
	e.ok("DeleteSchedule", old.DeleteSchedule(e.ctx, "s"))
}

func (b *balanceRuns) start(e *E) {
	id := store.NewID()
	for range 2 {
		start(e, b.works, 1, engine.RunID(id))
		start(e, b.works, 1, engine.ExternalID("one"))
	}
	results(e, startN(e, b.works, 5))
	later := start(e, b.works, 1, engine.Delay(24*time.Hour))
	e.ok("cancel of a pending run", e.eng.Cancel(e.ctx, later.ID(), ""))
	e.ok("cancel again", e.eng.Cancel(e.ctx, later.ID(), ""))
	start(e, b.works, 1, engine.Delay(24*time.Hour)) // stays
	result(e, start(e, b.anew, 3))
	result(e, start(e, b.family, 1))
}

// cancel cancels runs while they sleep: one, many, a tree. The deadline of another one passes.
func (b *balanceRuns) cancel(e *E) {
	sleepers := startN(e, b.waits, 4)
	for _, h := range sleepers {
		e.until(h.ID(), store.Sleeping)
	}
	e.ok("cancel of a sleeper", e.eng.Cancel(e.ctx, sleepers[0].ID(), ""))
	_, err := e.eng.CancelMany(e.ctx, store.RunFilter{Workflow: "waits"}, "all of them")
	e.ok("cancel of many", err)
	root := start(e, b.parent, 2)
	for e.counts(store.RunFilter{Workflow: "parent"})[store.Sleeping] < 7 {
		pause(e)
	}
	e.ok("cancel of a tree", e.eng.Cancel(e.ctx, root.ID(), ""))
	_, err = start(e, b.waits, 1, engine.Timeout(e.d(10*time.Second))).Result(e.ctx)
	e.check(err != nil, "a run outlived its deadline")
}

// takeOver ends a run by force, and lets a second process take over one of the first, which dies.
func (b *balanceRuns) takeOver(e *E) {
	forced := start(e, b.holds, 1)
	receive(e, "the step", b.at)
	e.ok("ForceCancel", e.eng.ForceCancel(e.ctx, forced.ID(), ""))
	orphan := start(e, b.holds, 1)
	receive(e, "the step", b.at)
	b.first.kill()
	b.second = e.process(b.all)
	close(b.hold)
	result(e, orphan)
}

// restartAndFork restarts a run to fail once more, and forks it twice with one id.
func (b *balanceRuns) restartAndFork(e *E) {
	b.broken = start(e, b.fails, 1)
	for range 2 {
		_, err := b.broken.Result(e.ctx)
		e.check(err != nil, "the run did not fail")
		e.ok("restart", e.eng.Restart(e.ctx, b.broken.ID()))
		b.gone[store.RunCount{Queue: "fails", Workflow: "fails", Status: store.Failed}]++
	}
	_, err := b.broken.Result(e.ctx)
	e.check(err != nil, "the run did not fail")
	fork := store.NewID()
	for range 2 {
		_, err := e.eng.Fork(e.ctx, b.broken.ID(), engine.ForkID(fork))
		e.ok("fork", err)
	}
}

func (b *balanceRuns) export(e *E) {
	for len(e.unfinished()) > 1 {
		pause(e)
	}
	e.ok("export", e.eng.Export(e.ctx, &b.open, e.unfinished()[0].ID))
	e.ok("export", e.eng.Export(e.ctx, &b.closed, b.broken.ID()))
}

// shutDown stops the second process, which has then counted everything that it did, and purges runs.
func (b *balanceRuns) shutDown(e *E) {
	b.second.stop()
	before := e.counts(store.RunFilter{Workflow: "anew"})[store.Completed]
	purged, err := e.eng.Purge(e.ctx, engine.PurgeFilter{Workflow: "anew"})
	e.ok("purge", err)
	e.eq("purged runs", []int64{int64(purged), before}, []int64{1, 1})
	b.gone[store.RunCount{Queue: "anew", Workflow: "anew", Status: store.Completed}]++
	e.balance(b.m, e.eng, b.gone)
}

// compare compares the sums of the instruments with what was done.
func (b *balanceRuns) compare(e *E) {
	for origin, want := range map[string]int64{"start": 20, "schedule": 1, "fork": 1, "restart": 2, "import": 0} {
		e.eq("origin "+origin, b.m.sum("pawl.run.started", "pawl.run.origin", origin), want)
	}
	for name, want := range map[string]int64{"works": 1 + 3 + 5 + 1, "parent": 6} {
		e.eq("children of "+name, b.m.sum("pawl.run.started", "pawl.run.origin", "child", "pawl.workflow", name), want)
	}
	e.eq("canceled runs and their error.type", b.m.sum("pawl.run.finished", "pawl.status", "canceled"), b.m.sum("pawl.run.finished", "error.type", "canceled"))
	e.eq("the error.type of a deadline", b.m.sum("pawl.run.finished", "error.type", "deadline"), int64(1))
	e.eq("leases lost", b.m.sum("pawl.lease.lost", "pawl.workflow", "holds") > 0, true)
	for _, name := range []string{"pawl.run.started", "pawl.run.finished", "pawl.lease.lost"} {
		allowed := []string{"pawl.namespace", "pawl.store", "pawl.queue", "pawl.workflow", "pawl.status", "pawl.run.origin", "error.type"}
		for key := range b.m.keys(name) {
			e.check(slices.Contains(allowed, key), "%s has the attribute %s", name, key)
		}
	}
}

// importElsewhere imports the exported runs into another store, twice.
func (b *balanceRuns) importElsewhere(e *E) {
	if _, ok := e.s.(store.Importer); !ok {
		return
	}
	there := engine.New(newWire(e.h.New(e.TB)), engine.Namespace("laptop"), engine.Logger(quiet), engine.Metrics(b.m))
	e.Cleanup(there.Close)
	for range 2 {
		for _, doc := range []*bytes.Buffer{&b.open, &b.closed} {
			_, err := there.Import(e.ctx, bytes.NewReader(doc.Bytes()))
			e.ok("import", err)
		}
	}
	e.eq("imported runs that are counted", b.m.sum("pawl.run.started", "pawl.namespace", "laptop", "pawl.run.origin", "import"), int64(1))
	e.balance(b.m, there, map[store.RunCount]int64{{Queue: "fails", Workflow: "fails", Status: store.Failed}: -1}) // it did not end here
}
