package storetier

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

var stateCases = []Case{
	{"state/set-and-get", "P3", "SetState returns the entries as written, in the order of the writes; GetState returns those that exist, in the order of the keys' bytes", func(c *C) {
		id := c.create(store.NewRun{})
		c.advance(time.Second)
		entries, err := c.trySetState(id, store.StateWrite{Key: "b", Value: []byte("2")}, store.StateWrite{Key: "a", Value: []byte("1")})
		c.ok("SetState", err)
		b := store.StateEntry{Key: "b", Value: []byte("2"), Version: 1, UpdatedAt: c.now}
		a := store.StateEntry{Key: "a", Value: []byte("1"), Version: 2, UpdatedAt: c.now}
		c.eq("the entries as written", entries, []store.StateEntry{b, a})
		c.eq("all entries", c.getState(id), []store.StateEntry{a, b})
		c.eq("asked for by key", c.getState(id, "none", "b"), []store.StateEntry{b})
		c.eq("asked for in another order", values(c.getState(id, "b", "a")), []string{"a=1", "b=2"})
		c.eq("none of them", len(c.getState(id, "none")), 0)
	}},
	{"state/replaces", "P3", "a key written again has its new value and time and a higher version", func(c *C) {
		id := c.create(store.NewRun{})
		c.setState(id, "k", "one")
		c.advance(time.Second)
		c.eq("the entry", c.setState(id, "k", "two"), store.StateEntry{Key: "k", Value: []byte("two"), Version: 2, UpdatedAt: c.now})
		c.eq("all entries", c.getState(id), []store.StateEntry{{Key: "k", Value: []byte("two"), Version: 2, UpdatedAt: c.now}})
	}},
	{"state/byte-order", "P14", "keys are in the order of their bytes, not of any language", func(c *C) {
		id := c.create(store.NewRun{})
		var writes []store.StateWrite
		for _, k := range []string{"é", "b", "_", "B", "a", "Z", "a b", "a-b", "ab", "z", "😀", "\uffee"} {
			writes = append(writes, store.StateWrite{Key: k})
		}
		_, err := c.trySetState(id, writes...)
		c.ok("SetState", err)
		want := []string{"B=", "Z=", "_=", "a=", "a b=", "a-b=", "ab=", "b=", "z=", "é=", "\uffee=", "😀="}
		c.eq("GetState", values(c.getState(id)), want)
		c.eq("Inbox", values(c.inbox(id).State), want)
		c.eq("Claim", values(c.claim1().Inbox.State), want)
	}},
	{"state/is-the-runs-own", "P15", "runs do not see each other's state", func(c *C) {
		a, b := c.create(store.NewRun{}), c.create(store.NewRun{})
		c.setState(a, "k", "a")
		c.setState(b, "k", "b")
		c.eq("state of a", values(c.getState(a)), []string{"k=a"})
		c.eq("state of b", values(c.getState(b)), []string{"k=b"})
	}},
	{"state/compare-and-set", "P16", "IfVersion must be the key's present version, 0 for a key that must not exist; otherwise the call is ErrConflict and nothing is written", func(c *C) {
		id := c.create(store.NewRun{})
		set := func(v string, version int64) error {
			_, err := c.trySetState(id, store.StateWrite{Key: "k", Value: []byte(v), IfVersion: ptr(version)})
			return err
		}
		c.fails("a version of a key that does not exist", set("x", 1), store.ErrConflict)
		c.ok("a new key", set("one", 0))
		c.fails("a new key that exists", set("x", 0), store.ErrConflict)
		version := c.getState(id)[0].Version
		c.fails("a later version", set("x", version+1), store.ErrConflict)
		c.ok("the present version", set("two", version))
		c.fails("an earlier version", set("x", version), store.ErrConflict)
		_, err := c.trySetState(id, store.StateWrite{Key: "k", Delete: true, IfVersion: ptr(version)})
		c.fails("a deletion of an earlier version", err, store.ErrConflict)
		c.eq("state", values(c.getState(id)), []string{"k=two"})
		c.eq("Events", c.inbox(id).Events, int64(2))
	}},
	{"state/compare-and-set-race", "P3", "of concurrent writes to one version, one succeeds: nothing is lost", func(c *C) {
		id := c.create(store.NewRun{})
		c.setState(id, "n", "0")
		const writers, each = 4, 8
		c.race(writers, func(_ int, s store.Store) error {
			for range each {
				for {
					got, err := patient(c.ctx, func() ([]store.StateEntry, error) {
						return s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: id, Keys: []string{"n"}})
					})
					if err != nil {
						return err
					}
					n, _ := strconv.Atoi(string(got[0].Value))
					_, err = patient(c.ctx, func() ([]store.StateEntry, error) {
						return s.SetState(c.ctx, store.SetStateParams{Namespace: c.ns, Run: id, Now: c.now, Writes: []store.StateWrite{
							{Key: "n", Value: fmt.Append(nil, n+1), IfVersion: &got[0].Version},
						}})
					})
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrConflict) {
						return err
					}
				}
			}
			return nil
		})
		c.eq("state", values(c.getState(id)), []string{fmt.Sprint("n=", writers*each)})
		c.eq("Events", c.inbox(id).Events, int64(writers*each+1))
	}},
	{"state/all-or-nothing", "P3", "if the condition of one write does not hold, none is made, and there is no event", func(c *C) {
		id := c.create(store.NewRun{})
		c.setState(id, "k", "old")
		_, err := c.trySetState(id,
			store.StateWrite{Key: "a", Value: []byte("new")}, store.StateWrite{Key: "k", Value: []byte("new"), IfVersion: ptr(int64(99))}, store.StateWrite{Key: "z"},
		)
		c.fails("SetState", err, store.ErrConflict)
		_, err = c.trySetState(id, store.StateWrite{Key: "a", Value: []byte("new")}, store.StateWrite{Key: "z", Value: make([]byte, c.s.Limits().Payload+1)})
		c.fails("SetState of a large value", err, store.ErrTooLarge)
		_, err = c.trySetState(id, store.StateWrite{Key: "a", Value: []byte("new")}, store.StateWrite{Key: "a"})
		c.fails("SetState of a key twice", err, store.ErrInvalid)
		c.eq("state", values(c.getState(id)), []string{"k=old"})
		c.eq("Events", c.inbox(id).Events, int64(1))
	}},
	{"state/wakes-sleeper", "P5", "a state change wakes a run that sleeps until one, and no others", func(c *C) {
		asked, other := c.start(), c.start()
		c.end(asked, sleepOn(store.WakeState))
		c.end(other, sleepOn(store.WakeSignal))
		c.advance(time.Second)
		c.setState(other.Run.ID, "k", "v")
		c.claimNone("it waits for signals alone")
		c.setState(asked.Run.ID, "k", "v")
		run := c.claim1()
		c.eq("the run", run.Run.ID, asked.Run.ID)
		c.eq("state", values(run.Inbox.State), []string{"k=v"})
	}},
	{"state/deletion-wakes-sleeper", "P5", "a deletion is a state change", func(c *C) {
		run := c.start()
		c.setState(run.Run.ID, "k", "v")
		c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: sleepOn(store.WakeState)})
		_, err := c.trySetState(run.Run.ID, store.StateWrite{Key: "k", Delete: true})
		c.ok("SetState", err)
		c.claim1()
	}},
	{"state/versions-never-repeat", "P3", "versions are the run's event count: they increase across all keys, and a key that was created again has a different version", func(c *C) {
		id := c.create(store.NewRun{})
		c.eq("version of a", c.setState(id, "a", "").Version, int64(1))
		c.eq("version of b", c.setState(id, "b", "").Version, int64(2))
		c.signal(id, "n", "")
		c.eq("version of a behind a signal", c.setState(id, "a", "").Version, int64(4))
		entries, err := c.trySetState(id, store.StateWrite{Key: "a", Delete: true})
		c.ok("SetState", err)
		c.eq("version of the deletion", entries[0].Version, int64(5))
		c.eq("version of a made again", c.setState(id, "a", "").Version, int64(6))
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "c"}, {Key: "d"}}})
		got := map[string]int64{}
		for _, e := range c.getState(id) {
			got[e.Key] = e.Version
		}
		c.eq("versions", got, map[string]int64{"a": 6, "b": 2, "c": 7, "d": 8})
		c.eq("Events", c.inbox(id).Events, int64(8))
	}},
	{"state/delete", "P3", "a deleted key is gone; only its Key and Version are returned", func(c *C) {
		id := c.create(store.NewRun{})
		c.setState(id, "k", "v")
		c.setState(id, "l", "w")
		entries, err := c.trySetState(id, store.StateWrite{Key: "k", Delete: true, IfVersion: ptr(int64(1))})
		c.ok("SetState", err)
		c.eq("the entry", entries, []store.StateEntry{{Key: "k", Version: 3}})
		c.eq("state", values(c.getState(id)), []string{"l=w"})
		c.eq("the deleted key", len(c.getState(id, "k")), 0)
		_, err = c.trySetState(id, store.StateWrite{Key: "k", IfVersion: ptr(int64(0))})
		c.ok("making it anew with version 0", err)
	}},
	{"state/by-commit", "P3", "a commit writes and deletes state like SetState does, each write an event", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.setState(id, "gone", "x")
		c.advance(time.Second)
		res := c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "new", Value: []byte("y")}, {Key: "gone", Delete: true}}})
		c.eq("Events of the result", res.Events, int64(3))
		c.eq("state", c.getState(id), []store.StateEntry{{Key: "new", Value: []byte("y"), Version: 2, UpdatedAt: c.now}})
		c.fails("a commit that compares versions", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 2, State: []store.StateWrite{{Key: "new", IfVersion: ptr(int64(2))}}}).Err, store.ErrInvalid)
	}},
	{"state/by-commits-together", "P3", "each of the commits of a call writes its own run's state, whatever the others do and whether there is an event that its holder has not seen", func(c *C) {
		var cms []store.Commit
		var want [][]store.StateEntry
		var events []int64
		add := func(cm store.Commit, seen int64, unseen bool, state ...string) {
			id := cm.Lease.Run
			for range seen {
				c.setState(id, "a", "by others")
			}
			if cm.Seen = seen; unseen {
				c.signal(id, "n", "unseen")
				seen++
			}
			var entries []store.StateEntry
			if cm.Seen > 0 {
				entries = append(entries, store.StateEntry{Key: "a", Value: []byte("by others"), Version: cm.Seen, UpdatedAt: c.now})
			}
			for i := 0; i < len(state); i += 2 {
				key, value, version := state[i], []byte(state[i+1]), seen+int64(i/2)+1
				cm.State = append(cm.State, store.StateWrite{Key: key, Value: value})
				entries = append(slices.DeleteFunc(entries, func(e store.StateEntry) bool { return e.Key == key }), store.StateEntry{Key: key, Value: value, Version: version, UpdatedAt: c.now.Add(time.Second)})
			}
			slices.SortFunc(entries, func(a, b store.StateEntry) int { return strings.Compare(a.Key, b.Key) })
			cms, want, events = append(cms, cm), append(want, entries), append(events, seen+int64(len(cm.State)))
		}
		commit := func(of ...store.StepRecord) store.Commit { return store.Commit{Lease: c.start().Lease, Steps: of} }
		add(commit(step(1, "s", "1")), 0, false, "b", "first", "a", "of the first")
		add(commit(step(1, "s", "2")), 0, false)
		add(commit(step(1, "s", "3")), 2, false, "a", "third", "z", "")
		add(commit(), 1, true, "a", "fourth")
		add(commit(), 0, false, "a", "fifth")
		ended := commit(step(1, "s", "6"))
		ended.Transition = complete("out")
		add(ended, 1, false, "b", "sixth", "c", "also")
		deletes := commit()
		add(deletes, 1, false)
		cms[6].State, want[6], events[6] = []store.StateWrite{{Key: "a", Delete: true}}, nil, 2
		c.advance(time.Second)
		for i, res := range c.commits(cms...) {
			c.ok("the commit", res.Err)
			c.eq("Events", res.Events, events[i])
			id := cms[i].Lease.Run
			got := c.getState(id)
			c.eq("the number of keys", len(got), len(want[i]))
			c.check(len(got) == 0 || reflect.DeepEqual(got, want[i]), "state of run %d: saw %+v, expected %+v", i+1, got, want[i])
			c.eq("the run's Events", c.get(id).Events, events[i])
			c.eq("steps", len(c.steps(id)), len(cms[i].Steps))
		}
		for i, cm := range cms {
			if cm.Transition == nil {
				c.commit(store.Commit{Lease: cm.Lease, Seen: events[i], State: []store.StateWrite{{Key: "last", Value: []byte("x")}}})
				c.eq("the next version", c.getState(cm.Lease.Run, "last")[0].Version, events[i]+1)
			}
		}
		lost, kept := cms[1].Lease, cms[4].Lease
		lost.Epoch++
		state := []store.StateWrite{{Key: "late", Value: []byte("x")}}
		res := c.commits(store.Commit{Lease: lost, Seen: events[1] + 1, State: state}, store.Commit{Lease: kept, Seen: events[4] + 1, State: state})
		c.fails("a commit under a lease that was not granted", res[0].Err, store.ErrLeaseLost)
		c.ok("the commit beside it", res[1].Err)
		c.eq("state of a commit under a lease that was not granted", len(c.getState(lost.Run, "late")), 0)
		c.eq("state of the commit beside it", len(c.getState(kept.Run, "late")), 1)
	}},
	{"state/finished", "P16", "a final run's state is read but not written: ErrFinished", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Transition: complete("")})
		_, err := c.trySetState(run.Run.ID, store.StateWrite{Key: "k", Value: []byte("w")})
		c.fails("SetState", err, store.ErrFinished)
		c.eq("state", values(c.getState(run.Run.ID)), []string{"k=v"})
	}},
	{"state/unknown-run", "P16", "the state of a run that does not exist is ErrNotFound", func(c *C) {
		_, err := c.trySetState(store.NewID(), store.StateWrite{Key: "k"})
		c.fails("SetState", err, store.ErrNotFound)
		_, err = c.s.GetState(c.ctx, store.GetStateParams{Namespace: c.ns, Run: store.NewID()})
		c.fails("GetState", err, store.ErrNotFound)
	}},
}
