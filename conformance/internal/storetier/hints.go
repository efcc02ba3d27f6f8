package storetier

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/store"
)

// hintTimeout limits the wait for a hint. It only turns a missing hint into a failure; a hint that
// arrives ends the wait at once.
const hintTimeout = 10 * time.Second

// hints subscribes to a handle, or skips the case if there are no hints.
func (c *C) hints(s store.Store) <-chan []store.Hint {
	c.Helper()
	if !s.Features().Hints {
		c.Skip("the backend has no hints")
	}
	h, ok := s.(store.Hinter)
	if !ok {
		c.Fatalf("Features().Hints: saw true, but the store is no Hinter")
	}
	ch, err := h.Hints(c.ctx)
	c.ok("Hints", err)
	return ch
}

// hinted waits until a wanted hint arrives; a HintRescan stands for all.
func (c *C) hinted(ch <-chan []store.Hint, want store.Hint) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
	defer cancel()
	for {
		select {
		case batch, ok := <-ch:
			if !ok {
				c.Fatalf("hints: saw the channel closed, expected %+v", want)
			}
			for _, h := range batch {
				if h == want || h.Kind == store.HintRescan {
					return
				}
			}
		case <-ctx.Done():
			c.Fatalf("hints: saw nothing of it for %v, expected %+v", hintTimeout, want)
		}
	}
}

// closed waits until a channel of hints is closed.
func (c *C) closed(ch <-chan []store.Hint) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
	defer cancel()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-ctx.Done():
			c.Fatalf("hints: saw the channel open for %v, expected it closed", hintTimeout)
		}
	}
}

var hintCases = []Case{
	{"hints/queue", "", "a new run, a released run and a retry send a hint that their queue has work", func(c *C) {
		ch := c.hints(c.s)
		want := store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: aQueue}
		c.create(store.NewRun{})
		c.hinted(ch, want)
		c.end(c.claim1(), release())
		c.hinted(ch, want)
		c.end(c.claim1(), retryIn(time.Hour))
		c.hinted(ch, want)
	}},
	{"hints/event", "", "an event sends a hint that it has reached its run", func(c *C) {
		ch := c.hints(c.s)
		run := c.start()
		want := store.Hint{Kind: store.HintEvent, Namespace: c.ns, Run: run.Run.ID}
		c.signal(run.Run.ID, "n", "")
		c.hinted(ch, want)
		c.setState(run.Run.ID, "k", "")
		c.hinted(ch, want)
		c.cancel(run.Run.ID)
		c.hinted(ch, want)
	}},
	{"hints/state", "", "a commit that writes state sends a hint", func(c *C) {
		ch := c.hints(c.s)
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}})
		c.hinted(ch, store.Hint{Kind: store.HintState, Namespace: c.ns, Run: run.Run.ID})
	}},
	{"hints/woken-queue", "", "an event that wakes a sleeping run sends a hint that its queue has work", func(c *C) {
		run := c.start()
		c.end(run, sleepOn(store.WakeSignal))
		ch := c.hints(c.s)
		c.signal(run.Run.ID, "n", "")
		c.hinted(ch, store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: aQueue})
	}},
	{"hints/canceled-queue", "", "a cancel that lets a sleeping run clean up sends hints that its queue has work, and that an event has reached it", func(c *C) {
		for _, want := range []store.HintKind{store.HintQueue, store.HintEvent} {
			run := c.recorded(sleepFor(time.Hour))
			ch := c.hints(c.s)
			c.cancel(run.Run.ID)
			hint := store.Hint{Kind: want, Namespace: c.ns, Queue: aQueue}
			if want == store.HintEvent {
				hint.Queue, hint.Run = "", run.Run.ID
			}
			c.hinted(ch, hint)
			c.end(c.claim1(), cancelRun())
		}
	}},
	{"hints/final", "", "a run that becomes final sends a hint, however it ended", func(c *C) {
		ch := c.hints(c.s)
		run := c.start()
		c.end(run, complete(""))
		c.hinted(ch, store.Hint{Kind: store.HintFinal, Namespace: c.ns, Run: run.Run.ID})
		id := c.create(store.NewRun{})
		c.cancel(id)
		c.hinted(ch, store.Hint{Kind: store.HintFinal, Namespace: c.ns, Run: id})
	}},
	{"hints/schedule", "", "a put of a schedule sends a hint to look again", func(c *C) {
		ch := c.hints(c.s)
		c.putSchedule(c.schedule("s"))
		c.hinted(ch, store.Hint{Kind: store.HintRescan})
		c.putSchedule(c.schedule("s"))
		c.hinted(ch, store.Hint{Kind: store.HintRescan})
	}},
	{"hints/asked", "", "asking a worker for a sign of life sends a hint to look again", func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Hour, Answers: time.Minute})
		c.advance(time.Minute)
		ch := c.hints(c.s)
		c.eq("asked", c.ask(time.Minute), 1)
		c.hinted(ch, store.Hint{Kind: store.HintRescan})
	}},
	{"hints/each-subscriber", "", "each call of Hints is a subscription of its own", func(c *C) {
		a, b := c.hints(c.s), c.hints(c.s)
		c.create(store.NewRun{})
		for _, ch := range []<-chan []store.Hint{a, b} {
			c.hinted(ch, store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: aQueue})
		}
	}},
	{"hints/other-handle", "", "the writes of another handle send hints, too", func(c *C) {
		if c.h.Reopen == nil {
			c.Skip("the backend has one handle")
		}
		ch := c.hints(c.s2)
		c.create(store.NewRun{})
		c.hinted(ch, store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: aQueue})
	}},
	{"hints/end-with-context", "", "a subscription ends with its context: the channel is closed", func(c *C) {
		c.hints(c.s)
		ctx, cancel := context.WithCancel(c.ctx)
		ch, err := c.s.(store.Hinter).Hints(ctx)
		c.ok("Hints", err)
		cancel()
		c.closed(ch)
	}},
	{"hints/of-a-closed-store", "P16", "a closed store refuses a subscription with ErrUnavailable, even if another was open", func(c *C) {
		s := c.fresh()
		c.hints(s)
		c.ok("Close", s.Close())
		_, err := s.(store.Hinter).Hints(c.ctx)
		c.fails("Hints of a closed store", err, store.ErrUnavailable)
	}},
	{"hints/unread-hinders-nobody", "", "a subscriber that does not read blocks neither writers nor other subscribers", func(c *C) {
		c.hints(c.s)
		ch := c.hints(c.s)
		c.createN(50, store.NewRun{})
		for _, run := range c.claimAll(50) {
			c.end(run, complete(""))
		}
		id := c.create(store.NewRun{})
		c.cancel(id)
		c.hinted(ch, store.Hint{Kind: store.HintFinal, Namespace: c.ns, Run: id})
	}},
	{"features/as-declared", "", "Features names the backend, gives each gap a reason, and is the same at every handle", func(c *C) {
		f := c.s.Features()
		c.check(f.Name != "", "Features().Name: saw none")
		for _, g := range f.Gaps {
			c.check(g.Ability != "" && g.Reason != "", "a gap: saw %+v, expected an ability and a reason", g)
		}
		if _, ok := c.s.(store.Hinter); f.Hints && !ok {
			c.Errorf("Features().Hints: saw true, but the store is no Hinter")
		}
		c.eq("Features of the second handle", c.s2.Features(), f)
	}},
	{"features/contract", "", "Features names the version of the contract that the suite checks", func(c *C) {
		c.eq("Features().Contract", c.s.Features().Contract, store.ContractVersion)
	}},
}

// fresh opens a store that the case may close.
func (c *C) fresh() store.Store { return c.h.New(c.host) }

var closeCases = []Case{
	{"close/ends-hints", "", "Close closes the channels of hints", func(c *C) {
		s := c.fresh()
		ch := c.hints(s)
		c.ok("Close", s.Close())
		c.closed(ch)
	}},
	{"close/then-unavailable", "P16", "a closed store returns ErrUnavailable, and closing it again is harmless", func(c *C) {
		s := c.fresh()
		c.ok("Close", s.Close())
		_, err := s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{fill(store.NewRun{})}, Now: c.now})
		c.fails("Create", err, store.ErrUnavailable)
		_, err = s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{store.NewID()}})
		c.fails("Get", err, store.ErrUnavailable)
		_, err = s.Claim(c.ctx, c.claimParams(store.ClaimParams{}))
		c.fails("Claim", err, store.ErrUnavailable)
		c.ok("Close again", s.Close())
	}},
	{"close/under-way", "P16", "a call during a Close succeeds or returns ErrUnavailable or ErrOutcomeUnknown", func(c *C) {
		s := c.fresh()
		c.race(4, func(i int, _ store.Store) error {
			if i == 0 {
				return s.Close()
			}
			for range 20 {
				_, err := s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{fill(store.NewRun{})}, Now: c.now})
				if err != nil {
					if !store.Retryable(err) {
						return errors.Join(errors.New("a Create beside Close: neither ErrUnavailable nor ErrOutcomeUnknown"), err)
					}
					return nil
				}
			}
			return nil
		})
	}},
	{"close/tells-first", "", "a hint of what a handle wrote reaches the others, though it is closed at once", func(c *C) {
		if c.h.Reopen == nil {
			c.Skip("the backend has one handle")
		}
		s := c.fresh()
		ch := c.hints(c.h.Reopen(c.host, s))
		run := fill(store.NewRun{ID: store.NewID()})
		res, err := s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{run}, Now: c.now})
		c.ok("Create", first(err, res[0].Err))
		c.ok("Close", s.Close())
		c.hinted(ch, store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: run.Queue})
	}},
	{"close/leaves-the-data", "P3", "another handle still has the data when a handle is closed", func(c *C) {
		if c.h.Reopen == nil {
			c.Skip("the backend has one handle")
		}
		s := c.fresh()
		other := c.h.Reopen(c.host, s)
		id := store.NewID()
		res, err := s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{fill(store.NewRun{ID: id})}, Now: c.now})
		c.ok("Create", first(err, res[0].Err))
		c.ok("Close", s.Close())
		runs, err := other.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{id}})
		c.ok("Get by the other handle", err)
		c.eq("runs", len(runs), 1)
	}},
}
