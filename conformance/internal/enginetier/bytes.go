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

// scale is a store that measures the calls of a process, and refuses those that a case chooses.
type scale struct {
	store.Store
	mu      sync.Mutex
	calls   map[string]int // the largest call of several items, in bytes, by verb
	refuses func(verb string, runs []store.ID, bare bool) error
	// extended, if set before the process runs, is called when a renewal tells that a lease is lost.
	extended func()
}

// weighed puts a scale between a process that does not run yet and its store.
func weighed(p *proc) *scale {
	g := &scale{Store: p.wire.Store, calls: make(map[string]int)}
	p.wire.Store = g
	return g
}

// refuse sets which calls fail from now on, according to the runs that they contain; nil: none.
func (g *scale) refuse(fn func(verb string, runs []store.ID, bare bool) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuses = fn
}

func (g *scale) refused(verb string, runs []store.ID, bare bool) error {
	g.mu.Lock()
	fn := g.refuses
	g.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn(verb, runs, bare)
}

func (g *scale) note(verb string, items, size int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if items > 1 {
		g.calls[verb] = max(g.calls[verb], size)
	}
}

func (g *scale) largest(verb string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[verb]
}

func (g *scale) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if h, ok := g.Store.(store.Hinter); ok {
		return h.Hints(ctx, topics...)
	}
	return nil, store.ErrUnsupported
}

func (g *scale) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	size := 0
	for i := range p.Runs {
		size += p.Runs[i].Size()
	}
	g.note("create", len(p.Runs), size)
	return g.Store.Create(ctx, p)
}

func (g *scale) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	size := 0
	ids := make([]store.ID, len(p.Commits))
	for i := range p.Commits {
		size += p.Commits[i].Size()
		ids[i] = p.Commits[i].Lease.Run
	}
	g.note("commit", len(p.Commits), size)
	if err := g.refused("commit", ids, false); err != nil {
		return nil, err
	}
	return g.Store.Commit(ctx, p)
}

func (g *scale) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if err := g.refused("claim", nil, p.Bare); err != nil {
		return store.Claimed{}, err
	}
	claimed, err := g.Store.Claim(ctx, p)
	size := 0
	for i := range claimed.Runs {
		r := &claimed.Runs[i]
		size += len(r.Run.Input) + len(r.Run.Meta)
		for _, s := range r.Steps {
			size += len(s.Output)
		}
		for _, s := range r.Inbox.Signals {
			size += len(s.Payload)
		}
		for _, s := range r.Inbox.State {
			size += len(s.Value)
		}
	}
	g.note("claim", 2, size)
	return claimed, err
}

func (g *scale) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	if err := g.refused("get", p.IDs, false); err != nil {
		return nil, err
	}
	return g.Store.Get(ctx, p)
}

func (g *scale) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	res, err := g.Store.Extend(ctx, p)
	if g.extended != nil && slices.ContainsFunc(res, func(r store.LeaseState) bool { return r.Lost }) {
		g.extended()
	}
	return res, err
}

func (g *scale) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	box, err := g.Store.Inbox(ctx, p)
	size := 0
	for _, s := range box.Signals {
		size += len(s.Payload)
	}
	for _, s := range box.State {
		size += len(s.Value)
	}
	g.note("inbox", 2, size)
	return box, err
}

func (g *scale) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	page, err := g.Store.Steps(ctx, p)
	size := 0
	for _, s := range page.Steps {
		size += len(s.Output)
	}
	g.note("steps", len(page.Steps), size)
	return page, err
}

// large returns a text of that size that contains its number.
func large(n, size int) string {
	head := fmt.Sprintf("%d ", n)
	return head + strings.Repeat("x", size-len(head))
}

// The size of a large payload, and of one of which a claim returns a few.
const (
	largeSize  = 1 << 20
	mediumSize = 300 << 10
)

// writer is a workflow of three steps with large outputs.
var writer = workflow.New("writer", func(ctx workflow.Context, in int) (int, error) {
	sum := 0
	for i := range 3 {
		out, err := workflow.Step(ctx, fmt.Sprint("part", i), func(context.Context) (string, error) { return large(in, largeSize), nil })
		if err != nil {
			return 0, err
		}
		sum += len(out)
	}
	return sum, nil
})

// small is a workflow that ends at once.
var small = workflow.New("small", func(ctx workflow.Context, in int) (int, error) {
	return workflow.Step(ctx, "step", func(context.Context) (int, error) { return in + 1, nil })
})

// fewRuns is enough for calls that would be too large together.
const fewRuns = 12

var bytesEngineCases = []Case{
	{Name: "bytes/commits", Promise: "P12", Rule: "Commits that are large in total are sent in calls of some megabytes, and a run with small commits continues beside them.", Run: func(e *E) {
		p := e.build(defs(writer, small), worker.Concurrency(fewRuns+1), worker.Lease(leaseFor))
		g := weighed(p)
		hs := startN(e, writer, fewRuns)
		h := start(e, small, 1)
		p.run()
		e.eq("output of the small run", result(e, h), 2)
		for _, n := range results(e, hs) {
			e.eq("bytes", n, 3*largeSize)
		}
		e.check(g.largest("commit") > 0 && g.largest("commit") <= store.CallBytes, "the largest call had %d bytes, expected some, and at most %d", g.largest("commit"), store.CallBytes)
	}},
	{Name: "bytes/branches", Promise: "P12", Rule: "The records of the branches of one run are sent in commits of some megabytes.", Run: func(e *E) {
		var most tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			var group []*workflow.Future[string]
			for i := range fewRuns {
				group = append(group, workflow.Go(ctx, fmt.Sprint("b", i), func(ctx workflow.Context) (string, error) {
					return workflow.Step(ctx, "step", func(context.Context) (string, error) { return large(i, largeSize), nil })
				}))
			}
			sum := 0
			for _, f := range group {
				out, err := f.Get(ctx)
				if err != nil {
					return 0, err
				}
				sum += len(out)
			}
			return sum, nil
		})
		p := e.build(defs(wf), worker.Lease(leaseFor))
		p.wire.Store = &sizes{Store: p.wire.Store, most: &most}
		p.run()
		h := start(e, wf, 0)
		e.eq("bytes", result(e, h), fewRuns*largeSize)
		e.eq("commits of more than a call", most.get("over"), 0)
	}},
	{Name: "bytes/starts", Promise: "P12", Rule: "Starts that are large together go in calls of some megabytes.", Run: func(e *E) {
		p := e.build(defs(small))
		g := weighed(p)
		echo := workflow.New("echo", func(_ workflow.Context, in string) (int, error) { return len(in), nil })
		bridge.Of(p.eng).Know(echo.Name(), echo.Name())
		items := make([]workflow.Each[string], fewRuns)
		for i := range items {
			items[i].In = large(i, largeSize)
		}
		many, err := echo.StartMany(e.ctx, p.eng, items)
		e.ok("start of many", err)
		var wg sync.WaitGroup
		single := make([]workflow.Handle[int], fewRuns)
		for i := range single {
			wg.Go(func() {
				var err error
				single[i], err = echo.Start(e.ctx, p.eng, large(i, largeSize))
				if err != nil {
					e.Errorf("start: %v", err)
				}
			})
		}
		wg.Wait()
		e.check(g.largest("create") > 0 && g.largest("create") <= store.CallBytes, "the largest call had %d bytes, expected some, and at most %d", g.largest("create"), store.CallBytes)
		q := e.build(defs(echo), worker.Lease(leaseFor))
		claims := weighed(q)
		q.run()
		for _, n := range results(e, slices.Concat(many, single)) {
			e.eq("bytes", n, largeSize)
		}
		e.check(claims.largest("claim") <= 2*store.DefaultClaimBytes, "the largest claim brought %d bytes", claims.largest("claim"))
	}},
	{Name: "bytes/commit-that-fails", Promise: "P16", Rule: "A commit that the store cannot accept at present stops no other run, and succeeds once the store accepts it.", Run: func(e *E) {
		p := e.build(defs(small), worker.Lease(leaseFor))
		g := weighed(p)
		hs := startN(e, small, 30)
		bad := hs[7].ID()
		g.refuse(func(verb string, runs []store.ID, _ bool) error {
			if verb == "commit" && slices.Contains(runs, bad) {
				return fmt.Errorf("conformance: no commit of this run: %w", store.ErrUnavailable)
			}
			return nil
		})
		p.run()
		for i, h := range hs {
			if h.ID() != bad {
				e.eq("output", result(e, h), i+1)
			}
		}
		run, err := e.eng.Get(e.ctx, bad)
		e.ok("get", err)
		e.eq("status of the run whose commits fail", run.Status, store.Running)
		g.refuse(nil)
		e.eq("output of the run whose commits failed", result(e, hs[7]), 8)
	}},
	{Name: "bytes/commit-too-large", Promise: "P12", Rule: "A commit that is too large for the store fails its own run, at once, and no other.", Run: func(e *E) {
		p := e.build(defs(small), worker.Lease(leaseFor))
		g := weighed(p)
		hs := startN(e, small, 30)
		bad, failed := hs[7].ID(), false
		g.refuse(func(verb string, runs []store.ID, _ bool) error {
			if verb == "commit" && slices.Contains(runs, bad) && !failed {
				failed = len(runs) == 1
				return &store.TooLargeError{Field: "call", Size: 2, Limit: 1}
			}
			return nil
		})
		p.run()
		for i, h := range hs {
			if h.ID() != bad {
				e.eq("output", result(e, h), i+1)
			}
		}
		_, err := hs[7].Result(e.ctx)
		e.check(errors.Is(err, store.ErrTooLarge) || err != nil && strings.Contains(err.Error(), "over the limit"), "result: saw %v, expected that it is too large", err)
	}},
	{Name: "bytes/claim-that-fails", Promise: "P16", Rule: "A run whose history cannot be read in a claim is set aside with the reason; other runs continue.", Run: func(e *E) {
		p := e.build(defs(small), worker.Lease(leaseFor))
		g := weighed(p)
		bad := start(e, small, 0, engine.Priority(10)).ID()
		hs := startN(e, small, 20)
		g.refuse(func(verb string, runs []store.ID, bare bool) error {
			switch {
			case verb == "get" && slices.Contains(runs, bad):
				return fmt.Errorf("conformance: this run cannot be read: %w", store.ErrUnavailable)
			case verb == "claim" && !bare:
				run, err := e.eng.Get(e.ctx, bad)
				if err != nil || run.Status == store.Pending && run.Epoch == 0 {
					return fmt.Errorf("conformance: the first run cannot be read: %w", store.ErrUnavailable)
				}
			}
			return nil
		})
		p.run()
		for i, h := range hs {
			e.eq("output", result(e, h), i+1)
		}
		var run store.Run
		for run.Failure == nil {
			var err error
			run, err = e.eng.Get(e.ctx, bad)
			e.ok("get", err)
			pause(e)
		}
		e.eq("status", run.Status, store.Pending)
		e.eq("code", run.Failure.Code, workflow.CodeUnreadable)
		why, err := e.eng.Explain(e.ctx, bad)
		e.ok("explain", err)
		e.check(strings.Contains(fmt.Sprintf("%+v", why), "cannot be read"), "explain does not tell why: %+v", why)
	}},
	{Name: "bytes/lost-while-read", Promise: "P16", Rule: "A worker gives up a run whose lease is lost while its content is read, and does not wait for it when it shuts down.", Run: func(e *E) {
		p := e.build(defs(small), worker.Lease(e.ofLease(leaseFor)), worker.Grace(time.Minute))
		g := weighed(p)
		bad := start(e, small, 0).ID()
		lost := make(chan struct{}) // closed when the worker has been told
		g.extended = sync.OnceFunc(func() { close(lost) })
		var once sync.Once
		g.refuse(func(verb string, runs []store.ID, bare bool) error {
			switch {
			case verb == "get" && slices.Contains(runs, bad):
				once.Do(func() {
					e.ok("force cancel", e.eng.ForceCancel(e.ctx, bad, ""))
					<-lost
					for range 3 { // until the run is closed
						pause(e)
					}
				})
				return fmt.Errorf("conformance: this run cannot be read: %w", store.ErrUnavailable)
			case verb == "claim" && !bare:
				return fmt.Errorf("conformance: the first run cannot be read: %w", store.ErrUnavailable)
			}
			return nil
		})
		p.run()
		<-lost
		from := time.Now()
		p.stop()
		e.check(time.Since(from) < 30*time.Second, "the worker shut down after %v", time.Since(from))
	}},
	{Name: "bytes/large-inbox", Promise: "P17", Rule: "A run with more unread signals than a claim returns stops no other run, and receives a signal that comes after them.", Run: func(e *E) {
		var noise = workflow.NewSignal[string]("noise")
		reader := workflow.New("reader", func(ctx workflow.Context, n int) ([]int, error) {
			w, err := word.Receive(ctx)
			if err != nil {
				return nil, err
			}
			got := []int{len(w)}
			for range n {
				s, err := noise.Receive(ctx)
				if err != nil {
					return nil, err
				}
				var k int
				if _, err := fmt.Sscan(s[:10], &k); err != nil {
					return nil, err
				}
				got = append(got, k)
			}
			return got, nil
		})
		const n = 24
		bridge.Of(e.eng).Know(reader.Name(), reader.Name())
		h := start(e, reader, n)
		for i := range n {
			send(e, noise, h.ID(), large(i, mediumSize))
		}
		p := e.build(defs(reader, small), worker.Lease(leaseFor))
		g := weighed(p)
		hs := startN(e, small, 20)
		p.run()
		for i, h := range hs {
			e.eq("output", result(e, h), i+1)
		}
		send(e, word, h.ID(), "word")
		want := []int{4}
		for i := range n {
			want = append(want, i)
		}
		e.eq("what was received", result(e, h), want)
		for _, verb := range []string{"claim", "inbox"} {
			e.check(g.largest(verb) <= 2*store.DefaultClaimBytes, "the largest %s brought %d bytes", verb, g.largest(verb))
		}
	}},
	{Name: "bytes/large-state", Promise: "P17", Rule: "A wait for state sees all of a state that is larger than a claim or an answer.", Run: func(e *E) {
		const n = 6
		var keys []workflow.State[string]
		for i := range n {
			keys = append(keys, workflow.NewState[string](fmt.Sprint("key", i)))
		}
		done := workflow.NewState[bool]("done")
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			sum := 0
			err := workflow.WaitForState(ctx, "all", func(r workflow.FlowStateReader) (bool, error) {
				if !r.Has(done.Key()) {
					return false, nil
				}
				sum = 0
				for _, k := range keys {
					s, _, err := k.Read(r)
					if err != nil {
						return false, err
					}
					sum += len(s)
				}
				return true, nil
			})
			return sum, err
		})
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		h := start(e, wf, 0)
		p := e.build(defs(wf), worker.Lease(leaseFor))
		g := weighed(p)
		for i, k := range keys {
			set(e, k, h.ID(), large(i, largeSize))
		}
		p.run()
		e.until(h.ID(), store.Sleeping)
		set(e, done, h.ID(), true)
		e.eq("bytes", result(e, h), n*largeSize)
		e.check(g.largest("claim") <= store.DefaultClaimBytes, "the largest claim brought %d bytes", g.largest("claim"))
	}},
	{Name: "bytes/long-history", Promise: "P3", Rule: "A history that is larger than a claim is replayed in pages, in several branches, and every step ran once.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		step := func(ctx workflow.Context, i int) (int, error) {
			name := fmt.Sprint("step", i)
			out, err := workflow.Step(ctx, name, func(context.Context) (string, error) {
				ran.add(name)
				return large(i, mediumSize), nil
			})
			if err == nil && out != large(i, mediumSize) {
				err = fmt.Errorf("step %d returned another step's output", i)
			}
			return len(out), err
		}
		const n = 10
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			sum := 0
			other := workflow.Go(ctx, "other", func(ctx workflow.Context) (int, error) {
				sum := 0
				for i := range n {
					k, err := step(ctx, n+i)
					if err != nil {
						return 0, err
					}
					sum += k
				}
				return sum, nil
			})
			for i := range n {
				k, err := step(ctx, i)
				if err != nil {
					return 0, err
				}
				sum += k
			}
			k, err := other.Get(ctx)
			if err != nil {
				return 0, err
			}
			err = workflow.Do(ctx, "last", func(ctx context.Context) error {
				if ran.add("last") == 1 {
					blocked <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			return sum + k, err
		})
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the last step", blocked)
		first.kill()
		p := e.build(defs(wf))
		g := weighed(p)
		p.run()
		e.eq("bytes", result(e, h), 2*n*mediumSize)
		for i := range 2 * n {
			e.eq("executions", ran.get(fmt.Sprint("step", i)), 1)
		}
		for _, verb := range []string{"claim", "steps"} {
			e.check(g.largest(verb) > 0 && g.largest(verb) <= store.DefaultClaimBytes, "the largest %s brought %d bytes", verb, g.largest(verb))
		}
	}},
	{Name: "bytes/many-groups", Promise: "P9", Rule: "A run with more groups of children than one answer returns waits for each of them.", Run: func(e *E) {
		const n = store.MaxPage + 5
		child := workflow.New("child", func(_ workflow.Context, in int) (int, error) { return in, nil })
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			var children []*workflow.ChildRun[int]
			for i := range n {
				c, err := workflow.StartChild(ctx, fmt.Sprint("c", i), child, i)
				if err != nil {
					return 0, err
				}
				children = append(children, c)
			}
			if err := workflow.Sleep(ctx, "sleep", e.d(10*time.Second)); err != nil {
				return 0, err
			}
			sum := 0
			for _, c := range slices.Backward(children) {
				k, err := c.Get(ctx)
				if err != nil {
					return 0, err
				}
				sum += k
			}
			return sum, nil
		})
		e.process(defs(wf, child), worker.Concurrency(50), worker.Lease(leaseFor))
		e.eq("sum", result(e, start(e, wf, 0)), n*(n-1)/2)
	}},
}

// sizes is a store that counts commits that are larger than a call.
type sizes struct {
	store.Store
	most *tally
}

func (s *sizes) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		if p.Commits[i].Size() > store.CallBytes {
			s.most.add("over")
		}
	}
	return s.Store.Commit(ctx, p)
}
