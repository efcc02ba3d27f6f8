package storetier

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// aSub is the usual subscription.
const aSub = "sub"

// outbox returns the case's store as one that keeps changes, or skips the case.
func (c *C) outbox() store.Outboxer {
	c.Helper()
	x, ok := c.s.(store.Outboxer)
	if !ok {
		c.Skip("the backend keeps no changes")
	}
	return x
}

// subscribe puts a subscription; without a name, it is the usual one.
func (c *C) subscribe(s store.Subscription) store.Subscription {
	c.Helper()
	if s.Name == "" {
		s.Name = aSub
	}
	got, err := c.outbox().PutSubscription(c.ctx, store.PutSubscriptionParams{Namespace: c.ns, Subscription: s, Now: c.now})
	c.ok("PutSubscription", err)
	return got
}

// subscription reads a subscription that exists.
func (c *C) subscription(name string) store.Subscription {
	c.Helper()
	list, err := c.outbox().ListSubscriptions(c.ctx, store.ListSubscriptionsParams{Namespace: c.ns})
	c.ok("ListSubscriptions", err)
	i := slices.IndexFunc(list, func(s store.Subscription) bool { return s.Name == name })
	if i < 0 {
		c.Fatalf("ListSubscriptions: saw %s, expected %q among them", show(list), name)
	}
	return list[i]
}

// dueIn reads the changes of a subscription that are due.
func (c *C) dueIn(name string, limit int) store.ChangePage {
	c.Helper()
	page, err := c.outbox().Changes(c.ctx, store.ChangesParams{Namespace: c.ns, Subscription: name, Limit: limit, Now: c.now})
	c.ok("Changes", err)
	return page
}

func (c *C) settle(p store.SettleParams) {
	c.Helper()
	p.Namespace, p.Now = c.ns, c.now
	if p.Subscription == "" {
		p.Subscription = aSub
	}
	c.ok("Settle", c.outbox().Settle(c.ctx, p))
}

// delivered settles changes as delivered.
func (c *C) delivered(changes ...store.Change) {
	c.Helper()
	var keys []store.ChangeKey
	for _, ch := range changes {
		keys = append(keys, ch.ChangeKey)
	}
	c.settle(store.SettleParams{Delivered: keys})
}

// undelivered settles an attempt as failed.
func (c *C) undelivered(ch store.Change, after time.Duration) {
	c.Helper()
	c.settle(store.SettleParams{Failed: []store.FailedDelivery{{ChangeKey: ch.ChangeKey, Attempt: ch.Attempts + 1, After: after}}, Error: "refused"})
}

// takeIn delivers all that a subscription has, now and after failed deliveries, and returns it in the order of delivery.
func (c *C) takeIn(name string) (all []store.Change) {
	c.Helper()
	now := c.now
	defer func() { c.now = now }()
	for range 10_000 {
		page := c.dueIn(name, 0)
		if len(page.Changes) == 0 && page.NextAt.IsZero() {
			return all
		}
		if len(page.Changes) == 0 {
			c.now = page.NextAt
			continue
		}
		var keys []store.ChangeKey
		for _, ch := range page.Changes {
			keys = append(keys, ch.ChangeKey)
		}
		all = append(all, page.Changes...)
		c.settle(store.SettleParams{Subscription: name, Delivered: keys})
	}
	c.Fatalf("Changes: saw no end of them")
	return nil
}

// kindsOf are the kinds of a run's changes in their order.
func kindsOf(run store.ID, changes []store.Change) string {
	var kinds []string
	for _, ch := range changes {
		if ch.Run == run {
			kinds = append(kinds, ch.Kind.String())
		}
	}
	return strings.Join(kinds, " ")
}

// toldOf checks which changes of runs wait, and delivers them.
func (c *C) toldOf(what string, want map[store.ID]string) {
	c.Helper()
	all := c.takeIn(aSub)
	got := map[store.ID]string{}
	for _, ch := range all {
		got[ch.Run] = kindsOf(ch.Run, all)
	}
	c.eq("changes of "+what, got, want)
}

// story is a life of a run, and the changes that it has.
type story struct {
	what string
	live func(c *C) store.ID
	want string
}

// lives have every kind of change, and what is none.
var lives = []story{
	{"a run that waits", func(c *C) store.ID { return c.create(store.NewRun{}) }, "created"},
	{"an eager run", func(c *C) store.ID { return c.create(store.NewRun{Worker: aWorker, LeaseFor: aLease}) }, "created"},
	{"a run that completes", func(c *C) store.ID {
		run := c.start()
		c.end(run, complete("x"))
		return run.Run.ID
	}, "created completed"},
	{"a run that fails after a step", func(c *C) store.ID { return c.recorded(failWith("x")).Run.ID }, "created failed"},
	{"a run that cancels itself", func(c *C) store.ID {
		run := c.start()
		c.end(run, cancelRun())
		return run.Run.ID
	}, "created canceled"},
	{"a run that is canceled before it begins", func(c *C) store.ID {
		id := c.create(store.NewRun{})
		c.cancel(id)
		c.cancel(id)
		return id
	}, "created canceled"},
	{"a leased run that is canceled", func(c *C) store.ID {
		run := c.start()
		c.cancel(run.Run.ID)
		c.cancel(run.Run.ID)
		c.end(run, cancelRun())
		return run.Run.ID
	}, "created canceling canceled"},
	{"a sleeper that is canceled, is claimed again and again, and completes", func(c *C) store.ID {
		id := c.recorded(sleepFor(time.Hour)).Run.ID
		c.cancel(id)
		c.end(c.claim1(), release())
		c.claim1()
		c.advance(2 * aLease)
		c.end(c.claim1(), complete("x"))
		return id
	}, "created canceling completed"},
	{"a leased run that is canceled by force", func(c *C) store.ID {
		id := c.start().Run.ID
		c.force(id)
		return id
	}, "created canceled"},
	{"a canceling run that is canceled by force", func(c *C) store.ID {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.cancel(run.Run.ID)
		c.force(run.Run.ID)
		return run.Run.ID
	}, "created canceling canceled"},
	{"a run that is paused twice and resumed twice", func(c *C) store.ID {
		id := c.create(store.NewRun{})
		c.pause(id)
		c.pause(id)
		c.resume(id)
		c.resume(id)
		return id
	}, "created paused resumed"},
	{"a sleeper that is paused and resumed", func(c *C) store.ID {
		run := c.start()
		c.end(run, sleepFor(time.Hour))
		c.pause(run.Run.ID)
		c.resume(run.Run.ID)
		return run.Run.ID
	}, "created paused resumed"},
	{"a leased run that is paused when it sleeps", func(c *C) store.ID {
		run := c.start()
		c.pause(run.Run.ID)
		c.end(run, sleepFor(time.Hour))
		return run.Run.ID
	}, "created paused"},
	{"a leased run that is to pause and is resumed", func(c *C) store.ID {
		run := c.start()
		c.pause(run.Run.ID)
		c.resume(run.Run.ID)
		c.end(run, sleepFor(time.Hour))
		return run.Run.ID
	}, "created"},
	{"a paused run that is canceled", func(c *C) store.ID {
		id := c.create(store.NewRun{})
		c.pause(id)
		c.cancel(id)
		return id
	}, "created paused canceled"},
	{"a paused run with steps that is canceled", func(c *C) store.ID {
		id := c.recorded(sleepFor(time.Hour)).Run.ID
		c.pause(id)
		c.cancel(id)
		return id
	}, "created paused canceling"},
	{"a failed run that is restarted and completes", func(c *C) store.ID {
		run := c.start()
		c.end(run, failWith("x"))
		c.tryRestart(run.Run.ID)
		c.tryRestart(run.Run.ID)
		c.end(c.claim1(), complete("x"))
		return run.Run.ID
	}, "created failed restarted completed"},
	{"a canceled run that is restarted", func(c *C) store.ID {
		id := c.create(store.NewRun{})
		c.cancel(id)
		c.tryRestart(id)
		return id
	}, "created canceled restarted"},
	{"a run that sleeps, retries, is released, crashes, continues as new, and gets signals and state", func(c *C) store.ID {
		run := c.start()
		id := run.Run.ID
		c.signal(id, "n", "")
		c.setState(id, "k", "v")
		c.end(run, sleepFor(0))
		for _, t := range []*store.Transition{retryIn(0), release(), continueWith("x")} {
			run = c.claim1()
			c.extend(run.Lease)
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
			c.end(run, t)
		}
		c.claim1()
		c.advance(2 * aLease)
		c.end(c.claim1(), sleepFor(time.Hour))
		return id
	}, "created"},
}

var outboxCases = []Case{
	{"outbox/kinds", "P31", "each change of a run's status is stored once, with its kind, in the order in which they happened, and nothing else is", func(c *C) {
		ns := c.ns
		for i, l := range lives {
			c.ns = fmt.Sprintf("%s/%d", ns, i)
			c.subscribe(store.Subscription{})
			id := l.live(c)
			c.toldOf(l.what, map[store.ID]string{id: l.want})
		}
	}},
	{"outbox/fields", "P31", "a change has the names of its run, its time, a number and an ID of its own", func(c *C) {
		before := c.now
		c.subscribe(store.Subscription{})
		c.advance(time.Second)
		made := c.now
		run := c.startWith(store.NewRun{ExternalID: "order-\"é\"", Suffix: "/s", Priority: 3, Input: []byte("in")})
		c.advance(time.Minute)
		c.end(run, complete("out"))
		c.advance(time.Second)
		page := c.dueIn(aSub, 0)
		c.eq("the time of the answer", page.Now, c.now)
		c.eq("whether there are more, and when", []any{page.More, page.NextAt}, []any{false, time.Time{}})
		first := c.onlyChange(page)
		c.delivered(first)
		second := c.onlyChange(c.dueIn(aSub, 0))
		c.check(first.Seq > 0 && second.Seq > first.Seq, "numbers: saw %d and %d, expected them to grow from above 0", first.Seq, second.Seq)
		c.check(!first.ID.IsZero() && first.ID != second.ID, "IDs: saw %v and %v, expected two", first.ID, second.ID)
		want := store.Change{ChangeKey: first.ChangeKey, Kind: store.RunCreated, Run: run.Run.ID, Workflow: aWorkflow, Queue: aQueue, ExternalID: "order-\"é\"", Suffix: "/s", At: made}
		c.eq("the first change", first, want)
		want.ChangeKey, want.Kind, want.At = second.ChangeKey, store.RunCompleted, made.Add(time.Minute)
		c.eq("the second change", second, want)
		c.check(before.Before(made), "the case's clock stands still")
	}},
	{"outbox/clock", "P31", "the time of a change that sets no time of the run is that of the clock", func(c *C) {
		c.now = time.Time{}
		c.subscribe(store.Subscription{})
		id := c.create(store.NewRun{})
		begun, err := c.s.Clock(c.ctx)
		c.ok("Clock", err)
		c.pause(id)
		ended, err := c.s.Clock(c.ctx)
		c.ok("Clock", err)
		c.delivered(c.onlyChange(c.dueIn(aSub, 0)))
		ch := c.onlyChange(c.dueIn(aSub, 0))
		c.eq("its kind", ch.Kind, store.RunPaused)
		if !c.h.Bubble { // in which a database may see the time outside
			c.check(!ch.At.Before(begun.Add(-2*time.Second)) && !ch.At.After(ended.Add(2*time.Second)), "At: saw %s, expected it between %s and %s", show(ch.At), show(begun), show(ended))
		}
	}},
	{"outbox/creations", "P31", "each way to create a run is a change, once, and a call that creates none is not", func(c *C) {
		c.subscribe(store.Subscription{})
		want := map[store.ID]string{}
		run := c.start()
		want[run.Run.ID] = "created"
		k := kid(1)
		c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{k}})
		want[k.ID] = "created"
		fork := store.NewID()
		c.fork(store.ForkParams{ID: run.Run.ID, New: fork})
		c.fork(store.ForkParams{ID: run.Run.ID, New: fork})
		want[fork] = "created"
		c.putSchedule(c.schedule("s"))
		fired := fill(store.NewRun{})
		fire := store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &fired}
		c.mustFire(fire)
		_, err := c.fire(fire)
		c.ok("Fire again", err)
		want[fired.ID] = "created"
		keyed := debounced("key", "first")
		c.makes(keyed)
		c.replaces(keyed.ID, debounced("key", "second"))
		want[keyed.ID] = "created"
		named := signaled("a")
		named.ExternalID = "order"
		found := signaled("b")
		found.ExternalID = "order"
		c.creates(named)
		c.creates(found)
		c.creates(named)
		want[named.ID] = "created"
		c.toldOf("runs that were created", want)
	}},
	{"outbox/refused", "P31", "an item that is refused, or has nothing to do, is no change", func(c *C) {
		c.subscribe(store.Subscription{})
		run := c.start()
		c.end(run, complete("x"))
		late := run.Lease
		other := c.start()
		c.advance(2 * aLease)
		c.claim1As("other")
		c.takeIn(aSub)
		c.lost("a commit after the end", store.Commit{Lease: late, Seq: 9, Transition: failWith("late")})
		c.lost("a commit of a lost lease", store.Commit{Lease: other.Lease, Transition: failWith("late")})
		c.tryCancel(run.Run.ID, store.NewID())
		c.tryPause(false, run.Run.ID, store.NewID())
		c.tryPause(true, run.Run.ID, other.Run.ID)
		c.tryRestart(run.Run.ID, other.Run.ID)
		c.eq("changes", c.takeIn(aSub), []store.Change(nil))
	}},
	{"outbox/cascades", "P31", "what ends a run's children is a change of each of them", func(c *C) {
		c.subscribe(store.Subscription{})
		for _, how := range []string{"cancel", "force", "end"} {
			run := c.start()
			children := []store.NewRun{kid(1), kid(2), kid(3), kid(4)}
			children[3].OnClose = store.CloseAbandon
			c.commit(store.Commit{Lease: run.Lease, Spawn: children})
			begun := c.one(c.claimKids(1)) // one is to clean up
			grandchild := kid(1)
			c.commit(store.Commit{Lease: begun.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: []store.NewRun{grandchild}, Transition: sleepFor(time.Hour)})
			want := map[store.ID]string{run.Run.ID: "created canceled", grandchild.ID: "created canceled"}
			for _, k := range children {
				want[k.ID] = "created canceled"
			}
			want[begun.Run.ID], want[children[3].ID] = "created canceling", "created"
			if begun.Run.ID == children[3].ID {
				c.Fatalf("Claim: saw the last child, expected the first")
			}
			switch how {
			case "cancel":
				c.cancel(run.Run.ID)
				want[run.Run.ID] = "created canceling"
			case "force":
				c.force2(run.Run.ID)
			case "end":
				c.end(run, failWith("x"))
				want[run.Run.ID] = "created failed"
			}
			c.toldOf("a tree, by "+how, want)
			c.tryCancel(children[3].ID)
			c.takeIn(aSub)
			for _, r := range c.claimKids(10) {
				c.end(r, cancelRun())
			}
			c.takeIn(aSub)
			c.ns += "/" + how
			c.subscribe(store.Subscription{})
		}
	}},
	{"outbox/selected", "P31", "a subscription stores the changes of its workflows and kinds, and each subscription has its own", func(c *C) {
		c.subscribe(store.Subscription{})
		c.subscribe(store.Subscription{Name: "ends", Kinds: []store.ChangeKind{store.RunFailed, store.RunCompleted, store.RunFailed}})
		c.subscribe(store.Subscription{Name: "mails", Workflows: []string{"mail", "Mail é"}})
		c.subscribe(store.Subscription{Name: "both", Workflows: []string{"mail"}, Kinds: []store.ChangeKind{store.RunCanceled}})
		usual := c.start()
		c.end(usual, complete("x"))
		mail, odd, upper := c.create(store.NewRun{Workflow: "mail"}), c.create(store.NewRun{Workflow: "Mail é"}), c.create(store.NewRun{Workflow: "MAIL"})
		c.tryCancel(mail, odd, upper)
		for name, want := range map[string][4]string{
			aSub: {"created completed", "created canceled", "created canceled", "created canceled"}, "ends": {"completed", "", "", ""},
			"mails": {"", "created canceled", "created canceled", ""}, "both": {"", "canceled", "", ""},
		} {
			all := c.takeIn(name)
			got := [4]string{kindsOf(usual.Run.ID, all), kindsOf(mail, all), kindsOf(odd, all), kindsOf(upper, all)}
			c.eq("changes in "+name, got, want)
		}
	}},
	{"outbox/in-order", "P31", "the next change of a run is not returned before the one before it was delivered, whatever other runs do", func(c *C) {
		c.subscribe(store.Subscription{})
		a, b := c.create(store.NewRun{}), c.create(store.NewRun{})
		c.pause(a)
		c.cancel(b)
		c.resume(a)
		first := c.dueIn(aSub, 0).Changes
		c.eq("the first changes", []string{kindsOf(a, first), kindsOf(b, first)}, []string{"created", "created"})
		c.eq("the same again", c.dueIn(aSub, 0).Changes, first)
		for i, want := range [][]string{{"paused", "created"}, {"resumed", "created"}, {"", "created"}} {
			all := c.dueIn(aSub, 0).Changes
			for _, ch := range all {
				if ch.Run == a {
					c.delivered(ch)
				}
			}
			all = c.dueIn(aSub, 0).Changes
			c.eq(fmt.Sprintf("after %d deliveries", i+1), []string{kindsOf(a, all), kindsOf(b, all)}, want)
		}
	}},
	{"outbox/oldest-first", "P31", "changes are returned oldest first, as many as asked for, and the answer says if there are more", func(c *C) {
		c.subscribe(store.Subscription{})
		var ids []store.ID
		for range 7 {
			ids = append(ids, c.create(store.NewRun{}))
		}
		slices.Reverse(ids)
		c.tryCancel(ids...)
		slices.Reverse(ids)
		page := c.dueIn(aSub, 5)
		c.eq("runs", runsOf(page.Changes), ids[:5])
		c.eq("More", page.More, true)
		c.delivered(page.Changes[0], page.Changes[2])
		page = c.dueIn(aSub, 5)
		c.eq("runs after two deliveries", runsOf(page.Changes), []store.ID{ids[1], ids[3], ids[4], ids[5], ids[6]})
		c.eq("More after two deliveries", page.More, true)
		page = c.dueIn(aSub, 7)
		c.eq("all runs", len(runsOf(page.Changes)), 7)
		c.eq("More of all", page.More, false)
	}},
	{"outbox/retry", "P13", "a change whose delivery failed is returned again after its delay and not before, and what waits behind it with it", func(c *C) {
		c.subscribe(store.Subscription{})
		bad, good := c.create(store.NewRun{}), c.create(store.NewRun{})
		c.pause(bad)
		c.undelivered(c.changeOf(bad), time.Minute)
		c.resume(bad)
		c.cancel(good)
		page := c.dueIn(aSub, 0)
		c.eq("what is due beside it", runsOf(page.Changes), []store.ID{good})
		c.eq("NextAt", page.NextAt, c.now.Add(time.Minute))
		c.delivered(page.Changes...)
		c.advance(time.Minute - time.Microsecond)
		page = c.dueIn(aSub, 0)
		c.eq("what is due just before", kindsOf(bad, page.Changes)+kindsOf(good, page.Changes), "canceled")
		c.advance(time.Microsecond)
		ch := c.changeOf(bad)
		c.eq("the change and its attempts", []any{ch.Kind, ch.Attempts}, []any{store.RunCreated, 1})
		c.undelivered(ch, time.Hour)
		c.advance(time.Hour)
		ch = c.changeOf(bad)
		c.eq("attempts after a second one", ch.Attempts, 2)
		c.delivered(ch)
		for _, want := range []store.ChangeKind{store.RunPaused, store.RunResumed} {
			ch = c.changeOf(bad)
			c.eq("what waited behind it, and its attempts", []any{ch.Kind, ch.Attempts}, []any{want, 0})
			c.delivered(ch)
		}
		c.eq("NextAt at the end", c.dueIn(aSub, 0).NextAt, time.Time{})
	}},
	{"outbox/next-at", "P13", "NextAt is when the first of the changes that are not due is due", func(c *C) {
		c.subscribe(store.Subscription{})
		for i := range 3 {
			c.create(store.NewRun{})
			c.undelivered(c.onlyChange(c.dueIn(aSub, 0)), time.Duration(3-i)*time.Hour)
		}
		c.eq("NextAt", c.dueIn(aSub, 0).NextAt, c.now.Add(time.Hour))
	}},
	{"outbox/settled-again", "P4", "changes that are settled again, or do not wait, change nothing", func(c *C) {
		c.subscribe(store.Subscription{})
		a, b := c.create(store.NewRun{}), c.create(store.NewRun{})
		c.cancel(a)
		first, second := c.changeOf(a), c.changeOf(b)
		c.delivered(first)
		c.delivered(first)
		c.eq("the next change", c.changeOf(a).Kind, store.RunCanceled)
		c.undelivered(second, time.Minute)
		at := c.dueIn(aSub, 0).NextAt
		c.advance(time.Second)
		c.undelivered(second, time.Minute)
		c.eq("NextAt after the same attempt again", c.dueIn(aSub, 0).NextAt, at)
		c.advance(time.Hour)
		c.eq("attempts", c.changeOf(b).Attempts, 1)
		other := c.changeOf(a)
		other.ID = store.NewID()
		c.delivered(other)
		c.undelivered(other, time.Hour)
		other = c.changeOf(a)
		other.Seq += 1000
		c.delivered(other)
		c.eq("after others were settled", c.changeOf(a).Attempts, 0)
		c.settle(store.SettleParams{Subscription: "none", Delivered: []store.ChangeKey{c.changeOf(a).ChangeKey}})
		c.eq("after it was settled in another subscription", c.changeOf(a).Kind, store.RunCanceled)
		c.settle(store.SettleParams{})
	}},
	{"outbox/standing", "P31", "a subscription says what waits in it, since when, and when a delivery last succeeded or failed, and why", func(c *C) {
		put := c.now
		rule := store.Subscription{Name: "b", Workflows: []string{"x", aWorkflow, "x"}, Kinds: []store.ChangeKind{store.RunCanceled, store.RunCreated, store.RunCanceled}, Keep: time.Hour}
		got := c.subscribe(rule)
		want := store.Subscription{Name: "b", Workflows: []string{aWorkflow, "x"}, Kinds: []store.ChangeKind{store.RunCreated, store.RunCanceled}, Keep: time.Hour, UpdatedAt: put, CreatedAt: put}
		if aWorkflow > "x" {
			slices.Reverse(want.Workflows)
		}
		c.eq("what is put", got, want)
		plain := c.subscribe(store.Subscription{Name: "a"})
		c.eq("one without a rule", plain, store.Subscription{Name: "a", Keep: store.DefaultKeepChanges, UpdatedAt: put, CreatedAt: put})
		c.advance(time.Minute)
		a, _ := c.create(store.NewRun{}), c.create(store.NewRun{})
		made := c.now
		c.advance(time.Minute)
		c.cancel(a)
		page := c.dueIn("b", 0)
		c.settle(store.SettleParams{Subscription: "b", Failed: []store.FailedDelivery{{ChangeKey: page.Changes[0].ChangeKey, Attempt: 1, After: time.Hour}}, Error: "it says \"no\" é"})
		failed := c.now
		c.advance(time.Minute)
		c.settle(store.SettleParams{Subscription: "b", Delivered: []store.ChangeKey{page.Changes[1].ChangeKey}})
		want.FailedAt, want.Error, want.DeliveredAt = failed, "it says \"no\" é", c.now
		want.Waiting, want.OldestAt, want.Attempts = 2, made, 1
		c.eq("its standing", c.subscription("b"), want)
		plain.Waiting, plain.OldestAt = 3, made
		c.eq("that of the other", c.subscription("a"), plain)
		c.advance(time.Minute)
		rule.Workflows, rule.Kinds, rule.Keep = nil, nil, 0
		want.Workflows, want.Kinds, want.Keep, want.UpdatedAt = nil, nil, store.DefaultKeepChanges, c.now
		c.eq("after another put", c.subscribe(rule), want)
		list, err := c.outbox().ListSubscriptions(c.ctx, store.ListSubscriptionsParams{Namespace: c.ns})
		c.ok("ListSubscriptions", err)
		c.eq("all", list, []store.Subscription{plain, want})
	}},
	{"outbox/replaced", "P31", "the changes that wait stay when the rule is replaced, and later ones are selected by the new rule", func(c *C) {
		c.subscribe(store.Subscription{})
		a := c.create(store.NewRun{})
		c.subscribe(store.Subscription{Kinds: []store.ChangeKind{store.RunCanceled}})
		b := c.create(store.NewRun{})
		c.tryCancel(a, b)
		c.toldOf("two runs", map[store.ID]string{a: "created canceled", b: "canceled"})
	}},
	{"outbox/deleted", "P31", "a deleted subscription has no changes any more, and one that is put under its name begins without", func(c *C) {
		x := c.outbox()
		p := store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub}
		c.subscribe(store.Subscription{})
		c.subscribe(store.Subscription{Name: "other"})
		a := c.create(store.NewRun{})
		more, err := x.DeleteSubscription(c.ctx, p)
		c.ok("DeleteSubscription", err)
		c.eq("more", more, false)
		c.cancel(a)
		_, err = x.Changes(c.ctx, store.ChangesParams{Namespace: c.ns, Subscription: aSub, Now: c.now})
		c.fails("Changes of a deleted subscription", err, store.ErrNotFound)
		more, err = x.DeleteSubscription(c.ctx, p)
		c.fails("the same call again", err, store.ErrNotFound)
		c.eq("more beside an error", more, false)
		c.subscribe(store.Subscription{})
		b := c.create(store.NewRun{})
		c.toldOf("the new subscription", map[store.ID]string{b: "created"})
		all := c.takeIn("other")
		c.eq("changes in the other subscription", []string{kindsOf(a, all), kindsOf(b, all)}, []string{"created canceled", "created"})
	}},
	{"outbox/dropped", "P13", "a change is kept for as long as its subscription says, and then dropped and counted", func(c *C) {
		x := c.outbox()
		drop := func(limit int) []store.DroppedChanges {
			c.Helper()
			got, err := x.DropChanges(c.ctx, store.DropChangesParams{Namespace: c.ns, Limit: limit, Now: c.now})
			c.ok("DropChanges", err)
			slices.SortFunc(got, func(a, b store.DroppedChanges) int { return strings.Compare(a.Subscription, b.Subscription) })
			return got
		}
		c.subscribe(store.Subscription{Keep: time.Hour})
		c.subscribe(store.Subscription{Name: "long"})
		old := c.createN(5, store.NewRun{})
		c.undelivered(c.changeOf(old[0]), 100*time.Hour)
		c.advance(time.Minute)
		young := c.create(store.NewRun{})
		c.advance(time.Hour - time.Minute - time.Microsecond)
		c.eq("dropped too early", drop(0), []store.DroppedChanges(nil))
		c.advance(time.Microsecond)
		c.eq("dropped, some", drop(2), []store.DroppedChanges{{Subscription: aSub, Changes: 2}})
		c.eq("dropped, the others", drop(0), []store.DroppedChanges{{Subscription: aSub, Changes: 3}})
		c.eq("dropped again", drop(0), []store.DroppedChanges(nil))
		c.eq("counted", []int64{c.subscription(aSub).Dropped, c.subscription("long").Dropped}, []int64{5, 0})
		c.toldOf("what is left", map[store.ID]string{young: "created"})
		c.eq("waiting in the other subscription", c.subscription("long").Waiting, int64(6))
		c.advance(store.DefaultKeepChanges)
		c.eq("dropped by the usual age", drop(0), []store.DroppedChanges{{Subscription: "long", Changes: 6}})
	}},
	{"outbox/purged", "P31", "the changes of a run that is purged stay", func(c *C) {
		c.subscribe(store.Subscription{})
		run := c.startWith(store.NewRun{ExternalID: "order"})
		c.end(run, complete("x"))
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		c.toldOf("a purged run", map[store.ID]string{run.Run.ID: "created completed"})
	}},
	{"outbox/start-with-signal-repeated", "P31", "a start with a signal that is sent again after the run's end creates no run, and is no change", func(c *C) {
		c.subscribe(store.Subscription{})
		c.subscribe(store.Subscription{Name: "other"})
		r := signaled("go")
		c.creates(r)
		c.end(c.claim1(), complete("x"))
		again := r
		again.ID = store.NewID()
		c.eq("the repeat's run", c.creates(again)[0].ID, r.ID)
		c.toldOf("a start that was repeated", map[store.ID]string{r.ID: "created completed"})
	}},
	{"outbox/imported", "P31", "an import is no change; what happens to the run afterwards is", func(c *C) {
		c.importer(c.s)
		c.subscribe(store.Subscription{})
		done, paused := c.aRecord(store.Completed), c.aRecord(store.Sleeping)
		done.Run.ExternalID, done.Run.Suffix = "", ""
		c.imports(done)
		c.imports(paused)
		c.resume(paused.Run.ID)
		c.toldOf("imported runs", map[store.ID]string{paused.Run.ID: "resumed"})
	}},
	{"outbox/namespaces", "P15", "a subscription stores changes of its namespace, and only calls about that namespace reach it", func(c *C) {
		x, ns := c.outbox(), c.ns
		c.subscribe(store.Subscription{})
		id := c.create(store.NewRun{})
		ch := c.changeOf(id)
		c.ns = ns + "/other"
		list, err := x.ListSubscriptions(c.ctx, store.ListSubscriptionsParams{Namespace: c.ns})
		c.ok("ListSubscriptions", err)
		c.eq("subscriptions elsewhere", len(list), 0)
		_, err = x.Changes(c.ctx, store.ChangesParams{Namespace: c.ns, Subscription: aSub, Now: c.now})
		c.fails("Changes elsewhere", err, store.ErrNotFound)
		_, err = x.DeleteSubscription(c.ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub})
		c.fails("DeleteSubscription elsewhere", err, store.ErrNotFound)
		c.subscribe(store.Subscription{Keep: time.Microsecond})
		other := c.create(store.NewRun{})
		c.delivered(ch)
		c.undelivered(ch, time.Hour)
		_, err = x.DropChanges(c.ctx, store.DropChangesParams{Namespace: ns + "/third", Now: c.now.Add(10000 * time.Hour)})
		c.ok("DropChanges", err)
		c.toldOf("the other namespace", map[store.ID]string{other: "created"})
		c.create(store.NewRun{})
		c.advance(time.Microsecond)
		dropped, err := x.DropChanges(c.ctx, store.DropChangesParams{Namespace: c.ns, Now: c.now})
		c.ok("DropChanges", err)
		c.eq("dropped elsewhere", dropped, []store.DroppedChanges{{Subscription: aSub, Changes: 1}})
		_, err = x.DeleteSubscription(c.ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub})
		c.ok("DeleteSubscription", err)
		c.ns = ns
		c.eq("Dropped of the namespace", c.subscription(aSub).Dropped, int64(0))
		c.toldOf("the namespace", map[store.ID]string{id: "created"})
	}},
	{"outbox/invalid", "P16", "invalid parameters are ErrInvalid or ErrTooLarge, and change nothing", func(c *C) {
		x := c.outbox()
		put := func(s store.Subscription) error {
			_, err := x.PutSubscription(c.ctx, store.PutSubscriptionParams{Namespace: c.ns, Subscription: s, Now: c.now})
			return err
		}
		c.fails("no name", put(store.Subscription{}), store.ErrInvalid)
		c.fails("a long name", put(store.Subscription{Name: strings.Repeat("x", store.MaxName+1)}), store.ErrInvalid)
		c.fails("an unknown kind", put(store.Subscription{Name: "s", Kinds: []store.ChangeKind{99}}), store.ErrInvalid)
		c.fails("an empty workflow", put(store.Subscription{Name: "s", Workflows: []string{""}}), store.ErrInvalid)
		c.fails("many workflows", put(store.Subscription{Name: "s", Workflows: slices.Repeat([]string{"w"}, store.MaxSelected+1)}), store.ErrInvalid)
		c.fails("a negative age", put(store.Subscription{Name: "s", Keep: -1}), store.ErrInvalid)
		for i := range store.MaxSubscriptions {
			c.ok("PutSubscription", put(store.Subscription{Name: fmt.Sprint(i), Workflows: slices.Repeat([]string{strings.Repeat("w", store.MaxName)}, store.MaxSelected)}))
		}
		c.fails("one too many", put(store.Subscription{Name: "more"}), store.ErrInvalid)
		c.ok("PutSubscription of an existing one", put(store.Subscription{Name: "7"}))
		settle := func(p store.SettleParams) error {
			p.Namespace, p.Subscription, p.Now = c.ns, "7", c.now
			return x.Settle(c.ctx, p)
		}
		c.fails("no attempt", settle(store.SettleParams{Failed: []store.FailedDelivery{{}}}), store.ErrInvalid)
		c.fails("a negative delay", settle(store.SettleParams{Failed: []store.FailedDelivery{{Attempt: 1, After: -1}}}), store.ErrInvalid)
		c.fails("a long error", settle(store.SettleParams{Error: strings.Repeat("x", store.MaxDeliveryError+1)}), store.ErrTooLarge)
		c.fails("many changes", settle(store.SettleParams{Delivered: make([]store.ChangeKey, store.MaxBatch+1)}), store.ErrInvalid)
		_, err := x.Changes(c.ctx, store.ChangesParams{Namespace: c.ns, Subscription: "7", Limit: store.MaxPage + 1})
		c.fails("a large page", err, store.ErrInvalid)
		_, err = x.DropChanges(c.ctx, store.DropChangesParams{Namespace: c.ns, Limit: -1})
		c.fails("a negative limit", err, store.ErrInvalid)
		list, err := x.ListSubscriptions(c.ctx, store.ListSubscriptionsParams{Namespace: c.ns})
		c.ok("ListSubscriptions", err)
		c.eq("subscriptions", len(list), store.MaxSubscriptions)
	}},
	{"outbox/at-once", "P31", "while changes are delivered, others are stored: none is lost, repeated or out of order", func(c *C) {
		c.subscribe(store.Subscription{})
		const runs, turns = 4, 6
		ids := c.createN(runs, store.NewRun{})
		done := make(chan struct{})
		got := map[store.ID][]string{}
		var last sync.WaitGroup
		last.Go(func() {
			for over, left := false, 10_000; left > 0; {
				page, err := patient(c.ctx, func() (store.ChangePage, error) {
					return c.s2.(store.Outboxer).Changes(c.ctx, store.ChangesParams{Namespace: c.ns, Subscription: aSub, Limit: 3, Now: c.now})
				})
				if err != nil {
					c.Errorf("Changes: saw %s, expected no error", show(err))
					return
				}
				if len(page.Changes) == 0 && over {
					return
				}
				if over {
					left-- // of a store that returns changes for ever
				}
				select {
				case <-done:
					over = true
				default:
					runtime.Gosched()
				}
				p := store.SettleParams{Namespace: c.ns, Subscription: aSub, Now: c.now}
				for i, ch := range page.Changes {
					if i == 0 && ch.Attempts == 0 {
						p.Failed = append(p.Failed, store.FailedDelivery{ChangeKey: ch.ChangeKey, Attempt: 1})
						continue
					}
					got[ch.Run] = append(got[ch.Run], ch.Kind.String())
					p.Delivered = append(p.Delivered, ch.ChangeKey)
				}
				if _, err := patient(c.ctx, func() (bool, error) { return true, c.s2.(store.Outboxer).Settle(c.ctx, p) }); err != nil {
					c.Errorf("Settle: saw %s, expected no error", show(err))
					return
				}
			}
		})
		c.race(runs, func(i int, s store.Store) error {
			for n := range 2 * turns {
				_, err := patient(c.ctx, func() ([]store.ControlResult, error) {
					return s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids[i : i+1], Resume: n%2 == 1, Now: c.now})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		close(done)
		last.Wait()
		for i, id := range ids {
			want := append([]string{"created"}, slices.Repeat([]string{"paused", "resumed"}, turns)...)
			c.eq(fmt.Sprintf("changes of run %d", i), strings.Join(got[id], " "), strings.Join(want, " "))
		}
	}},
	{"outbox/tried-first", "P31", "what became due first is returned first, whether it was tried before or not", func(c *C) {
		c.subscribe(store.Subscription{})
		ids := c.createN(3, store.NewRun{})
		for i, id := range ids {
			c.undelivered(c.changeOf(id), time.Duration(3-i)*time.Minute)
		}
		c.advance(time.Hour)
		c.eq("runs", runsOf(c.dueIn(aSub, 0).Changes), []store.ID{ids[2], ids[1], ids[0]})
	}},
	{"durable/outbox", "", "subscriptions, changes and attempts are unchanged after a restart", func(c *C) {
		c.ownStore()
		c.outbox()
		c.did("PutSubscription", func() {
			c.subscribe(store.Subscription{Kinds: []store.ChangeKind{store.RunCreated, store.RunCanceled}, Keep: time.Hour})
		})
		var id store.ID
		c.did("Create", func() { id = c.create(store.NewRun{}) })
		c.did("Cancel", func() { c.cancel(id) })
		c.did("a failed delivery", func() { c.undelivered(c.changeOf(id), time.Minute) })
		c.advance(time.Minute)
		c.did("a delivery", func() { c.delivered(c.changeOf(id)) })
		c.did("DeleteSubscription", func() {
			_, err := c.outbox().DeleteSubscription(c.ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub})
			c.ok("DeleteSubscription", err)
		})
	}},
	{"sizes/outbox", "P31", "a subscription takes thousands of changes, counts them up to its limit, and is deleted in parts", func(c *C) {
		x := c.outbox()
		c.subscribe(store.Subscription{})
		const runs = 4*1000 + 1
		ids := c.createN(runs, store.NewRun{})
		for range 2 {
			for _, part := range batches(ids) {
				c.tryCancel(part...)
			}
			for _, part := range batches(ids) {
				c.tryRestart(part...)
			}
		}
		c.eq("Waiting", c.subscription(aSub).Waiting, int64(store.MaxWaitingChanges))
		page := c.dueIn(aSub, store.MaxPage)
		c.eq("a page", []any{len(page.Changes), page.More}, []any{store.MaxPage, true})
		c.delivered(page.Changes...)
		deleted := 0
		for more := true; more && deleted < 10; deleted++ {
			var err error
			more, err = x.DeleteSubscription(c.ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub})
			c.ok("DeleteSubscription", err)
		}
		c.eq("calls", deleted, (5*runs-store.MaxPage+store.MaxBatch-1)/store.MaxBatch)
	}},
	{"sizes/unsubscribed-in-parts", "P30", "of the calls that delete a subscription and its changes, the first one is recorded", func(c *C) {
		j := c.journal()
		c.subscribe(store.Subscription{})
		c.createN(store.MaxBatch+1, store.NewRun{})
		for _, more := range []bool{true, false} {
			got, err := c.outbox().DeleteSubscription(c.ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub, Now: c.now, Record: []store.Action{anAction(store.ID{})}})
			c.ok("DeleteSubscription", err)
			c.eq("more", got, more)
			c.eq("actions", len(c.actions(j, store.ListActionsParams{})), 1)
		}
	}},
}

// force2 ends a run with children by force.
func (c *C) force2(id store.ID) {
	c.Helper()
	c.ok("Cancel with Force", itemErr(c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Force: true, Now: c.now})))
}

// onlyChange returns the change of a page that has one.
func (c *C) onlyChange(page store.ChangePage) store.Change {
	c.Helper()
	if len(page.Changes) != 1 {
		c.Fatalf("Changes: saw %s, expected one", show(page.Changes))
	}
	return page.Changes[0]
}

// changeOf returns the change of a run that is due in the usual subscription.
func (c *C) changeOf(id store.ID) store.Change {
	c.Helper()
	all := c.dueIn(aSub, store.MaxPage).Changes
	i := slices.IndexFunc(all, func(ch store.Change) bool { return ch.Run == id })
	if i < 0 {
		c.Fatalf("Changes: saw %s, expected one of run %v", show(all), id)
	}
	return all[i]
}

func runsOf(changes []store.Change) (ids []store.ID) {
	for _, ch := range changes {
		ids = append(ids, ch.Run)
	}
	return ids
}

// outboxVerbs are the verbs of an outbox, under faults.
var outboxVerbs = []verbUnderFault{
	{name: "PutSubscription", needs: has[store.Outboxer], prepare: func(c *C) attempt {
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(second(s.(store.Outboxer).PutSubscription(ctx, store.PutSubscriptionParams{Namespace: c.ns, Subscription: store.Subscription{Name: "s"}, Now: c.now})))
			},
			effect: func() int { return len(c.subscriptions()) },
		}
	}},
	{name: "DeleteSubscription", needs: has[store.Outboxer], prepare: func(c *C) attempt {
		c.subscribe(store.Subscription{})
		c.create(store.NewRun{})
		return attempt{
			mute: true, refused: store.ErrNotFound,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(second(s.(store.Outboxer).DeleteSubscription(ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub})))
			},
			effect: func() int { return 1 - len(c.subscriptions()) },
		}
	}},
	{name: "Settle", needs: has[store.Outboxer], prepare: func(c *C) attempt {
		c.subscribe(store.Subscription{})
		a, b := c.create(store.NewRun{}), c.create(store.NewRun{})
		p := store.SettleParams{Namespace: c.ns, Subscription: aSub, Delivered: []store.ChangeKey{c.changeOf(a).ChangeKey},
			Failed: []store.FailedDelivery{{ChangeKey: c.changeOf(b).ChangeKey, Attempt: 1, After: time.Hour}}, Error: "x", Now: c.now}
		return attempt{
			mute: true,
			call: func(ctx context.Context, s store.Store) (bool, error) {
				return changed(s.(store.Outboxer).Settle(ctx, p))
			},
			effect: func() int {
				sub := c.subscription(aSub)
				n := int(2-sub.Waiting) + sub.Attempts
				return n/2 + 100*(n%2)
			},
		}
	}},
	{name: "DropChanges", needs: has[store.Outboxer], prepare: func(c *C) attempt {
		c.subscribe(store.Subscription{Keep: time.Hour})
		c.createN(2, store.NewRun{})
		return attempt{
			call: func(ctx context.Context, s store.Store) (bool, error) {
				n, err := s.(store.Outboxer).DropChanges(ctx, store.DropChangesParams{Namespace: c.ns, Now: c.now.Add(2 * time.Hour)})
				return len(n) > 0, err
			},
			effect: func() int {
				n := int(c.subscription(aSub).Dropped+2-c.subscription(aSub).Waiting) / 2
				return n/2 + 100*(n%2)
			},
		}
	}},
	{name: "Changes", needs: has[store.Outboxer], prepare: func(c *C) attempt {
		c.subscribe(store.Subscription{})
		c.createN(2, store.NewRun{})
		return attempt{read: func(ctx context.Context, s store.Store) (any, error) {
			return s.(store.Outboxer).Changes(ctx, store.ChangesParams{Namespace: c.ns, Subscription: aSub, Now: c.now})
		}}
	}},
	reading("ListSubscriptions", has[store.Outboxer], func(ctx context.Context, c *C, s store.Store, _ store.ID) ([]store.Subscription, error) {
		return s.(store.Outboxer).ListSubscriptions(ctx, store.ListSubscriptionsParams{Namespace: c.ns})
	}),
}

func (c *C) subscriptions() []store.Subscription {
	c.Helper()
	list, err := c.outbox().ListSubscriptions(c.ctx, store.ListSubscriptionsParams{Namespace: c.ns})
	c.ok("ListSubscriptions", err)
	return list
}

// tellingVerbs are verbs whose changes wait in a subscription, under faults: the effect is there with the change that tells of
// it, or neither is.
func tellingVerbs() []verbUnderFault {
	var list []verbUnderFault
	for _, v := range slices.Concat(runVerbs, leaseVerbs, scheduleVerbs) {
		if !slices.Contains([]string{"Create", "Cancel", "Pause", "Resume", "Restart", "Fork", "Fire", "Commit of an end"}, v.name) {
			continue
		}
		list = append(list, verbUnderFault{name: v.name + " with a subscription", needs: has[store.Outboxer], prepare: func(c *C) attempt {
			c.subscribe(store.Subscription{})
			a := v.prepare(c)
			effect, before, waited := a.effect, c.classes(), c.subscription(aSub).Waiting
			a.effect = func() int {
				c.consistent(before, waited)
				return effect()
			}
			return a
		}})
	}
	return list
}

// classes returns the statuses of all runs, as far as changes tell them: a claim and a sleep are none.
func (c *C) classes() map[store.ID]store.Status {
	c.Helper()
	all := map[store.ID]store.Status{}
	for _, r := range c.list(store.ListParams{Limit: store.MaxPage}).Runs {
		if all[r.ID] = r.Status; r.Status == store.Running || r.Status == store.Sleeping {
			all[r.ID] = store.Pending
		}
	}
	return all
}

// consistent checks that as many changes wait as runs were created or have got another status since before.
func (c *C) consistent(before map[store.ID]store.Status, waited int64) {
	c.Helper()
	var got, want int64
	for range 20 { // a request that was cut may be applied at this very moment
		now := c.classes()
		got, want = c.subscription(aSub).Waiting-waited, 0
		for id, status := range now {
			if before[id] != status {
				want++
			}
		}
		if got == want {
			return
		}
	}
	c.Errorf("changes that tell of the call: saw %d, expected %d, as many as runs have changed", got, want)
}
