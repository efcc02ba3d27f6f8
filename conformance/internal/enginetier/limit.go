package enginetier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// atWork knows how many are at work, and how many have been at most.
type atWork struct {
	mu        sync.Mutex
	now, most map[string]int
	order     []string // who began
}

func (g *atWork) begin(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		g.now, g.most = make(map[string]int), make(map[string]int)
	}
	g.now[key]++
	g.most[key] = max(g.most[key], g.now[key])
	g.order = append(g.order, key)
}

func (g *atWork) end(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[key]--
}

func (g *atWork) atMost(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most[key]
}

func (g *atWork) began() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.order)
}

// work is at work for a while.
func (g *atWork) work(ctx context.Context, key string, d time.Duration) error {
	g.begin(key)
	defer g.end(key)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gate holds a step until it is opened.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitingAt waits until so many runs wait under a limit, by its key.
func (e *E) waitingAt(lim *limit.Limit, key string, n int64) store.LimitKey {
	e.Helper()
	for {
		page, err := e.eng.LimitKeys(e.ctx, lim.Name(), "", 0)
		e.ok("keys", err)
		for _, k := range page.Keys {
			if k.Key == key && k.Waiting == n {
				return k
			}
		}
		pause(e)
	}
}

// idleLimit checks that nothing holds or waits under a limit.
func (e *E) idleLimit(lim *limit.Limit) {
	e.Helper()
	page, err := e.eng.LimitKeys(e.ctx, lim.Name(), "", 0)
	e.ok("keys", err)
	for _, k := range page.Keys {
		e.check(k.Held == 0 && k.Waiting == 0, "key %q of limit %s holds %d permits and %d runs wait, expected none", k.Key, lim.Name(), k.Held, k.Waiting)
	}
}

// working is a workflow with one step, which is at work for a while.
func working(e *E, g *atWork, opts ...workflow.Option) *workflow.Workflow[string, string] {
	return workflow.New("working", func(ctx workflow.Context, key string) (string, error) {
		return key, workflow.Do(ctx, "work", func(sctx context.Context) error { return g.work(sctx, key, e.d(2*time.Second)) })
	}, opts...)
}

func byInput(s string) string { return s }

var limitEngineCases = []Case{
	{Name: "limit/concurrency", Promise: "P21", Rule: "No more runs than a limit's concurrency are at work at a time, over all processes, and all of them end.", Run: func(e *E) {
		var g atWork
		three := limit.New("three", limit.Concurrency(3))
		hold := newGate()
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(sctx context.Context) error {
				g.begin("k")
				defer g.end("k")
				return hold.pass(sctx)
			})
		}, workflow.Under(three))
		e.process(defs(wf))
		e.process(defs(wf))
		hs := startN(e, wf, 12)
		for range 3 {
			receive(e, "a step", hold.entered)
		}
		e.eq("permits held", e.waitingAt(three, "", 9).Held, int64(3))
		close(hold.open)
		results(e, hs)
		e.eq("at work at most", g.atMost("k"), 3)
		e.idleLimit(three)
	}},
	{Name: "limit/pass-on", Promise: "P21", Rule: "Many runs under a limit of one that two processes execute are at work one at a time, in their order, each once, and all of them end.", Run: limitPassOn},
	{Name: "limit/pass-on-answer", Promise: "P4", Rule: "If the answer to the end of a run under a limit is lost, the next run begins all the same: its lease does not have to expire, and no crash is counted. A signal that came meanwhile reaches it.", Run: limitPassOnAnswer},
	{Name: "limit/by-key", Promise: "P21", Rule: "A limit with a key counts the runs of each key apart.", Run: func(e *E) {
		var g atWork
		one := limit.New("one", limit.Concurrency(1))
		wf := working(e, &g, workflow.UnderKey(one, byInput))
		e.process(defs(wf))
		e.process(defs(wf))
		var in []workflow.Each[string]
		for i := range 8 {
			in = append(in, workflow.Each[string]{In: []string{"a", "b"}[i%2]})
		}
		hs, err := wf.StartMany(e.ctx, e.eng, in)
		e.ok("start of many", err)
		results(e, hs)
		e.eq("at work at most", []int{g.atMost("a"), g.atMost("b")}, []int{1, 1})
		e.idleLimit(one)
	}},
	{Name: "limit/rate", Promise: "P22", Rule: "After a burst, runs under a rate begin one after the other, as their tokens come.", Run: func(e *E) {
		every := e.d(10 * time.Second)
		rate := limit.New("rate", limit.Rate(6, 6*every, limit.Burst(2)))
		wf := workflow.New("quick", func(workflow.Context, int) (int, error) { return 0, nil }, workflow.Under(rate))
		e.process(defs(wf))
		hs := startN(e, wf, 6)
		results(e, hs)
		var began []time.Time
		for _, h := range hs {
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			began = append(began, run.StartedAt)
		}
		slices.SortFunc(began, time.Time.Compare)
		for i := 2; i < len(began); i++ {
			took := began[i].Sub(began[0])
			e.check(took >= time.Duration(i-1)*every, "run %d began %v after the first, expected at least %v", i+1, took, time.Duration(i-1)*every)
		}
	}},
	{Name: "limit/step", Promise: "P21", Rule: "Steps under a limit are at work within its concurrency. A run whose step waits holds no slot, and other runs go on.", Run: limitedStep},
	{Name: "limit/step-record", Promise: "P24", Rule: "The permit of a step ends with its record, while its run goes on.", Run: func(e *E) {
		one := limit.New("one", limit.Concurrency(1))
		hold := newGate()
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "limited", func(context.Context) error { return nil }, workflow.StepUnder(one)); err != nil || in > 0 {
				return in, err
			}
			return in, workflow.Do(ctx, "long", hold.pass)
		})
		e.process(defs(wf))
		first := start(e, wf, 0)
		receive(e, "the long step", hold.entered)
		e.eq("output of another run", result(e, start(e, wf, 1)), 1)
		close(hold.open)
		result(e, first)
		e.idleLimit(one)
	}},
	{Name: "limit/step-crash", Promise: "P21", Rule: "The permit of a step whose worker was killed counts until its run is taken over, and the takeover has it: the step is done again, and only then the next one.", Run: limitedStepCrash},
	{Name: "limit/step-after-crash", Promise: "P6", Rule: "A run whose worker was killed before a step under a limit waits for its permit and goes on, and its crash still counts.", Run: limitedAfterCrash},
	{Name: "limit/step-retry", Promise: "P22", Rule: "Each attempt of a step takes tokens as it begins, and a step that is replayed takes none.", Run: limitedRetry},
	{Name: "limit/step-branches", Promise: "P21", Rule: "One branch's step that waits for a permit does not stop the other branches, and steps of several branches get their permits one after the other.", Run: limitedBranches},
	{Name: "limit/step-of-own", Promise: "P21", Rule: "A step under a limit that its run is under has the run's permit. With another key it is refused.", Run: func(e *E) {
		one := limit.New("one", limit.Concurrency(1))
		wf := workflow.New("wf", func(ctx workflow.Context, key string) (string, error) {
			if err := workflow.Do(ctx, "same", func(context.Context) error { return nil }, workflow.StepUnder(one, limit.Key(key))); err != nil {
				return "", err
			}
			err := workflow.Do(ctx, "other", func(context.Context) error { return nil }, workflow.StepUnder(one, limit.Key("other")))
			if !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("saw %v, expected store.ErrInvalid", err)
			}
			return err.Error(), nil
		}, workflow.UnderKey(one, byInput))
		e.process(defs(wf))
		text := result(e, start(e, wf, "a"))
		e.check(strings.Contains(text, `"other"`) && strings.Contains(text, `"a"`), "the error says %q, expected both keys", text)
	}},
	{Name: "limit/cancel", Promise: "P11", Rule: "A run that waits for the permit of a step can be canceled, and gets none.", Run: func(e *E) {
		one := limit.New("one", limit.Concurrency(1))
		hold := newGate()
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "before", func(context.Context) error { return nil }); err != nil {
				return in, err
			}
			return in, workflow.Do(ctx, "limited", hold.pass, workflow.StepUnder(one))
		})
		e.process(defs(wf))
		first := start(e, wf, 0)
		receive(e, "the limited step", hold.entered)
		second := start(e, wf, 1)
		e.waitingAt(one, "", 1)
		e.ok("cancel", second.Cancel(e.ctx, "not needed"))
		_, err := second.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "not needed")
		close(hold.open)
		result(e, first)
		e.idleLimit(one)
	}},
	{Name: "limit/children", Promise: "P21", Rule: "Children, items and runs of schedules are under the limits of their workflow, with keys of their own inputs.", Run: limitedChildren},
	{Name: "limit/by-reference", Promise: "P16", Rule: "A start by a workflow's name is under the limits that its workers have registered. It must give the keys that the code works out.", Run: limitedByReference},
	{Name: "limit/fair", Promise: "P23", Rule: "Under a fair limit, a key with few runs does not wait for another key's many.", Run: func(e *E) {
		var g atWork
		fair := limit.New("fair", limit.Fair())
		wf := workflow.New("wf", func(ctx workflow.Context, key string) (string, error) {
			return key, workflow.Do(ctx, "work", func(context.Context) error { g.begin(key); return nil })
		}, workflow.UnderKey(fair, byInput))
		var in []workflow.Each[string]
		for range 20 {
			in = append(in, workflow.Each[string]{In: "big"})
		}
		in = append(in, workflow.Each[string]{In: "small"}, workflow.Each[string]{In: "small"})
		p := e.build(defs(wf), worker.Concurrency(1), worker.Lease(leaseFor)) // a run whose lease runs out loses its turn
		hs, err := wf.StartMany(e.ctx, e.eng, in)
		e.ok("start of many", err)
		p.run()
		results(e, hs)
		order := g.began()
		last := len(order) - 1
		for order[last] != "small" {
			last--
		}
		e.check(last < 6, "the runs of the small key were done by place %d of %v, expected among the first 6", last+1, order)
	}},
	{Name: "limit/explained", Promise: "P16", Rule: "It can be seen which limit holds a run, who holds its permits, and when a rate lets it go.", Run: limitExplained},
	{Name: "limit/explained-pace", Promise: "P16", Rule: "Explain says how many runs go before a run that waits for a limit and key, and when its turn comes at the present pace.", Run: limitPace},
	{Name: "limit/set", Promise: "P21", Rule: "An operator's rule counts at once, whatever code registers, until it is removed.", Run: limitSet},
	{Name: "limit/bad-input", Promise: "P16", Rule: "Limits, keys and tokens that are not valid are refused, with a reason.", Run: limitBadInput},
}

func limitedStep(e *E) {
	var g atWork
	two := limit.New("two", limit.Concurrency(2))
	hold := newGate()
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		return in, workflow.Do(ctx, "limited", func(sctx context.Context) error {
			g.begin("k")
			defer g.end("k")
			return hold.pass(sctx)
		}, workflow.StepUnder(two))
	})
	free := workflow.New("free", func(_ workflow.Context, in int) (int, error) { return in, nil })
	e.process(defs(wf, free), worker.Concurrency(3))
	hs := startN(e, wf, 8)
	for range 2 {
		receive(e, "a limited step", hold.entered)
	}
	e.waitingAt(two, "", 6)
	e.eq("output of a run under no limit", result(e, start(e, free, 7)), 7)
	close(hold.open)
	results(e, hs)
	e.eq("at work at most", g.atMost("k"), 2)
	for _, h := range hs {
		e.eq("attempt of the step", e.steps(h.ID())["limited"].Attempt, 1)
	}
	e.idleLimit(two)
}

func limitedStepCrash(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	var ran tally
	var order atWork
	blocked := make(chan struct{}, 1)
	wf := workflow.New("wf", func(ctx workflow.Context, key string) (string, error) {
		return key, workflow.Do(ctx, "limited", func(sctx context.Context) error {
			order.begin(key)
			defer order.end(key)
			if ran.add(key) == 1 && key == "first" {
				blocked <- struct{}{}
				<-sctx.Done()
				return sctx.Err()
			}
			return nil
		}, workflow.StepUnder(one))
	})
	victim := e.process(defs(wf))
	first := start(e, wf, "first")
	receive(e, "the first step", blocked)
	victim.kill()
	second := start(e, wf, "second")
	e.process(defs(wf))
	results(e, []workflow.Handle[string]{first, second})
	e.eq("order", order.began(), []string{"first", "first", "second"})
	e.idleLimit(one)
}

func limitedAfterCrash(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	var ran tally
	var h workflow.Handle[int]
	began, release, crashes := make(chan struct{}, 1), make(chan struct{}), make(chan int, 2)
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		if ran.add("before") == 1 {
			began <- struct{}{}
			<-release
			return 0, nil
		}
		return workflow.Step(ctx, "limited", func(sctx context.Context) (int, error) {
			run, err := e.eng.Get(sctx, h.ID())
			crashes <- engine.Crashes(&run)
			return in, err
		}, workflow.StepUnder(one))
	})
	victim := e.process(defs(wf))
	h = start(e, wf, 5)
	receive(e, "the run", began)
	victim.kill()
	close(release)
	e.process(defs(wf))
	e.eq("output", result(e, h), 5)
	e.eq("crashes during the step", <-crashes, 1)
	e.idleLimit(one)
}

func limitedRetry(e *E) {
	every := e.d(20 * time.Second)
	rate := limit.New("rate", limit.Rate(1, every))
	var mu sync.Mutex
	var began []time.Time
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		err := workflow.Do(ctx, "limited", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if began = append(began, time.Now()); len(began) < 3 {
				return errors.New("not yet")
			}
			return nil
		}, workflow.StepUnder(rate), workflow.Backoff(e.d(100*time.Millisecond), 1, 0))
		if err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, "nap", e.d(time.Minute)); err != nil { // and replay
			return 0, err
		}
		return len(began), nil
	})
	e.process(defs(wf))
	from := time.Now()
	e.eq("attempts", result(e, start(e, wf, 1)), 3)
	if e.h.Bubble {
		for i, at := range began {
			e.check(at.Sub(from) >= time.Duration(i)*every, "attempt %d began after %v, expected at least %v", i+1, at.Sub(from), time.Duration(i)*every)
		}
		took := time.Since(from)
		e.check(took < 2*every+e.d(90*time.Second), "the run took %v: the replayed step has waited for a token", took)
	}
}

func limitedBranches(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	other := limit.New("other", limit.Concurrency(1))
	var g atWork
	hold := newGate()
	blocker := workflow.New("blocker", func(ctx workflow.Context, in int) (int, error) {
		return in, workflow.Do(ctx, "limited", hold.pass, workflow.StepUnder(one))
	})
	ran := make(chan struct{}, 1)
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		group := workflow.NewGroup(ctx)
		for i, lim := range []*limit.Limit{one, other, one} {
			group.Go(fmt.Sprint("b", i), func(ctx workflow.Context) error {
				return workflow.Do(ctx, "limited", func(sctx context.Context) error { return g.work(sctx, lim.Name(), e.d(time.Second)) }, workflow.StepUnder(lim))
			})
		}
		group.Go("free", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "free", func(context.Context) error { ran <- struct{}{}; return nil })
		})
		return in, group.Wait()
	})
	e.process(defs(wf, blocker))
	first := start(e, blocker, 0)
	receive(e, "the blocking step", hold.entered)
	h := start(e, wf, 1)
	receive(e, "the branch under no limit", ran)
	close(hold.open)
	result(e, first)
	result(e, h)
	e.eq("at work at most", []int{g.atMost("one"), g.atMost("other")}, []int{1, 1})
	e.idleLimit(one)
	e.idleLimit(other)
}

func limitedChildren(e *E) {
	tenants := limit.New("tenant", limit.Concurrency(1))
	kid := workflow.New("kid", func(_ workflow.Context, in string) (string, error) { return in, nil }, workflow.UnderKey(tenants, byInput))
	ref := workflow.Ref[string, string]("kid").UnderKey("tenant", byInput)
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
		if _, err := workflow.Child(ctx, "child", kid, "a"); err != nil {
			return 0, err
		}
		if _, err := workflow.Map(ctx, "map", []string{"b", "c"}, kid); err != nil {
			return 0, err
		}
		if _, err := workflow.Child(ctx, "ref", ref, "d"); err != nil {
			return 0, err
		}
		if _, err := workflow.Map(ctx, "refs", []string{"e"}, ref); err != nil {
			return 0, err
		}
		_, err := workflow.Generate(ctx, "generate", func(_ context.Context, yield func(string) error) error { return yield("f") }, kid)
		return 1, err
	})
	e.process(defs(wf, kid))
	h := start(e, wf, 0)
	result(e, h)
	var keys []string
	for _, r := range e.children(h.ID()) {
		run, err := e.eng.Get(e.ctx, r.ID)
		e.ok("get", err)
		for _, u := range run.Under {
			keys = append(keys, u.Limit+" "+u.Key)
		}
	}
	slices.Sort(keys)
	e.eq("the children's keys", keys, []string{"tenant a", "tenant b", "tenant c", "tenant d", "tenant e", "tenant f"})
	s, err := kid.Schedule(e.ctx, e.eng, "nightly", "@daily", "g")
	e.ok("schedule", err)
	e.eq("the schedule's uses", s.Under, []store.LimitUse{{Limit: "tenant", Key: "g", Tokens: 1}})
	started, err := e.eng.TriggerSchedule(e.ctx, "nightly")
	e.ok("trigger", err)
	run, err := e.eng.Get(e.ctx, started.ID)
	e.ok("get", err)
	e.eq("uses of the schedule's run", run.Under, s.Under)
	bad := workflow.New("bad", func(ctx workflow.Context, in int) (string, error) {
		return workflow.Child(ctx, "child", workflow.Ref[string, string]("kid"), "a")
	})
	e.process(defs(bad))
	_, err = start(e, bad, 0).Result(e.ctx)
	e.says("a child by a reference without a key", err, engine.ErrFailed, "kid", "tenant", "Reference.UnderKey")
}

func limitedByReference(e *E) {
	tenants, all := limit.New("tenant", limit.Concurrency(1)), limit.New("all", limit.Rate(1000, time.Second))
	wf := workflow.New("wf", func(_ workflow.Context, in string) (string, error) { return in, nil }, workflow.UnderKey(tenants, byInput), workflow.Under(all))
	e.process(defs(wf))
	client := engine.New(e.s, engine.Namespace("engine"), engine.Logger(quiet))
	defer client.Close()
	result(e, start(e, wf, "a")) // the worker has registered it
	ref := workflow.Ref[string, string]("wf")
	uses := func(h workflow.Handle[string], err error) (list []string) {
		e.Helper()
		e.ok("start", err)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		for _, u := range run.Under {
			list = append(list, fmt.Sprint(u.Limit, " ", u.Key, " ", u.Tokens))
		}
		result(e, h)
		return list
	}
	_, err := ref.Start(e.ctx, client, "b")
	e.says("a start without a key", err, store.ErrInvalid, `"wf"`, "tenant", "engine.LimitKey")
	_, err = ref.Start(e.ctx, client, "b", engine.LimitKey("tenant", ""))
	e.says("a start with an empty key", err, store.ErrInvalid, "empty")
	_, err = ref.Start(e.ctx, client, "b", engine.LimitKey("tenant", "b"), engine.LimitKey("unknown", "b"))
	e.says("a start with a key of another limit", err, store.ErrInvalid, "unknown")
	e.eq("with a key", uses(ref.Start(e.ctx, client, "b", engine.LimitKey("tenant", "b"))), []string{"all  1", "tenant b 1"})
	e.eq("with a key function", uses(ref.UnderKey("tenant", byInput).Start(e.ctx, client, "c", engine.Tokens(5))), []string{"all  5", "tenant c 5"})
	e.eq("in place of its limits", uses(ref.Start(e.ctx, client, "d", engine.Under(store.LimitUse{Limit: "own"}))), []string{"own  1"})
	e.eq("under none", uses(ref.Start(e.ctx, client, "d", engine.Under())), []string(nil))
	e.eq("with another key", uses(wf.Start(e.ctx, client, "e", engine.LimitKey("tenant", "x"))), []string{"all  1", "tenant x 1"})
}

func limitExplained(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	rate := limit.New("rate", limit.Rate(1, e.d(time.Hour)))
	hold := newGate()
	wf := workflow.New("wf", func(ctx workflow.Context, key string) (string, error) {
		return key, workflow.Do(ctx, "work", hold.pass)
	}, workflow.UnderKey(one, byInput))
	quick := workflow.New("quick", func(_ workflow.Context, in string) (string, error) { return in, nil }, workflow.Under(rate))
	step := workflow.New("step", func(ctx workflow.Context, key string) (string, error) {
		return key, workflow.Do(ctx, "work", func(context.Context) error { return nil }, workflow.StepUnder(one, limit.Key(key)))
	})
	e.process(defs(wf, quick, step))
	first := start(e, wf, "acme")
	receive(e, "the step", hold.entered)
	second := start(e, wf, "acme")
	e.explains("a run behind another one", second.ID(), engine.ReasonLimit, `limit "one"`, `key "acme"`, "1 of 1 held", first.ID().String(), "no other run waits")
	start(e, step, "acme")
	e.waitingAt(one, "acme", 2)
	e.explains("a run with another one beside it", second.ID(), engine.ReasonLimit, "1 other waits")
	loads, err := e.eng.LimitLoads(e.ctx, "one")
	e.ok("loads", err)
	e.eq("load", []int64{int64(loads[0].Keys), loads[0].Held, loads[0].Waiting, int64(loads[0].Full), loads[0].FullWaiting}, []int64{1, 1, 2, 1, 2})
	result(e, start(e, quick, "a"))
	x := e.explains("a run without a token", start(e, quick, "b").ID(), engine.ReasonLimit, `limit "rate"`, "1 token per", "the next at")
	e.check(x.Until.After(x.At), "it continues at %v, which is not after %v", x.Until, x.At)
	close(hold.open)
	result(e, second)
}

func limitPace(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	hold := newGate()
	wf := workflow.New("wf", func(ctx workflow.Context, in string) (string, error) {
		if strings.HasPrefix(in, "quick") {
			return in, nil
		}
		return in, workflow.Do(ctx, "work", hold.pass)
	}, workflow.UnderKey(one, func(in string) string { return in[len(in)-1:] }))
	e.process(defs(wf))
	holder := start(e, wf, "slow a")
	receive(e, "the step", hold.entered)
	x := e.explains("a run before any has ended", start(e, wf, "slow a").ID(), engine.ReasonLimit, "1 of 1 held", "no other run waits")
	e.check(!strings.Contains(x.String(), "pace"), "a pace is known before any run has ended:\n%s", x.String())
	last := start(e, wf, "slow a", engine.Priority(-1))
	first := start(e, wf, "slow a", engine.Priority(1))
	// Those of another key say nothing about this one. Their claims leave the runs of this key, without which an end
	// might pass its permit on to the run of its own priority.
	for range 4 {
		result(e, start(e, wf, "quick b"))
	}
	e.waitingAt(one, "a", 3)
	x = e.explains("the last one", last.ID(), engine.ReasonLimit, holder.ID().String(), "2 others wait, 2 of them ahead of it")
	e.check(!strings.Contains(x.String(), "pace"), "the pace of another key counts:\n%s", x.String())
	e.explains("the first one", first.ID(), engine.ReasonLimit, "2 others wait, none of them ahead of it")
	hold.open <- struct{}{}
	result(e, holder)
	receive(e, "the next step", hold.entered)
	pause(e) // in a bubble no time passes otherwise
	hold.open <- struct{}{}
	result(e, first)
	receive(e, "the step after it", hold.entered)
	e.explains("the last one, when two have ended", last.ID(), engine.ReasonLimit, "no other run waits; at the present pace it goes in about")
	close(hold.open)
	result(e, last)
}

func limitSet(e *E) {
	one := limit.New("one", limit.Concurrency(1))
	hold := newGate()
	wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, workflow.Do(ctx, "work", hold.pass) }, workflow.Under(one))
	e.process(defs(wf))
	hs := startN(e, wf, 3)
	receive(e, "the first step", hold.entered)
	e.waitingAt(one, "", 2)
	e.ok("set", e.eng.SetLimit(e.ctx, "one", store.LimitRule{Concurrency: 2}))
	receive(e, "the second step", hold.entered)
	var log lines
	e.opts = []engine.Option{engine.Logger(slog.New(slog.NewTextHandler(&log, nil)))}
	newer := workflow.New("newer", func(_ workflow.Context, in int) (int, error) { return in, nil }, workflow.Under(limit.New("one", limit.Concurrency(50))))
	e.process(defs(newer))
	for len(log.with("another rule")) == 0 {
		pause(e)
	}
	limits, err := e.eng.Limits(e.ctx)
	e.ok("limits", err)
	e.eq("limits", fmt.Sprint(len(limits), limits[0].Name, limits[0].Rule.Concurrency, limits[0].Effective().Concurrency), fmt.Sprint(1, "one", 50, 2))
	e.waitingAt(one, "", 1)
	e.ok("unset", e.eng.UnsetLimit(e.ctx, "one"))
	receive(e, "the third step", hold.entered)
	e.says("unset of an unknown limit", e.eng.UnsetLimit(e.ctx, "unknown"), store.ErrNotFound, "unknown")
	e.says("a rule that is not valid", e.eng.SetLimit(e.ctx, "one", store.LimitRule{Burst: 5}), store.ErrInvalid, "burst")
	e.says("a weight that is not valid", e.eng.SetWeight(e.ctx, "one", "a", 0), store.ErrInvalid, "weight")
	e.ok("weight", e.eng.SetWeight(e.ctx, "one", "a", 3))
	close(hold.open)
	results(e, hs)
	e.eq("warnings", len(log.with("another rule")), 1)
}

func limitBadInput(e *E) {
	fn := func(workflow.Context, string) (string, error) { return "", nil }
	good := limit.New("good", limit.Rate(10, time.Second, limit.Burst(5)))
	refused := func(what string, words string, wf *workflow.Workflow[string, string], in string, opts ...engine.StartOption) {
		e.Helper()
		_, err := wf.Start(e.ctx, e.eng, in, append(opts, engine.RunID(store.NewID()))...)
		e.says(what, err, store.ErrInvalid, words)
	}
	none := engine.New(e.s, engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireNothing))
	defer none.Close()
	e.eng.Close()
	e.eng = none
	refused("a concurrency of 0", "concurrency of 0", workflow.New("wf", fn, workflow.Under(limit.New("l", limit.Concurrency(0)))), "a")
	refused("a limit that limits nothing", "limits nothing", workflow.New("wf", fn, workflow.Under(limit.New("l"))), "a")
	refused("a nil limit", "nil", workflow.New("wf", fn, workflow.Under(nil)), "a")
	refused("an empty key", "empty key", workflow.New("wf", fn, workflow.UnderKey(good, byInput)), "")
	refused("a long key", "256 bytes", workflow.New("wf", fn, workflow.UnderKey(good, byInput)), strings.Repeat("k", 256))
	refused("a key of another input", "func(int) string", workflow.New("wf", fn, workflow.UnderKey(good, func(int) string { return "k" })), "a")
	refused("no key function", "nil", workflow.New("wf", fn, workflow.UnderKey[string](good, nil)), "a")
	refused("a limit twice", "twice", workflow.New("wf", fn, workflow.Under(good), workflow.UnderKey(good, byInput)), "a")
	refused("tokens above the burst", "burst of 5", workflow.New("wf", fn, workflow.Under(good, limit.Tokens(6))), "a")
	refused("no tokens", "not above zero", workflow.New("wf", fn, workflow.Under(good)), "a", engine.Tokens(0))
	var nine []workflow.Option
	for i := range 9 {
		nine = append(nine, workflow.Under(limit.New(fmt.Sprint("l", i), limit.Concurrency(1))))
	}
	refused("nine limits", "at most 8", workflow.New("wf", fn, nine...), "a")
	steps := workflow.New("steps", func(ctx workflow.Context, in string) (string, error) {
		nop := func(context.Context) error { return nil }
		for what, err := range map[string]error{
			"burst":       workflow.Do(ctx, "tokens", nop, workflow.StepUnder(good, limit.Tokens(6))),
			"empty":       workflow.Do(ctx, "key", nop, workflow.StepUnder(good, limit.Key(""))),
			"twice":       workflow.Do(ctx, "twice", nop, workflow.StepUnder(good), workflow.StepUnder(good, limit.Key("k"))),
			"transaction": workflow.DoTx(ctx, "tx", func(context.Context, any) error { return nil }, workflow.StepUnder(good)),
		} {
			if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), what) {
				return "", workflow.Permanent(fmt.Errorf("saw %v, expected store.ErrInvalid with %q", err, what))
			}
		}
		return in, nil
	}, workflow.Under(good, limit.Tokens(5)))
	e.process(defs(steps))
	e.eq("output", result(e, start(e, steps, "done")), "done")
	e.check(func() bool {
		_, err := steps.Start(e.ctx, e.eng, "a", engine.Tokens(6))
		return errors.Is(err, store.ErrInvalid)
	}(), "more tokens than the burst that workers have registered are not refused")
}
