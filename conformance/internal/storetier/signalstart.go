package storetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
)

// signaled returns a start of external id "e" with a signal of that payload.
func signaled(payload string) store.NewRun {
	return fill(store.NewRun{ExternalID: "e", Signal: &store.StartSignal{ID: store.NewID(), Name: "n", Payload: []byte(payload)}})
}

// reached is the result of a start that found a run.
func reached(id store.ID) store.CreateResult { return store.CreateResult{ID: id} }

// holds checks the signals in the inbox of a run, in order, and that no other event has reached it.
func (c *C) holds(what string, id store.ID, want ...string) {
	c.Helper()
	in := c.inbox(id)
	c.eq("the inbox of "+what, payloads(in.Signals), append([]string{}, want...))
	c.eq("Events of "+what, in.Events, int64(len(want)))
}

// in makes the case's helpers use another namespace.
func (c *C) in(ns string, do func()) {
	usual := c.ns
	defer func() { c.ns = usual }()
	c.ns = ns
	do()
}

var signalStartCases = []Case{
	{"create/signal-makes-a-run", "P17", "a start with a signal creates the run with that signal in its inbox, as if it had been sent at its creation", func(c *C) {
		r := signaled("hello")
		r.Input, r.Priority, r.After, r.Tags = []byte("in"), 7, time.Minute, store.Tags{"t": "v"}
		c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
		got := c.get(r.ID)
		c.eq("the run", got, store.Run{
			ID: r.ID, Namespace: c.ns, Workflow: aWorkflow, Queue: aQueue, Status: store.Pending, Priority: 7, ExternalID: "e", Input: []byte("in"),
			Attempt: 1, Events: 1, VisibleAt: c.now.Add(time.Minute), CreatedAt: c.now, Tags: store.Tags{"t": "v"},
		})
		c.eq("the inbox", unplaced(c.inbox(r.ID).Signals), []store.Signal{{ID: r.Signal.ID, Name: "n", Payload: []byte("hello"), SentAt: c.now}})
		c.claimNone("a signal does not start a run that is not due")
		c.advance(time.Minute)
		run := c.claim1()
		c.eq("what the claim brings", payloads(run.Inbox.Signals), []string{"hello"})
		c.eq("Events of the claim", run.Inbox.Events, int64(1))
		second := c.signal(r.ID, "n", "next")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{r.Signal.ID}})
		c.eq("the inbox after one was consumed", c.inbox(r.ID).Signals[0].ID, second)
	}},
	{"create/signal-reaches-the-run", "P8", "a start with a signal that finds the active run of its external id delivers the signal to it and creates none", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e", Input: []byte("first")})
		r := signaled("a")
		r.Input = []byte("second")
		before := c.get(id)
		c.advance(time.Second)
		c.eq("the result", c.creates(r)[0], reached(id))
		c.holds("the run", id, "a")
		c.eq("SentAt", c.inbox(id).Signals[0].SentAt, c.now)
		before.Events = 1
		c.eq("the run", c.get(id), before)
		c.eq("runs that exist", len(c.gets(id, r.ID)), 1)
		again := signaled("b")
		c.eq("the result of another start", c.creates(again)[0], reached(id))
		c.holds("the run", id, "a", "b")
	}},
	{"create/signal-by-suffix", "P8", "a start with a signal reaches the run of its external id, suffix and namespace, byte by byte", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e", Suffix: "s"})
		for _, other := range []store.NewRun{signaled("plain"), {ExternalID: "E", Suffix: "s"}, {ExternalID: "e", Suffix: "S"}} {
			if other.Signal == nil {
				other = fill(other)
				other.Signal = &store.StartSignal{ID: store.NewID(), Name: "n", Payload: []byte("plain")}
			}
			c.eq("the result", c.creates(other)[0], store.CreateResult{ID: other.ID, Created: true})
			c.holds("the other run", other.ID, "plain")
		}
		r := signaled("suffixed")
		r.Suffix = "s"
		c.eq("the result with its suffix", c.creates(r)[0], reached(id))
		c.holds("the run", id, "suffixed")
		c.in(c.ns+"/other", func() {
			r := signaled("elsewhere")
			c.eq("the result in another namespace", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
		})
		c.holds("the run", id, "suffixed")
	}},
	{"create/signal-every-live-status", "P17", "a start with a signal reaches the active run in every status that is not final, and changes neither its lease nor a time that it did not wait with", func(c *C) {
		n := 0
		id := c.create(store.NewRun{ExternalID: "e"})
		take := func(status store.Status) {
			c.Helper()
			c.status(id, status)
			before := c.get(id)
			n++
			c.eq("the result", c.creates(signaled(fmt.Sprint(n)))[0], reached(id))
			before.Events++
			c.eq("the run, "+status.String(), c.get(id), before)
		}
		take(store.Pending)
		run := c.claim1()
		take(store.Running)
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Transition: sleepOn(store.WakeState)})
		take(store.Sleeping)
		c.pause(id)
		take(store.Paused)
		c.resume(id)
		c.setState(id, "k", "v")
		c.claim1()
		c.cancel(id)
		take(store.Canceling)
		c.eq("the inbox", payloads(c.inbox(id).Signals), []string{"1", "2", "3", "4", "5"})
	}},
	{"create/signal-wakes", "P5", "a start with a signal wakes the run that sleeps until one, also if it is paused, and an event between claim and sleep ends the sleep at once", func(c *C) {
		run := c.startWith(store.NewRun{ExternalID: "e"})
		c.end(run, &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, After: time.Hour})
		c.advance(time.Minute)
		c.creates(signaled("x"))
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, c.now)
		next := c.claim1()
		c.eq("signals", payloads(next.Inbox.Signals), []string{"x"})
		c.creates(signaled("y"))
		c.end(next, sleepOn(store.WakeSignal))
		next = c.claim1()
		c.eq("signals", payloads(next.Inbox.Signals), []string{"x", "y"})
		c.end(next, sleepOn(store.WakeSignal))
		c.pause(run.Run.ID)
		c.creates(signaled("z"))
		c.claimNone("it is paused")
		c.resume(run.Run.ID)
		c.eq("signals", payloads(c.claim1().Inbox.Signals), []string{"x", "y", "z"})
	}},
	{"create/signal-repeat", "P4", "a start with a signal that is sent again changes nothing: the run that it created, or that it found, has the signal once", func(c *C) {
		r := signaled("made")
		c.creates(r)
		again := store.CreateResult{ID: r.ID, Created: true, Repeated: true}
		before := c.inbox(r.ID)
		c.advance(time.Second)
		c.eq("the repeat's result", c.creates(r)[0], again)
		c.eq("the inbox", c.inbox(r.ID), before)
		found := signaled("found")
		for i, res := range c.creates(found, found) {
			c.eq(fmt.Sprint("result ", i, " of twice in a call"), res, reached(r.ID))
		}
		c.holds("the run", r.ID, "made", "found")
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{r.Signal.ID, found.Signal.ID}, Seen: 2, Transition: sleepOn(store.WakeSignal)})
		c.eq("the repeat's result after it was consumed", c.creates(r, found), []store.CreateResult{again, reached(r.ID)})
		c.claimNone("the run has had both signals")
		c.eq("Events", c.inbox(r.ID).Events, int64(2))
		c.eq("runs that exist", len(c.gets(r.ID, found.ID)), 1)
	}},
	{"create/signal-repeat-after-finish", "P4", "a start with a signal that is sent again after the run's end creates no run and reaches no other one: the result names the run that had the signal", func(c *C) {
		r, found := signaled("made"), signaled("found")
		c.creates(r)
		c.creates(found)
		c.end(c.claim1(), complete(""))
		check := func(what string) {
			c.Helper()
			c.eq("the repeats' results "+what, c.creates(r, found), []store.CreateResult{{ID: r.ID, Created: true, Repeated: true}, reached(r.ID)})
			c.eq("runs that exist "+what, len(c.gets(r.ID, found.ID)), 1)
			c.eq("Events "+what, c.inbox(r.ID).Events, int64(2))
		}
		check("when no run holds the external id")
		other := signaled("other")
		c.eq("the next start's result", c.creates(other)[0], store.CreateResult{ID: other.ID, Created: true})
		check("when another run holds it")
		c.holds("that other run", other.ID, "other")
	}},
	{"create/signal-as-sent", "P4", "a signal that Signal has sent and the signal of a start are one if they have one ID", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e"})
		r := signaled("x")
		sig := store.NewSignal{ID: r.Signal.ID, ExternalID: "e", Name: "n", Payload: []byte("x")}
		c.eq("Signal's result", c.signals(sig)[0], store.SignalResult{Run: id})
		c.eq("the start's result", c.creates(r)[0], reached(id))
		next := signaled("y")
		c.creates(next)
		sig.ID = next.Signal.ID
		c.eq("Signal's result", c.signals(sig)[0], store.SignalResult{Run: id})
		c.holds("the run", id, "x", "y")
	}},
	{"create/signal-after-end", "P8", "a start with a signal creates a run when the run that held the external id has ended, however it ended", func(c *C) {
		var last store.ID
		for _, t := range []*store.Transition{complete(""), failWith("x"), cancelRun()} {
			r := signaled("next")
			c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
			c.holds("the run", r.ID, "next")
			if !last.IsZero() {
				c.holds("the old run", last, "next")
			}
			last = r.ID
			c.end(c.claim1(), t)
		}
	}},
	{"create/signal-to-a-kept-id", "P8", "if the run that holds the external id is final and keeps it, a start with a signal gets ErrFinished, and nothing is stored", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e", Reuse: store.ReuseNever})
		had := signaled("x")
		c.creates(had)
		c.end(c.claim1(), complete(""))
		r := signaled("y")
		res := c.creates(r)[0]
		c.fails("the start", res.Err, store.ErrFinished)
		c.eq("the result's other fields", store.CreateResult{ID: res.ID}, reached(id))
		c.eq("runs that exist", len(c.gets(id, r.ID)), 1)
		c.eq("Events", c.inbox(id).Events, int64(1))
		c.eq("the repeat of one that it had", c.creates(had)[0], reached(id))
		forever := signaled("z")
		forever.ExternalID, forever.Reuse = "f", store.ReuseNever
		c.creates(forever)
		c.end(c.claim1(), complete(""))
		r.ExternalID = "f"
		c.fails("the start of a kept id that a start with a signal took", c.creates(r)[0].Err, store.ErrFinished)
	}},
	{"create/signal-of-another-workflow", "P8", "a start with a signal that finds a run of another workflow gets ErrConflict and delivers nothing; inputs are not compared", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e", Digest: kit.Digest(1, "a")})
		r := signaled("x")
		r.Workflow = "another"
		res := c.creates(r)[0]
		c.fails("the start", res.Err, store.ErrConflict)
		c.eq("the run that is in the way", res.ID, id)
		c.holds("the run", id)
		c.eq("runs that exist", len(c.gets(id, r.ID)), 1)
		same := signaled("y")
		same.Digest = kit.Digest(1, "b")
		c.eq("the result with another digest", c.creates(same)[0], reached(id))
		made := signaled("z")
		made.ExternalID, made.Digest = "f", kit.Digest(1, "c")
		c.creates(made)
		c.eq("the digest of a run that was created", c.get(made.ID).Digest, made.Digest)
	}},
	{"create/signal-of-a-taken-run-id", "P4", "if the ID belongs to a run that does not hold the external id, a start with a signal gets ErrAlreadyExists and delivers nothing", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "other"})
		r := signaled("x")
		r.ID = id
		res := c.creates(r)[0]
		c.fails("the start", res.Err, store.ErrAlreadyExists)
		c.holds("the run", id)
		c.eq("runs that hold the external id", len(c.list(store.ListParams{Filter: store.RunFilter{ExternalID: "e"}}).Runs), 0)
		c.in(c.ns+"/elsewhere", func() {
			c.fails("the start in another namespace", c.creates(r)[0].Err, store.ErrAlreadyExists)
		})
		holder := signaled("a")
		c.creates(holder)
		next := signaled("b")
		next.ID = holder.ID
		c.eq("another signal with the holder's ID", c.creates(next)[0], store.CreateResult{ID: holder.ID, Created: true, Repeated: true})
		next.ID, next.Signal = id, signaled("c").Signal
		c.eq("another run's ID beside a holder", c.creates(next)[0], reached(holder.ID))
		c.holds("the holder", holder.ID, "a", "b", "c")
	}},
	{"create/signal-batch", "P16", "starts with and without signals in one call have a result each, as if they came one after the other", func(c *C) {
		first, plain, second, bad, other := signaled("1"), fill(store.NewRun{ExternalID: "e"}), signaled("2"), signaled("bad"), fill(store.NewRun{})
		bad.Signal.Name = ""
		res := c.creates(first, plain, other, second, bad)
		c.fails("the bad item", res[4].Err, store.ErrInvalid)
		c.eq("the results", res[:4], []store.CreateResult{{ID: first.ID, Created: true}, reached(first.ID), {ID: other.ID, Created: true}, reached(first.ID)})
		c.holds("the run", first.ID, "1", "2")
		plain, first = fill(store.NewRun{ExternalID: "f"}), signaled("3")
		first.ExternalID = "f"
		c.eq("the results behind a plain start", c.creates(plain, first), []store.CreateResult{{ID: plain.ID, Created: true}, reached(plain.ID)})
		c.holds("the run", plain.ID, "3")
	}},
	{"create/signal-batch-of-many", "P17", "many starts with signals in one call deliver each signal once, in order", func(c *C) {
		const n, ids = 200, 7
		want, made := map[string][]string{}, map[string]store.ID{}
		var rs []store.NewRun
		for i := range n {
			r := signaled(fmt.Sprint(i))
			r.ExternalID = fmt.Sprint("many-", i%ids)
			want[r.ExternalID] = append(want[r.ExternalID], fmt.Sprint(i))
			rs = append(rs, r)
		}
		for i, res := range c.creates(rs...) {
			ext := rs[i].ExternalID
			if _, ok := made[ext]; !ok {
				made[ext] = rs[i].ID
			}
			c.eq("a result", res, store.CreateResult{ID: made[ext], Created: res.ID == rs[i].ID})
		}
		for ext, id := range made {
			c.holds(ext, id, want[ext]...)
		}
	}},
	{"create/signal-invalid", "P16", "a start with a signal needs an external id and a valid signal; it excludes MustBeNew, Worker, a parent and a firing", func(c *C) {
		for what, change := range map[string]func(r *store.NewRun){
			"without an external id": func(r *store.NewRun) { r.ExternalID = "" },
			"MustBeNew":              func(r *store.NewRun) { r.MustBeNew = true },
			"Worker":                 func(r *store.NewRun) { r.Worker, r.LeaseFor = aWorker, aLease },
			"a zero signal id":       func(r *store.NewRun) { r.Signal.ID = store.ID{} },
			"no name":                func(r *store.NewRun) { r.Signal.Name = "" },
		} {
			r := signaled("x")
			change(&r)
			c.fails(what, c.creates(r)[0].Err, store.ErrInvalid)
			c.eq("runs that exist", len(c.gets(r.ID)), 0)
		}
		run := c.start()
		child := kid(1)
		child.Signal = signaled("x").Signal
		c.fails("a child", c.tryCommit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{child}}).Err, store.ErrInvalid)
		c.putSchedule(c.schedule("s"))
		fired := signaled("x")
		_, err := c.s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "s", At: c.now, Run: &fired, Now: c.now})
		c.fails("a firing", err, store.ErrInvalid)
	}},
	{"create/signal-too-large", "P12", "the signal of a start is stored unchanged, also nil and empty; one over the limit is ErrTooLarge and stores nothing", func(c *C) {
		for i, payload := range [][]byte{nil, {}, {0, 0xff, 0xfe}} {
			for _, ext := range []string{"found", fmt.Sprint("made-", i)} {
				r := signaled("")
				r.ExternalID, r.Signal.Payload = ext, payload
				id := c.creates(r)[0].ID
				in := c.inbox(id).Signals
				c.eq("the payload", in[len(in)-1].Payload, payload)
			}
		}
		r := signaled(strings.Repeat("x", c.s.Limits().Payload+1))
		c.fails("the start", c.creates(r)[0].Err, store.ErrTooLarge)
		c.eq("runs that exist", len(c.gets(r.ID)), 0)
	}},
	{"create/signal-under-limits", "P21", "a run that a start with a signal creates is under its limits", func(c *C) {
		c.putLimit("one", store.LimitRule{Concurrency: 1})
		a, b := signaled("a"), signaled("b")
		b.ExternalID = "f"
		for _, r := range []*store.NewRun{&a, &b} {
			r.Under = []store.LimitUse{{Limit: "one", Key: "k"}}
		}
		c.creates(a, b)
		c.eq("what a claim takes", c.claim1().Run.ID, a.ID)
		c.claimNone("the limit permits one")
		again := signaled("c")
		again.ExternalID = "f"
		c.eq("the result with a run that waits", c.creates(again)[0], reached(b.ID))
		c.holds("the run that waits", b.ID, "b", "c")
	}},
	{"create/signal-race", "P8", "of concurrent starts with signals, one creates the run, and it gets the signals of all, each once", func(c *C) {
		const starters = 4
		for round := range 8 {
			ext := fmt.Sprint("race-", round)
			results := make([]store.CreateResult, starters)
			rs := make([]store.NewRun, starters)
			for i := range rs {
				rs[i] = signaled(fmt.Sprint(i))
				rs[i].ExternalID = ext
			}
			c.race(starters, func(i int, s store.Store) (err error) {
				results[i], err = c.createOn(s, rs[i])
				return err
			})
			made := 0
			for i, res := range results {
				c.eq("the run of every result", res.ID, results[0].ID)
				if res.Created {
					made++
					c.eq("the run that was created", res.ID, rs[i].ID)
				}
			}
			c.eq("results with Created", made, 1)
			in := c.inbox(results[0].ID)
			got := payloads(in.Signals)
			slices.Sort(got)
			c.eq("the inbox", got, []string{"0", "1", "2", "3"})
			c.eq("Events", in.Events, int64(starters))
		}
	}},
	{"create/signal-at-once", "P17", "a reader that sees the run of a start with a signal sees the signal, too", func(c *C) {
		for round := range 20 {
			r := signaled("x")
			r.ExternalID = fmt.Sprint("at-once-", round)
			c.race(4, func(i int, s store.Store) error {
				if i == 0 {
					_, err := c.createOn(s, r)
					return err
				}
				for range 3 {
					in, err := patient(c.ctx, func() (store.Inbox, error) { return s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: r.ID}) })
					switch {
					case errors.Is(err, store.ErrNotFound):
					case err != nil:
						return err
					case in.Events != 1 || len(in.Signals) != 1:
						return fmt.Errorf("the run exists with %d signals and %d events, expected one", len(in.Signals), in.Events)
					}
				}
				return nil
			})
		}
	}},
	{"create/signal-repeat-race", "P4", "one start with a signal that is sent many times concurrently delivers the signal once", func(c *C) {
		for round := range 8 {
			r := signaled("x")
			r.ExternalID = fmt.Sprint("again-", round)
			c.race(4, func(_ int, s store.Store) error {
				res, err := c.createOn(s, r)
				if err == nil && (res.ID != r.ID || !res.Created) {
					c.Errorf("Create: saw %+v, expected run %v made", res, r.ID)
				}
				return err
			})
			c.holds("the run", r.ID, "x")
		}
	}},
	{"create/signal-end-race", "P17", "a start with a signal beside the end of the run that holds the external id loses no signal: a run that is active has it, or the run had it before its end", func(c *C) {
		for round := range 12 {
			ext := fmt.Sprint("end-", round)
			c.create(store.NewRun{ExternalID: ext})
			run := c.claim1()
			rs := []store.NewRun{signaled("0"), signaled("1"), signaled("2")}
			results := make([]store.CreateResult, len(rs))
			c.race(len(rs)+1, func(i int, s store.Store) (err error) {
				if i == len(rs) {
					res, err := patient(c.ctx, func() ([]store.CommitResult, error) {
						return s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Transition: complete("")}}, Now: c.now})
					})
					if err == nil {
						err = res[0].Err
					}
					return err
				}
				rs[i].ExternalID = ext
				results[i], err = c.createOn(s, rs[i])
				return err
			})
			c.status(run.Run.ID, store.Completed)
			got := map[string]int{}
			for _, r := range c.list(store.ListParams{Filter: store.RunFilter{ExternalID: ext}}).Runs {
				in := c.inbox(r.ID)
				c.eq("Events", in.Events, int64(len(in.Signals)))
				c.check(r.ID == run.Run.ID || len(in.Signals) > 0, "run %v: saw no signal, expected the one that it was created with", r.ID)
				for _, s := range in.Signals {
					got[string(s.Payload)]++
					i := slices.IndexFunc(rs, func(n store.NewRun) bool { return n.Signal.ID == s.ID })
					c.eq("the run of the result of signal "+string(s.Payload), results[i].ID, r.ID)
				}
			}
			c.eq("how often each signal was delivered", got, map[string]int{"0": 1, "1": 1, "2": 1})
			for _, r := range c.claimN(2) {
				c.end(r, complete(""))
			}
		}
	}},
	{"create/signal-lost-answers-race", "P4", "a start with a signal that is sent again while its run ends and another one begins delivers the signal once", func(c *C) {
		for round := range 12 {
			ext := fmt.Sprint("lost-", round)
			c.create(store.NewRun{ExternalID: ext})
			run := c.claim1()
			r := signaled("x")
			r.ExternalID = ext
			c.race(4, func(i int, s store.Store) error {
				if i > 0 {
					_, err := c.createOn(s, r)
					return err
				}
				_, err := patient(c.ctx, func() ([]store.CommitResult, error) {
					return s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Transition: complete("")}}, Now: c.now})
				})
				return err
			})
			n := int64(0)
			for _, r := range c.list(store.ListParams{Filter: store.RunFilter{ExternalID: ext}}).Runs {
				n += c.inbox(r.ID).Events
			}
			c.eq("how often the signal was delivered", n, int64(1))
			for _, r := range c.claimN(2) {
				c.end(r, complete(""))
			}
		}
	}},
	{"tx/signal-start", "P3", "a start with a signal in a program's transaction creates the run, or delivers to the active one, when the transaction commits, and never when it rolls back", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			for _, commit := range []bool{false, true} {
				id := c.create(store.NewRun{ExternalID: "held"})
				found, made := signaled("found"), signaled("made")
				found.ExternalID, made.ExternalID = "held", "free"
				more := signaled("more")
				more.ExternalID = "free"
				tx, in := c.join(t, k, newMarker())
				c.at(in, func() {
					c.eq("the results inside", c.creates(found, made), []store.CreateResult{reached(id), {ID: made.ID, Created: true}})
					c.eq("the result of a second one inside", c.creates(more)[0], reached(made.ID))
					c.eq("the results of repeats inside", c.creates(found, made, more), []store.CreateResult{reached(id), {ID: made.ID, Created: true, Repeated: true}, reached(made.ID)})
					c.holds("the run that was found, inside", id, "found")
					c.holds("the run that was made, inside", made.ID, "made", "more")
				})
				if !commit {
					c.ok("rollback", tx.Rollback())
					c.holds("the run that was found, after the rollback", id)
					c.eq("runs that were made, after the rollback", len(c.gets(made.ID)), 0)
					c.cancel(id)
					continue
				}
				c.ok("commit", tx.Commit())
				c.holds("the run that was found", id, "found")
				c.holds("the run that was made", made.ID, "made", "more")
			}
		})
	}},
}

// signalStartVerbs are the calls of a start with a signal under faults.
var signalStartVerbs = []verbUnderFault{
	{name: "Create with a signal", prepare: func(c *C) attempt {
		r := signaled("x")
		return c.signalStarts(r, func() int { return len(c.gets(r.ID)) })
	}},
	{name: "Create with a signal to a run", prepare: func(c *C) attempt {
		id := c.create(store.NewRun{ExternalID: "e"})
		a := c.signalStarts(signaled("x"), func() int { return int(c.inbox(id).Events) })
		a.mute = true
		return a
	}},
}

// signalStarts is a call that starts r, which has a signal.
func (c *C) signalStarts(r store.NewRun, runs func() int) attempt {
	return attempt{
		call: func(ctx context.Context, s store.Store) (bool, error) {
			res, err := s.Create(ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{r, fill(store.NewRun{ID: store.DeriveID(r.ID, "beside")})}, Now: c.now})
			if err != nil {
				return false, err
			}
			return res[0].Created && !res[0].Repeated, first(res[0].Err, res[1].Err)
		},
		effect: func() int {
			n := len(c.gets(store.DeriveID(r.ID, "beside"))) // written in one write with the other
			for _, run := range c.list(store.ListParams{Filter: store.RunFilter{ExternalID: "e"}}).Runs {
				in := c.inbox(run.ID)
				n += runs()*10 + len(in.Signals)*100 + int(in.Events)*1000
			}
			return n/1111 + 10000*whether(n%1111 != 0)
		},
	}
}
