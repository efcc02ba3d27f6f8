package enginetier

import (
	"context"
	"slices"
	"sync"

	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

func limitPassOn(e *E) {
	const runs = 40
	var g atWork
	var mu sync.Mutex
	var order []int
	one := limit.New("one", limit.Concurrency(1))
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		g.begin("k")
		defer g.end("k")
		mu.Lock()
		order = append(order, in)
		mu.Unlock()
		if in%4 > 0 {
			return in, nil
		}
		return in, workflow.Do(ctx, "work", func(context.Context) error { return nil })
	}, workflow.Under(one))
	e.process(defs(wf))
	e.process(defs(wf))
	hs := startN(e, wf, runs)
	results(e, hs)
	var want []int
	for i := range runs {
		want = append(want, i)
	}
	slices.SortFunc(want, func(i, j int) int {
		a, b := hs[i].ID(), hs[j].ID()
		return slices.Compare(a[:], b[:])
	})
	e.eq("at work at most", g.atMost("k"), 1)
	mu.Lock()
	defer mu.Unlock()
	e.eq("the order in which the runs began", order, want)
	for _, h := range hs {
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch of a run, which a lease that expires raises", run.Epoch, int64(1))
	}
	e.idleLimit(one)
}

func limitPassOnAnswer(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	began, release := make(chan struct{}, 1), make(chan struct{})
	sig := workflow.NewSignal[int]("sig")
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		if in > 0 {
			return sig.Receive(ctx)
		}
		began <- struct{}{}
		<-release
		return 0, nil
	}, workflow.Under(one))
	p := e.process(defs(wf))
	first := start(e, wf, 0)
	receive(e, "the first run", began)
	second := start(e, wf, 1)
	e.waitingAt(one, "", 1)
	p.wire.loseNext("commit", 1)
	send := sync.OnceFunc(func() { e.ok("send", sig.Send(e.ctx, e.eng, second.ID(), 7)) })
	p.wire.mu.Lock()
	p.wire.after = func(verb string) {
		if verb == "commit" {
			send() // before the end is sent again
		}
	}
	p.wire.mu.Unlock()
	close(release)
	result(e, first)
	e.eq("output of the second run", result(e, second), 7)
	e.eq("answers left to lose", p.wire.leftToLose("commit"), 0)
	run := e.until(second.ID(), store.Completed)
	e.eq("epoch of the second run, which a lease that expires raises", run.Epoch, int64(1))
	e.idleLimit(one)
}
