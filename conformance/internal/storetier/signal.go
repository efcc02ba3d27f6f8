package storetier

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

var signalCases = []Case{
	{"signal/order", "P17", "signals stay in the order of sending, across calls and within a batch", func(c *C) {
		id := c.create(store.NewRun{})
		var want []string
		for i := range 4 {
			var batch []store.NewSignal
			for j := range 3 {
				v := fmt.Sprint(i, "-", j)
				want = append(want, v)
				// IDs that the sender chooses say nothing about the order.
				batch = append(batch, store.NewSignal{ID: store.DeriveID(id, v), Run: id, Name: fmt.Sprint("n", j%2), Payload: []byte(v)})
			}
			for _, res := range c.signals(batch...) {
				c.eq("the result", res, store.SignalResult{Run: id})
			}
		}
		c.eq("the inbox", payloads(c.inbox(id).Signals), want)
		c.eq("what a claim brings", payloads(c.claim1().Inbox.Signals), want)
		c.eq("Events", c.inbox(id).Events, int64(len(want)))
	}},
	{"signal/as-sent", "P12", "a signal is stored as it was sent, with the store's time", func(c *C) {
		id := c.create(store.NewRun{})
		c.advance(time.Second)
		sig := c.signal(id, "name", "payload")
		c.eq("signals", unplaced(c.inbox(id).Signals), []store.Signal{{ID: sig, Name: "name", Payload: []byte("payload"), SentAt: c.now}})
	}},
	{"signal/consumed-once", "P17", "a signal that a commit has consumed leaves the inbox for good; the others stay", func(c *C) {
		run := c.start()
		id := run.Run.ID
		a := c.signal(id, "n", "a")
		c.signal(id, "n", "b")
		d := c.signal(id, "n", "d")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{a, d}})
		c.eq("the inbox", payloads(c.inbox(id).Signals), []string{"b"})
		c.commit(store.Commit{Lease: run.Lease, Transition: release()})
		c.eq("what a claim brings", payloads(c.claim1().Inbox.Signals), []string{"b"})
		c.eq("Events", c.inbox(id).Events, int64(3))
	}},
	{"signal/waits-for-reader", "P17", "a signal may be sent before anyone waits for it, and survives sleeps, retries, crashes and continuations", func(c *C) {
		id := c.create(store.NewRun{After: time.Minute})
		c.signal(id, "n", "early")
		c.claimNone("a signal does not start a run that is not due")
		c.advance(time.Minute)
		for _, t := range []*store.Transition{sleepFor(time.Second), retryIn(time.Second), continueWith("in"), release(), nil} {
			c.advance(time.Hour)
			run := c.claim1()
			c.eq("signals", payloads(run.Inbox.Signals), []string{"early"})
			if t != nil {
				c.end(run, t)
			}
		}
	}},
	{"signal/wakes-sleeper", "P5", "a signal wakes a run that sleeps until one", func(c *C) {
		run := c.start()
		c.end(run, &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, After: time.Hour})
		c.advance(time.Minute)
		c.signal(run.Run.ID, "n", "x")
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, c.now)
		next := c.claim1()
		c.eq("signals", payloads(next.Inbox.Signals), []string{"x"})
		c.eq("Recovered", next.Recovered, false)
	}},
	{"signal/no-wake-unasked", "P13", "a signal does not wake a run that did not ask for signals, but it is an event", func(c *C) {
		for _, t := range []*store.Transition{sleepFor(time.Hour), sleepOn(store.WakeState), retryIn(time.Hour)} {
			run := c.start()
			c.end(run, t)
			before := c.get(run.Run.ID).VisibleAt
			c.signal(run.Run.ID, "n", "x")
			c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, before)
			c.eq("Events", c.get(run.Run.ID).Events, int64(1))
			c.claimNone("it did not ask for signals")
		}
	}},
	{"signal/leaves-the-lease", "P1", "a signal to a leased run does not change its lease", func(c *C) {
		run := c.start()
		c.advance(time.Second)
		c.signal(run.Run.ID, "n", "x")
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, began.Add(aLease))
		c.claimNone("it is leased")
	}},
	{"signal/repeat", "P4", "a signal whose ID the run has already received is the same signal: one message, one event, and success", func(c *C) {
		id := c.create(store.NewRun{})
		sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: []byte("x")}
		c.ok("Signal's item", c.signals(sig)[0].Err)
		before := c.inbox(id)
		c.advance(time.Second)
		c.eq("the repeat's result", c.signals(sig)[0], store.SignalResult{Run: id})
		c.eq("the inbox", c.inbox(id), before)
		twice := store.NewSignal{ID: store.NewID(), Run: id, Name: "n"}
		for _, res := range c.signals(twice, twice) {
			c.eq("the result of twice in a batch", res, store.SignalResult{Run: id})
		}
		c.eq("Events", c.inbox(id).Events, int64(2))
	}},
	{"signal/repeat-after-consumed", "P4", "a signal sent again after it was consumed is not stored again and wakes nobody", func(c *C) {
		run := c.start()
		sig := store.NewSignal{ID: store.NewID(), Run: run.Run.ID, Name: "n"}
		c.signals(sig)
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{sig.ID}, Seen: 1, Transition: sleepOn(store.WakeSignal)})
		c.eq("the repeat's result", c.signals(sig)[0], store.SignalResult{Run: run.Run.ID})
		c.claimNone("the signal was had before")
		c.eq("signals", len(c.inbox(run.Run.ID).Signals), 0)
		c.eq("Events", c.inbox(run.Run.ID).Events, int64(1))
	}},
	{"signal/repeat-after-finish", "P4", "a signal that the run has received succeeds again even when the run is final", func(c *C) {
		run := c.start()
		sig := store.NewSignal{ID: store.NewID(), Run: run.Run.ID, Name: "n"}
		c.signals(sig)
		c.end(run, complete(""))
		c.eq("the repeat's result", c.signals(sig)[0], store.SignalResult{Run: run.Run.ID})
	}},
	{"signal/repeat-race", "P4", "one signal sent many times concurrently is one message", func(c *C) {
		id := c.create(store.NewRun{})
		for n := range 10 {
			sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "n"}
			c.race(4, func(_ int, s store.Store) error {
				res, err := c.signalOn(s, sig)
				return first(err, res.Err)
			})
			in := c.inbox(id)
			c.eq("signals", len(in.Signals), n+1)
			c.eq("Events", in.Events, int64(n+1))
		}
	}},
	{"signal/concurrent-senders", "P17", "no signal of concurrent senders is lost, and the order of each sender is kept", func(c *C) {
		id := c.create(store.NewRun{})
		const senders, each = 4, 20
		c.race(senders, func(i int, s store.Store) error {
			for n := range each {
				sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: fmt.Appendf(nil, "%d/%02d", i, n)}
				if res, err := c.signalOn(s, sig); err != nil || res.Err != nil {
					return first(err, res.Err)
				}
			}
			return nil
		})
		in := c.inbox(id)
		c.eq("signals", len(in.Signals), senders*each)
		c.eq("Events", in.Events, int64(senders*each))
		last := map[string]string{}
		for _, p := range payloads(in.Signals) {
			sender, _, _ := strings.Cut(p, "/")
			c.check(last[sender] < p, "signals of sender %s: saw %s behind %s", sender, p, last[sender])
			last[sender] = p
		}
	}},
	{"signal/finished", "P16", "a final run accepts no signal: ErrFinished", func(c *C) {
		for _, t := range []*store.Transition{complete(""), failWith("x"), cancelRun()} {
			run := c.start()
			c.end(run, t)
			c.fails("Signal", c.signals(store.NewSignal{ID: store.NewID(), Run: run.Run.ID, Name: "n"})[0].Err, store.ErrFinished)
			c.eq("signals", len(c.inbox(run.Run.ID).Signals), 0)
			c.eq("Events", c.inbox(run.Run.ID).Events, int64(0))
		}
	}},
	{"signal/unknown-run", "P16", "a signal to a run that does not exist gets ErrNotFound, and the rest of its batch is delivered", func(c *C) {
		id := c.create(store.NewRun{})
		res := c.signals(
			store.NewSignal{ID: store.NewID(), Run: store.NewID(), Name: "n"},
			store.NewSignal{ID: store.NewID(), ExternalID: "nobody", Name: "n"},
			store.NewSignal{ID: store.NewID(), Run: id, Name: ""},
			store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: []byte("x")},
		)
		c.fails("an unknown run", res[0].Err, store.ErrNotFound)
		c.fails("an unknown external id", res[1].Err, store.ErrNotFound)
		c.fails("a signal without a name", res[2].Err, store.ErrInvalid)
		c.eq("the good one", res[3], store.SignalResult{Run: id})
		c.eq("signals", payloads(c.inbox(id).Signals), []string{"x"})
	}},
	{"signal/external-id", "P17", "a signal to an external id reaches its active run, by its suffix, and fails when that run is final", func(c *C) {
		plain := c.create(store.NewRun{ExternalID: "e"})
		suffixed := c.create(store.NewRun{ExternalID: "e", Suffix: "s"})
		send := func(suffix string) store.SignalResult {
			return c.signals(store.NewSignal{ID: store.NewID(), ExternalID: "e", Suffix: suffix, Name: "n"})[0]
		}
		c.eq("the result", send(""), store.SignalResult{Run: plain})
		c.eq("the result with a suffix", send("s"), store.SignalResult{Run: suffixed})
		c.cancel(plain)
		c.fails("Signal when it is final", send("").Err, store.ErrNotFound)
		next := c.create(store.NewRun{ExternalID: "e"})
		c.eq("the result with a new run", send(""), store.SignalResult{Run: next})
		c.eq("signals of the old one", len(c.inbox(plain).Signals), 1)
		c.eq("signals of the new one", len(c.inbox(next).Signals), 1)
	}},
	{"signal/every-live-status", "P17", "a run accepts signals in every status that is not final", func(c *C) {
		take := func(id store.ID, status store.Status) {
			c.Helper()
			c.status(id, status)
			c.signal(id, "n", "")
		}
		id := c.create(store.NewRun{})
		take(id, store.Pending)
		run := c.claim1()
		take(id, store.Running)
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Transition: sleepOn(store.WakeSignal)})
		take(id, store.Sleeping)
		c.pause(id)
		take(id, store.Paused)
		c.resume(id)
		c.claim1()
		c.cancel(id)
		take(id, store.Canceling)
		c.eq("signals", len(c.inbox(id).Signals), 5)
	}},
	{"inbox/reads-all", "P5", "Inbox reads a run's status, events, signals, state and groups at one moment, also of final runs", func(c *C) {
		run := c.start()
		id := run.Run.ID
		in := c.inbox(id)
		c.eq("Status", in.Status, store.Running)
		c.eq("what an untouched run has", []int{int(in.Events), len(in.Signals), len(in.State), len(in.Groups)}, []int{0, 0, 0, 0})
		c.signal(id, "n", "x")
		c.setState(id, "b", "2")
		c.setState(id, "a", "1")
		z := kid(1)
		z.Group = "a"
		c.commit(store.Commit{Lease: run.Lease, Spawn: append(kids(2), z)})
		read := func(status store.Status, canceled int64) {
			c.Helper()
			in := c.inbox(id)
			c.eq("Status", in.Status, status)
			c.eq("Events", in.Events, int64(3))
			c.eq("signals", payloads(in.Signals), []string{"x"})
			c.eq("state", values(in.State), []string{"a=1", "b=2"})
			c.eq("groups", in.Groups, []store.Group{{Name: "a", Total: 1, Open: 1 - canceled, Canceled: canceled}, {Name: "g", Total: 2, Open: 2 - 2*canceled, Canceled: 2 * canceled}})
		}
		read(store.Running, 0)
		c.end(run, complete(""))
		read(store.Completed, 1)
		_, err := c.s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: store.NewID()})
		c.fails("Inbox of no run", err, store.ErrNotFound)
	}},
	{"inbox/of-one-moment", "P5", "an inbox is read at one moment: the effect of each event that it counts is in it", func(c *C) {
		id := c.create(store.NewRun{})
		for round := range 20 {
			c.race(4, func(i int, s store.Store) error {
				if (i+round)%4 == 0 {
					res, err := c.signalOn(s, store.NewSignal{ID: store.NewID(), Run: id, Name: "n"})
					return first(err, res.Err)
				}
				in, err := patient(c.ctx, func() (store.Inbox, error) { return s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: id}) })
				if err != nil {
					return err
				}
				if len(in.Signals) != int(in.Events) {
					return fmt.Errorf("the inbox holds %d signals and counts %d events, each of them a signal", len(in.Signals), in.Events)
				}
				return nil
			})
		}
	}},
	{"inbox/bounded", "P17", "an inbox returns the first unread signals, at most MaxPage; the rest follow when those are consumed", func(c *C) {
		run := c.start()
		id := run.Run.ID
		const n = store.MaxPage + 5
		sigs := make([]store.NewSignal, n)
		for i := range sigs {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: fmt.Appendf(nil, "%04d", i)}
		}
		c.signalsInTurn(sigs)
		in := c.inbox(id)
		c.eq("signals", len(in.Signals), store.MaxPage)
		c.eq("Events", in.Events, int64(n))
		var read []store.SignalID
		for i, s := range in.Signals {
			c.eq("a signal's place", string(s.Payload), fmt.Sprintf("%04d", i))
			read = append(read, s.ID)
		}
		c.commit(store.Commit{Lease: run.Lease, Consumed: read, Transition: release()})
		c.eq("the rest", payloads(c.claim1().Inbox.Signals), []string{"1000", "1001", "1002", "1003", "1004"})
	}},
}
