package storetier

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// quiet is how long debounced runs wait for the next start.
const quiet = 10 * time.Second

// debounced returns a start with a key.
func debounced(key, input string) store.NewRun {
	return fill(store.NewRun{Debounce: key, Input: []byte(input), After: quiet})
}

// replaces checks that a start replaces what a run was started with.
func (c *C) replaces(id store.ID, r store.NewRun) {
	c.Helper()
	c.eq("the result of a start that replaces", c.creates(r)[0], store.CreateResult{ID: id})
}

// makes checks that a start creates a run, and returns its ID.
func (c *C) makes(r store.NewRun) store.ID {
	c.Helper()
	c.eq("the result of a start that creates", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
	return r.ID
}

// begins claims the run that is due, and checks which it is and its input.
func (c *C) begins(id store.ID, input string) store.ClaimedRun {
	c.Helper()
	run := c.claim1()
	c.eq("the claimed run", run.Run.ID, id)
	c.bytes("its input", run.Run.Input, []byte(input))
	return run
}

var debounceCases = []Case{
	{"debounce/replaces", "P28", "a start with the key of a run that has not begun replaces its input, meta, limits, tags, due time and deadline, and nothing else", func(c *C) {
		began := c.now
		first := debounced("k", "one")
		first.Meta, first.Tags, first.Under, first.Timeout, first.Priority = []byte("m1"), store.Tags{"t": "1"}, use("l", "a"), time.Hour, 3
		id := c.makes(first)
		was := c.get(id)
		c.eq("due", was.VisibleAt, began.Add(quiet))
		c.advance(5 * time.Second)
		next := debounced("k", "two")
		next.Queue, next.Priority = "elsewhere", 7
		next.Meta, next.Tags, next.Under, next.Timeout = []byte("m2"), store.Tags{"t": "2", "u": "3"}, use("l", "b"), 2*time.Hour
		c.replaces(id, next)
		want := was
		want.Input, want.Meta, want.Tags, want.Under = next.Input, next.Meta, next.Tags, kept(next.Under)
		want.VisibleAt, want.Deadline = c.now.Add(quiet), c.now.Add(2*time.Hour)
		c.eq("the run", c.get(id), want)
		c.eq("runs of the old tag", c.count(with("t", "1")), int64(0))
		c.eq("runs of the new tag", c.count(with("u", "3")), int64(1))
		c.now = began.Add(quiet)
		c.claimNone("the second start has moved its time")
		c.advance(5 * time.Second)
		c.end(c.begins(id, "two"), complete(""))
		c.claimNone("each input is executed once")
	}},
	{"debounce/at-most", "P28", "starts delay a run to AtMost after its creation, however often they come", func(c *C) {
		began := c.now
		r := debounced("k", "0")
		r.AtMost = 25 * time.Second
		id := c.makes(r)
		for i, want := range []time.Duration{18, 25, 25} {
			c.advance(8 * time.Second)
			r = debounced("k", fmt.Sprint(i+1))
			r.AtMost = 25 * time.Second
			c.replaces(id, r)
			c.eq("due", c.get(id).VisibleAt.Sub(began), want*time.Second)
		}
		c.now = began.Add(25*time.Second - time.Microsecond)
		c.claimNone("the last delay has not passed")
		c.advance(time.Microsecond)
		c.begins(id, "3")
	}},
	{"debounce/at-most-of-a-time", "P28", "AtMost also limits the time of At, of the first start, too", func(c *C) {
		r := debounced("k", "0")
		r.At, r.AtMost = c.now.Add(time.Hour), time.Minute
		began := c.now
		id := c.makes(r)
		c.eq("due", c.get(id).VisibleAt, began.Add(time.Minute))
		r = debounced("k", "1")
		r.At = c.now.Add(time.Hour)
		c.replaces(id, r)
		c.eq("due without a limit", c.get(id).VisibleAt, began.Add(time.Hour))
	}},
	{"debounce/earlier", "P28", "a start with a shorter delay makes the run due earlier", func(c *C) {
		r := debounced("k", "0")
		r.After = time.Hour
		id := c.makes(r)
		r = debounced("k", "1")
		r.After = time.Second
		c.replaces(id, r)
		c.advance(time.Second)
		c.begins(id, "1")
	}},
	{"debounce/deadline", "P13", "a run whose deadline a start has removed or moved ends when it has to", func(c *C) {
		r := debounced("k", "0")
		r.Timeout = time.Second
		id := c.makes(r)
		c.eq("due", c.get(id).VisibleAt, c.now.Add(time.Second))
		c.replaces(id, debounced("k", "1"))
		run := c.get(id)
		c.eq("due and deadline", []time.Time{run.VisibleAt, run.Deadline}, []time.Time{c.now.Add(quiet), {}})
	}},
	{"debounce/begun", "P28", "a run that has begun is not replaced, whatever it waits for since: a start creates another", func(c *C) {
		for i, t := range []*store.Transition{nil, retryIn(time.Hour), {Kind: store.Release, After: time.Hour}, sleepFor(time.Hour), complete(""), failWith("x")} {
			key := fmt.Sprint("k", i)
			id := c.makes(debounced(key, "first"))
			c.advance(quiet)
			run := c.begins(id, "first")
			if t != nil {
				c.end(run, t)
			}
			second := c.makes(debounced(key, "second"))
			c.replaces(second, debounced(key, "third"))
			c.bytes("input of the first run", c.get(id).Input, []byte("first"))
			c.bytes("input of the second run", c.get(second).Input, []byte("third"))
			c.tryCancel(second)
		}
	}},
	{"debounce/expired", "P28", "a run whose first lease has expired has begun", func(c *C) {
		id := c.makes(debounced("k", "first"))
		c.advance(quiet)
		c.begins(id, "first")
		c.advance(2 * aLease)
		second := c.makes(debounced("k", "second"))
		c.eq("the run that is claimed again", c.claim1().Run.ID, id)
		c.bytes("input of the second run", c.get(second).Input, []byte("second"))
	}},
	{"debounce/canceled", "P28", "a run that was canceled before it began is not replaced, also when it is restarted", func(c *C) {
		id := c.makes(debounced("k", "first"))
		c.cancel(id)
		second := c.makes(debounced("k", "second"))
		c.cancel(second)
		for _, res := range c.tryRestart(id, second) {
			c.ok("Restart's item", res.Err)
		}
		c.makes(debounced("k", "third"))
		c.bytes("input of the first run", c.get(id).Input, []byte("first"))
		c.bytes("input of the second run", c.get(second).Input, []byte("second"))
	}},
	{"debounce/paused", "P28", "a run that is paused before it begins is replaced, and stays paused", func(c *C) {
		id := c.makes(debounced("k", "first"))
		c.pause(id)
		c.advance(time.Second)
		c.replaces(id, debounced("k", "second"))
		c.status(id, store.Paused)
		c.advance(time.Hour)
		c.claimNone("it is paused")
		c.resume(id)
		c.begins(id, "second")
	}},
	{"debounce/repeated", "P4", "a start that has replaced and is sent again changes nothing, and is told of the same run, also when that has begun or ended", func(c *C) {
		id := c.makes(debounced("k", "1"))
		second, third := debounced("k", "2"), debounced("k", "3")
		c.replaces(id, second)
		c.replaces(id, third)
		c.advance(time.Second)
		c.replaces(id, second)
		run := c.get(id)
		c.bytes("input", run.Input, []byte("3"))
		c.eq("due", run.VisibleAt, c.now.Add(quiet-time.Second))
		c.advance(quiet)
		begun := c.begins(id, "3")
		c.replaces(id, third)
		c.end(begun, complete(""))
		c.replaces(id, second)
		c.eq("runs", c.count(store.RunFilter{}), int64(1))
		fourth := c.makes(debounced("k", "4"))
		c.replaces(id, third)
		c.bytes("input of the next run", c.get(fourth).Input, []byte("4"))
	}},
	{"debounce/first-repeated", "P4", "the start that has created the run is sent again after another has replaced it: nothing changes", func(c *C) {
		first := debounced("k", "1")
		id := c.makes(first)
		c.replaces(id, debounced("k", "2"))
		c.advance(time.Second)
		c.eq("the result", c.creates(first)[0], store.CreateResult{ID: id, Created: true, Repeated: true})
		c.bytes("input", c.get(id).Input, []byte("2"))
		c.advance(quiet)
		c.begins(id, "2")
		c.eq("the result", c.creates(first)[0], store.CreateResult{ID: id, Created: true, Repeated: true})
	}},
	{"debounce/known-for-a-time", "P4", "a start that has replaced is known for DebounceMemory, and as long as the run is kept", func(c *C) {
		id := c.makes(debounced("k", "1"))
		second := debounced("k", "2")
		second.After = time.Second
		c.replaces(id, second)
		c.advance(time.Second)
		c.end(c.begins(id, "2"), complete(""))
		c.advance(store.DebounceMemory - time.Second - time.Microsecond)
		c.replaces(id, second)
		c.advance(time.Microsecond)
		c.makes(second)
		other := c.makes(debounced("other", "1"))
		third := debounced("other", "2")
		c.replaces(other, third)
		c.cancel(other)
		c.advance(time.Second)
		c.eq("purged", c.purge(store.PurgeParams{OlderThan: time.Second, Statuses: []store.Status{store.Canceled}}), 1)
		c.makes(third)
	}},
	{"debounce/keys", "P28", "keys belong to a workflow and a namespace", func(c *C) {
		id := c.makes(debounced("k", "1"))
		other := debounced("k", "2")
		other.Workflow = "other"
		c.makes(other)
		c.makes(debounced("K", "3"))
		c.makes(debounced("k ", "4"))
		ns := c.ns
		c.ns += "/other"
		c.makes(debounced("k", "5"))
		c.ns = ns
		c.bytes("input", c.get(id).Input, []byte("1"))
		c.makes(fill(store.NewRun{ExternalID: "k"}))
	}},
	{"debounce/one-call", "P28", "of several starts of one key in a call, the first creates a run and the last decides its input; the others change nothing for the items of other keys", func(c *C) {
		rs := []store.NewRun{debounced("a", "1"), debounced("b", "2"), debounced("a", "3"), fill(store.NewRun{After: time.Hour}), debounced("a", "4")}
		rs[3].ExternalID = "x"
		res := c.creates(rs...)
		c.eq("results", res, []store.CreateResult{{ID: rs[0].ID, Created: true}, {ID: rs[1].ID, Created: true}, {ID: rs[0].ID}, {ID: rs[3].ID, Created: true}, {ID: rs[0].ID}})
		c.bytes("input of a", c.get(rs[0].ID).Input, []byte("4"))
		c.bytes("input of b", c.get(rs[1].ID).Input, []byte("2"))
		again := c.creates(rs...)
		c.eq("results of the same call again", again, []store.CreateResult{
			{ID: rs[0].ID, Created: true, Repeated: true}, {ID: rs[1].ID, Created: true, Repeated: true}, {ID: rs[0].ID}, {ID: rs[3].ID, Created: true, Repeated: true}, {ID: rs[0].ID}})
		c.bytes("input of a", c.get(rs[0].ID).Input, []byte("4"))
		c.replaces(rs[0].ID, debounced("a", "5"))
	}},
	{"debounce/payloads", "P12", "inputs of all sizes replace each other", func(c *C) {
		large := make([]byte, min(100_000, c.s.Limits().Payload))
		for i := range large {
			large[i] = byte(i * 7)
		}
		r := debounced("k", "")
		r.Input = nil
		id := c.makes(r)
		for _, input := range [][]byte{large, []byte("small"), {}, large[:len(large)-1], nil, large} {
			r = debounced("k", "")
			r.Input, r.Meta = input, nil
			c.replaces(id, r)
			run := c.get(id)
			c.bytes("input", run.Input, input)
			c.eq("whether the input is nil", run.Input == nil, input == nil)
		}
		c.advance(quiet)
		c.bytes("claimed input", c.claim1().Run.Input, large)
	}},
	{"debounce/joins-those-that-wait", "P21", "a run that comes under a limit because its start was replaced waits behind those that have waited for it", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "a"), use("l", "a"))
		holder := c.takes("the run that holds the permit", 10, ids[0])[0]
		r := debounced("k", "1")
		r.Under, r.After = use("l", "b"), time.Second
		id := c.makes(r)
		r = debounced("k", "2")
		r.Under, r.After = use("l", "a"), time.Second
		c.replaces(id, r)
		c.advance(time.Second)
		c.takes("a claim while the key is at its limit", 10)
		c.end(holder, complete(""))
		c.end(c.takes("the one that has waited", 10, ids[1])[0], complete(""))
		c.takes("the one that was replaced", 10, id)
	}},
	{"debounce/limits", "P21", "a run that is under other limits since its start was replaced is held back by those alone", func(c *C) {
		c.putLimit("l", oneAtATime)
		busy := c.createUnder(use("l", "a"))[0]
		holder := c.takes("the run that holds the permit", 1, busy)[0]
		r := debounced("k", "1")
		r.Under, r.After = use("l", "a"), 0
		id := c.makes(r)
		c.takes("a claim while the key is at its limit", 10)
		r = debounced("k", "2")
		r.Under, r.After = use("l", "b"), time.Second
		c.replaces(id, r)
		c.takes("a claim before the time", 10)
		c.advance(time.Second)
		c.end(c.takes("a claim under the other key", 10, id)[0], complete(""))

		r = debounced("k", "3")
		r.After = 0
		id = c.makes(r)
		r = debounced("k", "4")
		r.After, r.Under = 0, use("l", "a")
		c.replaces(id, r)
		c.takes("a claim of a run that came under a limit", 10)
		r = debounced("k", "5")
		r.After = time.Minute
		c.replaces(id, r)
		c.takes("a claim of a run that is due later", 10)
		c.end(holder, complete(""))
		c.advance(time.Minute)
		c.begins(id, "5")
	}},
	{"debounce/moved-under-a-limit", "P13", "a run under a limit that a start has delayed is not claimed before, and does not hold back others of its key", func(c *C) {
		c.putLimit("l", oneAtATime)
		r := debounced("k", "1")
		r.Under = use("l", "a")
		id := c.makes(r)
		c.advance(quiet - time.Second)
		c.replaces(id, func() store.NewRun { r := debounced("k", "2"); r.Under = use("l", "a"); return r }())
		other := c.createUnder(use("l", "a"))[0]
		c.advance(time.Second)
		run := c.takes("what is due", 10, other)[0]
		c.end(run, complete(""))
		got := c.claim(store.ClaimParams{Max: 10})
		c.eq("runs", runIDs(got.Runs), []store.ID{})
		c.advance(quiet - time.Second)
		c.begins(id, "2")
	}},
	{"debounce/invalid", "P16", "a key with an external id, a digest or a lease, a key that is too long, an AtMost without a key, and a key of a child or a fired run are ErrInvalid", func(c *C) {
		for what, change := range map[string]func(*store.NewRun){
			"external id": func(r *store.NewRun) { r.ExternalID = "x" },
			"must be new": func(r *store.NewRun) { r.MustBeNew = true },
			"digest":      func(r *store.NewRun) { r.Digest = []byte("12345678") },
			"worker":      func(r *store.NewRun) { r.After, r.Worker, r.LeaseFor = 0, aWorker, aLease },
			"long key":    func(r *store.NewRun) { r.Debounce = string(make([]byte, 10_000)) },
			"no key":      func(r *store.NewRun) { r.Debounce, r.AtMost = "", time.Second },
			"negative":    func(r *store.NewRun) { r.AtMost = -1 },
		} {
			r := debounced("k", "")
			change(&r)
			c.fails("Create with "+what, c.creates(r)[0].Err, store.ErrInvalid)
		}
		run := c.start()
		child := kid(1)
		child.Debounce = "k"
		_, err := c.s.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Now: c.now, Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Spawn: []store.NewRun{child}}}})
		if err == nil {
			err = c.tryCommit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{child}}).Err
		}
		c.fails("Commit that spawns a child with a key", err, store.ErrInvalid)
		c.putSchedule(c.schedule("s"))
		fired := debounced("k", "")
		at := c.schedules(store.ListSchedulesParams{Names: []string{"s"}}).Schedules[0].NextAt
		_, err = c.s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &fired, Now: at})
		c.fails("Fire of a run with a key", err, store.ErrInvalid)
	}},
	{"debounce/race", "P28", "of starts that race with claims, each reaches a run that had not begun: no input is lost, and none is executed twice", debounceRace},
}

// raceStart is a start, and raceBegin a claim of a run, with the steps of a common clock between which
// they were under way.
type raceStart struct {
	input        string
	run          store.ID
	begun, ended int64
}

type raceBegin struct {
	run   store.ID
	input string
	ended int64
}

// debounceRace has starters and claimers of one key at work at once. Steps are counted: a start that
// begins after a claim has ended must not have reached the claimed run, and what a claim has must not
// be older than a start that has reached its run and began when that start had ended.
func debounceRace(c *C) {
	const starters, each = 6, 12
	var clock, left atomic.Int64
	left.Store(starters)
	var mu sync.Mutex
	var starts []raceStart
	var begins []raceBegin
	claims := func(s store.Store) (int, error) {
		runs, err := c.claimOn(s, store.ClaimParams{})
		if err != nil {
			return 0, err
		}
		ended := clock.Add(1)
		mu.Lock()
		defer mu.Unlock()
		for _, r := range runs {
			begins = append(begins, raceBegin{r.Run.ID, string(r.Run.Input), ended})
		}
		return len(runs), nil
	}
	c.race(starters+2, func(i int, s store.Store) error {
		if i >= starters {
			for left.Load() > 0 {
				if _, err := claims(s); err != nil {
					return err
				}
			}
			return nil
		}
		defer left.Add(-1)
		for n := range each {
			r := debounced("k", fmt.Sprintf("%d of %d", n, i))
			r.After = 0
			st := raceStart{input: string(r.Input), begun: clock.Add(1)}
			res, err := c.createOn(s, r)
			if err != nil {
				return err
			}
			st.run, st.ended = res.ID, clock.Add(1)
			mu.Lock()
			starts = append(starts, st)
			mu.Unlock()
		}
		return nil
	})
	if _, err := claims(c.s); err != nil {
		c.Fatalf("Claim: %v", err)
	}
	c.noneLost(starts, begins)
}

// noneLost checks what the starts were told against what the claims have got.
func (c *C) noneLost(starts []raceStart, begins []raceBegin) {
	c.Helper()
	byInput := map[string]raceStart{}
	for _, st := range starts {
		byInput[st.input] = st
	}
	slices.SortFunc(begins, func(a, b raceBegin) int { return cmp.Compare(a.input, b.input) })
	for i, b := range begins {
		c.check(i == 0 || begins[i-1].input != b.input, "input %q was executed twice", b.input)
		by, ok := byInput[b.input]
		c.check(ok && by.run == b.run, "run %v has input %q, whose start was told of run %v", b.run, b.input, by.run)
		for _, st := range starts {
			if st.run != b.run {
				continue
			}
			c.check(st.begun < b.ended, "the start of %q was told of run %v, which had begun before with %q", st.input, b.run, b.input)
			c.check(st.begun < by.ended || st.input == b.input, "run %v has input %q; the start of %q came later and was told of that run: its input is lost", b.run, b.input, st.input)
		}
	}
	ids := map[store.ID]bool{}
	for _, b := range begins {
		c.check(!ids[b.run], "run %v was claimed twice", b.run)
		ids[b.run] = true
	}
	for _, st := range starts {
		c.check(ids[st.run], "the start of %q was told of run %v, which was never claimed", st.input, st.run)
	}
}
