package storetier

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

var sleepCases = []Case{
	{"sleep/until-due", "P13", "a sleeping run wakes at its time, not before", func(c *C) {
		run := c.start()
		res := c.end(run, sleepFor(time.Hour))
		c.eq("the result", res, store.CommitResult{Status: store.Sleeping, VisibleAt: c.now.Add(time.Hour)})
		got := c.get(run.Run.ID)
		c.eq("Status", got.Status, store.Sleeping)
		c.eq("Worker", got.Worker, "")
		c.advance(time.Hour - time.Microsecond)
		c.claimNone("a microsecond is left")
		c.advance(time.Microsecond)
		next := c.claim1()
		c.eq("the run", next.Run.ID, run.Run.ID)
		c.eq("Recovered", next.Recovered, false)
		c.eq("Attempt", next.Run.Attempt, 1)
	}},
	{"sleep/earlier-of-both", "P13", "the earlier of a sleep's After and At counts", func(c *C) {
		c.earlierOfBoth(store.Sleep, store.Sleeping)
	}},
	{"sleep/past-time", "P13", "a sleep until a time that has passed ends at once", func(c *C) {
		run := c.start()
		c.end(run, &store.Transition{Kind: store.Sleep, At: c.now.Add(-time.Hour)})
		c.claim1()
	}},
	{"sleep/without-time", "P13", "a sleep with neither After nor At has no time, unless the run has a deadline", func(c *C) {
		run := c.start()
		res := c.end(run, sleepOn(store.WakeSignal|store.WakeState))
		c.eq("VisibleAt", res.VisibleAt, time.Time{})
		c.eq("VisibleAt of the run", c.get(run.Run.ID).VisibleAt, time.Time{})
		timed := c.startWith(store.NewRun{Timeout: time.Hour})
		res = c.end(timed, sleepOn(store.WakeSignal))
		c.eq("VisibleAt with a deadline", res.VisibleAt, c.now.Add(time.Hour))
		c.advance(time.Hour)
		c.eq("the run that wakes", c.claim1().Run.ID, timed.Run.ID)
		c.claimNone("the other has no time")
	}},
	{"sleep/deadline", "P13", "a run that is not leased becomes claimable at its deadline, however long it would sleep or wait for a retry", func(c *C) {
		deadline := c.now.Add(time.Hour)
		run := c.startWith(store.NewRun{Timeout: time.Hour})
		c.eq("VisibleAt after a long sleep", c.end(run, sleepFor(48*time.Hour)).VisibleAt, deadline)
		c.advance(59 * time.Minute)
		c.claimNone("the deadline has not come")
		c.advance(time.Minute)
		run = c.claim1()
		c.eq("VisibleAt of the leased run", run.Run.VisibleAt, c.now.Add(aLease))
		c.end(run, retryIn(48*time.Hour))
		c.eq("the run after a long retry", c.claim1().Run.ID, run.Run.ID)
	}},
	{"sleep/unseen-event", "P5", "a sleep returns at once when an event has reached the run that its holder had not Seen", func(c *C) {
		run := c.start()
		c.signal(run.Run.ID, "n", "x")
		res := c.commit(store.Commit{Lease: run.Lease, Seen: 0, Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, After: time.Hour}})
		c.eq("the result", res, store.CommitResult{Status: store.Sleeping, Events: 1, VisibleAt: c.now})
		next := c.claim1()
		c.eq("signals", payloads(next.Inbox.Signals), []string{"x"})
		c.eq("Events", next.Inbox.Events, int64(1))
	}},
	{"sleep/unseen-event-of-any-kind", "P5", "an unseen event of any kind ends a sleep, so that the holder may look at it", func(c *C) {
		run := c.start()
		c.setState(run.Run.ID, "k", "v")
		c.commit(store.Commit{Lease: run.Lease, Seen: 0, Transition: sleepOn(store.WakeSignal)})
		c.claim1()
	}},
	{"sleep/seen-event", "P5", "an event that the holder has seen does not end its sleep", func(c *C) {
		run := c.start()
		c.signal(run.Run.ID, "n", "x")
		res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: sleepOn(store.WakeSignal)})
		c.eq("the result", res, store.CommitResult{Status: store.Sleeping, Events: 1})
		c.claimNone("the signal was seen")
		c.signal(run.Run.ID, "n", "y")
		c.eq("signals", payloads(c.claim1().Inbox.Signals), []string{"x", "y"})
	}},
	{"sleep/own-state-is-seen", "P5", "the state that a commit writes counts as seen for its own sleep", func(c *C) {
		run := c.start()
		res := c.commit(store.Commit{
			Lease: run.Lease, State: []store.StateWrite{{Key: "a"}, {Key: "b"}}, Transition: sleepOn(store.WakeState),
		})
		c.eq("the result", res, store.CommitResult{Status: store.Sleeping, Events: 2})
		c.claimNone("only its own writes have reached it")
		c.setState(run.Run.ID, "c", "")
		c.claim1()
	}},
	{"sleep/own-state-hides-nothing", "P5", "a commit's own state writes do not make an unseen event seen", func(c *C) {
		run := c.start()
		c.signal(run.Run.ID, "n", "x")
		res := c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "a"}, {Key: "b"}}, Transition: sleepOn(store.WakeSignal)})
		c.eq("VisibleAt", res.VisibleAt, c.now)
		c.eq("Events", res.Events, int64(3))
		c.claim1()
	}},
	{"sleep/own-state-of-earlier-commit", "P5", "a commit returns the event count including its own writes, so that the holder may pass it as Seen", func(c *C) {
		run := c.start()
		res := c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "a"}}})
		c.eq("Events", res.Events, int64(1))
		c.commit(store.Commit{Lease: run.Lease, Seen: res.Events, Transition: sleepOn(store.WakeState)})
		c.claimNone("its own write was seen")
	}},
	{"sleep/signal-race", "P5", "a signal that is concurrent with the sleep wakes the run, whichever comes first", func(c *C) {
		for round := range 20 {
			run := c.start()
			c.race(2, func(i int, s store.Store) error {
				if (i+round)%2 == 0 {
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: sleepOn(store.WakeSignal)})
					return first(err, res.Err)
				}
				res, err := c.signalOn(s, store.NewSignal{ID: store.NewID(), Run: run.Run.ID, Name: "n"})
				return first(err, res.Err)
			})
			woken := c.claim1()
			c.eq("the run", woken.Run.ID, run.Run.ID)
			c.eq("signals", len(woken.Inbox.Signals), 1)
			c.end(woken, complete(""))
		}
	}},
	{"sleep/state-race", "P5", "a state change that is concurrent with the sleep wakes the run, whichever comes first", func(c *C) {
		for round := range 20 {
			run := c.start()
			c.race(2, func(i int, s store.Store) error {
				if (i+round)%2 == 0 {
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: sleepOn(store.WakeState)})
					return first(err, res.Err)
				}
				_, err := patient(c.ctx, func() ([]store.StateEntry, error) {
					return s.SetState(c.ctx, store.SetStateParams{Namespace: c.ns, Run: run.Run.ID, Writes: []store.StateWrite{{Key: "k"}}, Now: c.now})
				})
				return err
			})
			c.end(c.claim1(), complete(""))
		}
	}},
	{"sleep/canceling", "P5", "a canceling run does not sleep or wait in any other way: it is claimable at once and stays canceling", func(c *C) {
		for _, t := range []*store.Transition{sleepFor(time.Hour), sleepOn(store.WakeSignal), release()} {
			run := c.start()
			c.cancel(run.Run.ID)
			res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: t})
			c.eq("VisibleAt after "+t.Kind.String(), res.VisibleAt, c.now)
			next := c.claim1()
			c.eq("the run", next.Run.ID, run.Run.ID)
			c.eq("Status", next.Run.Status, store.Canceling)
			c.eq("Recovered", next.Recovered, false)
			c.end(next, cancelRun())
			c.status(run.Run.ID, store.Canceled)
		}
	}},
	{"sleep/wakes-once", "P13", "a wake keeps the status sleeping and sets the time to now; more events do not change that time", func(c *C) {
		run := c.start()
		c.end(run, sleepOn(store.WakeSignal))
		c.advance(time.Second)
		c.signal(run.Run.ID, "n", "x")
		woken := c.now
		got := c.get(run.Run.ID)
		c.eq("Status", got.Status, store.Sleeping)
		c.eq("VisibleAt", got.VisibleAt, woken)
		c.advance(time.Second)
		c.signal(run.Run.ID, "n", "y")
		c.eq("VisibleAt after another", c.get(run.Run.ID).VisibleAt, woken)
		c.claim1()
		c.claimNone("it is leased: one wake, one claim")
	}},
	{"sleep/wake-is-forgotten", "P5", "the next claim clears what a sleep waited for", func(c *C) {
		run := c.start()
		c.end(run, &store.Transition{Kind: store.Sleep, After: time.Second, Wakes: store.WakeSignal})
		c.advance(time.Second)
		run = c.claim1()
		c.end(run, sleepFor(time.Hour))
		c.signal(run.Run.ID, "n", "x")
		c.claimNone("the second sleep waits for no signal")
	}},
}

func (c *C) signalOn(s store.Store, sig store.NewSignal) (store.SignalResult, error) {
	res, err := patient(c.ctx, func() ([]store.SignalResult, error) {
		return s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{sig}, Now: c.now})
	})
	if err != nil {
		return store.SignalResult{}, err
	}
	return res[0], nil
}
