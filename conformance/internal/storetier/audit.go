package storetier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// anAction is an action of a person, as the caller of a method gives it.
func anAction(run store.ID) store.Action {
	return store.Action{ID: store.NewID(), Actor: "ada@web", From: "192.0.2.7:4711", Verb: "steer", Target: "some \"target\"\n\\é\u009b", Run: run, Details: "why"}
}

// with returns an action as it is stored.
func (c *C) with(a store.Action, outcome string) store.Action {
	a.At, a.Outcome = c.now, outcome
	return a
}

// audited is a verb that records who used it.
type audited struct {
	name string
	// ready makes what the call changes. It returns the run that the action is about, and the call: it
	// changes something the first time.
	ready func(c *C) (store.ID, func(ctx context.Context, s store.Store, record []store.Action) error)
	// again is the outcome of a second call; empty: it has no record.
	again string
	// refused is the error of a second call.
	refused error
	// effect counts how often the calls took effect.
	effect func(c *C, run store.ID) int
	// probes says that effect writes, so that it would wait for an open transaction.
	probes bool
	needs  func(store.Store) bool // an ability besides the journal; nil: none
}

// onRun is a verb on one run, which prepare makes.
func onRun(name, again string, refused error, prepare func(c *C) store.ID, call func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error, effect func(c *C, run store.ID) int) audited {
	return audited{name: name, again: again, refused: refused, effect: effect, ready: func(c *C) (store.ID, func(context.Context, store.Store, []store.Action) error) {
		id := prepare(c)
		return id, func(ctx context.Context, s store.Store, record []store.Action) error {
			return call(c, ctx, s, id, record)
		}
	}}
}

// onName is a verb on something that is no run.
func onName(name, again string, refused error, prepare func(c *C), call func(c *C, ctx context.Context, s store.Store, record []store.Action) error, effect func(c *C) int) audited {
	return audited{name: name, again: again, refused: refused, effect: func(c *C, _ store.ID) int { return effect(c) },
		ready: func(c *C) (store.ID, func(context.Context, store.Store, []store.Action) error) {
			prepare(c)
			return store.ID{}, func(ctx context.Context, s store.Store, record []store.Action) error { return call(c, ctx, s, record) }
		}}
}

func probing(v audited) audited { v.probes = true; return v }

func needing(has func(store.Store) bool, v audited) audited { v.needs = has; return v }

func (v *audited) ableIn(s store.Store) bool { return v.needs == nil || v.needs(s) }

func aRun(c *C) store.ID { return c.create(store.NewRun{}) }

func isStatus(want store.Status) func(*C, store.ID) int {
	return func(c *C, id store.ID) int { return whether(c.get(id).Status == want) }
}

func (c *C) setPausedRecorded(ctx context.Context, s store.Store, resume bool, record []store.Action) error {
	return s.PauseTarget(ctx, store.PauseTargetParams{Namespace: c.ns, Workflow: "paused", Resume: resume, Now: c.now, Record: record})
}

var aRule = store.LimitRule{Concurrency: 3}

var auditedVerbs = []audited{
	onRun("Cancel", store.NoChange, nil, aRun, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, isStatus(store.Canceled)),
	onRun("Cancel of a leased run", store.NoChange, nil, func(c *C) store.ID { return c.start().Run.ID }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, isStatus(store.Canceling)),
	onRun("Cancel by force", store.NoChange, nil, func(c *C) store.ID { id := c.start().Run.ID; c.cancel(id); return id }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Cancel(ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Force: true, Now: c.now, Record: record}))
	}, isStatus(store.Canceled)),
	onRun("Pause", store.NoChange, nil, aRun, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Pause(ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, isStatus(store.Paused)),
	onRun("Pause of a leased run", store.NoChange, nil, func(c *C) store.ID { return c.start().Run.ID }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Pause(ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, func(c *C, id store.ID) int { return whether(c.get(id).Pausing) }),
	onRun("Resume", store.NoChange, nil, func(c *C) store.ID { id := aRun(c); c.pause(id); return id }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Pause(ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{id}, Resume: true, Now: c.now, Record: record}))
	}, isStatus(store.Pending)),
	onRun("Resume of a leased run", store.NoChange, nil, func(c *C) store.ID { id := c.start().Run.ID; c.pause(id); return id }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Pause(ctx, store.PauseParams{Namespace: c.ns, IDs: []store.ID{id}, Resume: true, Now: c.now, Record: record}))
	}, func(c *C, id store.ID) int { return whether(!c.get(id).Pausing) }),
	onRun("Unpin", "", store.ErrConflict, (*C).pinned, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Unpin(ctx, store.UnpinParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, func(c *C, id store.ID) int { return whether(c.get(id).Pin == nil) }),
	onRun("Restart", "", store.ErrConflict, func(c *C) store.ID { id := aRun(c); c.cancel(id); return id }, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		return itemErr(s.Restart(ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now, Record: record}))
	}, func(c *C, id store.ID) int { return int(c.get(id).Epoch) }),
	{name: "Fork", ready: func(c *C) (store.ID, func(context.Context, store.Store, []store.Action) error) {
		id, fork := aRun(c), store.NewID()
		return id, func(ctx context.Context, s store.Store, record []store.Action) error {
			_, err := s.Fork(ctx, store.ForkParams{Namespace: c.ns, ID: id, New: fork, Now: c.now, Record: record})
			return err
		}
	}, effect: func(c *C, id store.ID) int {
		page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns})
		c.ok("List", err)
		return len(page.Runs) - 1
	}},
	{name: "Signal", ready: func(c *C) (store.ID, func(context.Context, store.Store, []store.Action) error) {
		id, sig := aRun(c), store.NewID()
		return id, func(ctx context.Context, s store.Store, record []store.Action) error {
			res, err := s.Signal(ctx, store.SignalParams{Namespace: c.ns, Signals: []store.NewSignal{{ID: sig, Run: id, Name: "n"}}, Now: c.now, Record: record})
			if err == nil {
				err = res[0].Err
			}
			return err
		}
	}, effect: func(c *C, id store.ID) int { return len(c.inbox(id).Signals) }},
	onRun("SetState", "", store.ErrConflict, aRun, func(c *C, ctx context.Context, s store.Store, id store.ID, record []store.Action) error {
		none := int64(0)
		_, err := s.SetState(ctx, store.SetStateParams{Namespace: c.ns, Run: id, Writes: []store.StateWrite{{Key: "k", IfVersion: &none}}, Now: c.now, Record: record})
		return err
	}, func(c *C, id store.ID) int { return int(c.inbox(id).Events) }),
	onRun("Purge", store.NoChange, nil, func(c *C) store.ID { id := aRun(c); c.cancel(id); return id }, func(c *C, ctx context.Context, s store.Store, _ store.ID, record []store.Action) error {
		_, err := s.Purge(ctx, store.PurgeParams{Namespace: c.ns, Now: c.now, Record: record})
		return err
	}, func(c *C, id store.ID) int { return 1 - len(c.gets(id)) }),
	onName("PauseTarget", store.NoChange, nil, func(*C) {}, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return c.setPausedRecorded(ctx, s, false, record)
	}, func(c *C) int { return len(c.pausedTargets()) }),
	onName("PauseTarget with Resume", store.NoChange, nil, func(c *C) { c.setPaused("", "paused", true) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return c.setPausedRecorded(ctx, s, true, record)
	}, func(c *C) int { return 1 - len(c.pausedTargets()) }),
	onName("PutSchedule", store.Done, nil, func(*C) {}, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		_, err := s.PutSchedule(ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: c.schedule("s"), Now: c.now, Record: record})
		return err
	}, func(c *C) int { return len(c.schedules(store.ListSchedulesParams{}).Schedules) }),
	onName("DeleteSchedule", "", store.ErrNotFound, func(c *C) { c.putSchedule(c.schedule("s")) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "s", Now: c.now, Record: record})
	}, func(c *C) int { return 1 - len(c.schedules(store.ListSchedulesParams{}).Schedules) }),
	onName("SetLimit", store.NoChange, nil, func(*C) {}, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.SetLimit(ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Rule: &aRule, Now: c.now, Record: record})
	}, func(c *C) int { return len(c.limits()) }),
	onName("SetLimit to another rule", store.NoChange, nil, func(c *C) { c.setLimit("l", &store.LimitRule{Concurrency: 4}) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.SetLimit(ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Rule: &aRule, Now: c.now, Record: record})
	}, func(c *C) int { return whether(*c.limits()[0].Set == aRule) }),
	onName("SetLimit without a rule", store.NoChange, nil, func(c *C) { c.putLimit("l", aRule); c.setLimit("l", &store.LimitRule{Concurrency: 4}) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.SetLimit(ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Now: c.now, Record: record})
	}, func(c *C) int { return whether(c.limits()[0].Set == nil) }),
	onName("SetLimit that deletes", "", store.ErrNotFound, func(c *C) { c.setLimit("l", &aRule) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.SetLimit(ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Now: c.now, Record: record})
	}, func(c *C) int { return 1 - len(c.limits()) }),
	probing(onName("SetWeight", store.Done, nil, func(c *C) { c.putLimit("l", aRule) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		return s.SetWeight(ctx, store.SetWeightParams{Namespace: c.ns, Limit: "l", Key: "k", Weight: 7, Now: c.now, Record: record})
	}, func(c *C) int { return whether(c.limitKey("l", "k").Weight == 7) })),
	needing(has[store.Outboxer], onName("PutSubscription", store.Done, nil, func(*C) {}, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		_, err := s.(store.Outboxer).PutSubscription(ctx, store.PutSubscriptionParams{Namespace: c.ns, Subscription: store.Subscription{Name: aSub}, Now: c.now, Record: record})
		return err
	}, func(c *C) int { return len(c.subscriptions()) })),
	needing(has[store.Outboxer], onName("DeleteSubscription", "", store.ErrNotFound, func(c *C) { c.subscribe(store.Subscription{}) }, func(c *C, ctx context.Context, s store.Store, record []store.Action) error {
		_, err := s.(store.Outboxer).DeleteSubscription(ctx, store.DeleteSubscriptionParams{Namespace: c.ns, Name: aSub, Now: c.now, Record: record})
		return err
	}, func(c *C) int { return 1 - len(c.subscriptions()) })),
}

// eachAudited runs a part of a case for each verb, in a namespace of its own.
func (c *C) eachAudited(do func(v audited, j store.Journal)) {
	c.Helper()
	j, ns := c.journal(), c.ns
	for _, v := range auditedVerbs {
		if v.ableIn(c.s) {
			c.ns = ns + "/" + v.name
			do(v, j)
		}
	}
	c.ns = ns
}

// recordedAs compares the journal with actions, newest first.
func (c *C) recordedAs(what string, j store.Journal, want ...store.Action) {
	c.Helper()
	c.eq(what+": the journal", c.actions(j, store.ListActionsParams{}), append([]store.Action{}, want...))
}

// recordingVerbs are the verbs under faults: the effect and the record are both there, once, or neither is.
func recordingVerbs() []verbUnderFault {
	var list []verbUnderFault
	for _, v := range auditedVerbs {
		if strings.Contains(v.name, " ") {
			continue // one of each method
		}
		list = append(list, verbUnderFault{name: v.name + " with a Record", needs: func(s store.Store) bool { return has[store.Journal](s) && v.ableIn(s) }, prepare: func(c *C) attempt {
			run, call := v.ready(c)
			record := []store.Action{anAction(run)}
			return attempt{
				mute: true, refused: v.refused, probes: v.probes,
				call: func(ctx context.Context, s store.Store) (bool, error) { return changed(call(ctx, s, record)) },
				effect: func() int {
					n := v.effect(c, run) + len(c.actions(c.s.(store.Journal), store.ListActionsParams{}))
					return n/2 + 100*(n%2)
				},
			}
		}})
	}
	return list
}

var auditCases = []Case{
	{"audit/effect", "P30", "a call with a Record stores the action unchanged, with the time and the outcome, and a second call another one or none", func(c *C) {
		c.eachAudited(func(v audited, j store.Journal) {
			run, call := v.ready(c)
			a, b := anAction(run), anAction(run)
			c.recordedAs(v.name+" that is not made yet", j)
			c.ok(v.name, call(c.ctx, c.s, []store.Action{a}))
			c.eq(v.name+": effects", v.effect(c, run), 1)
			a = c.with(a, store.Done)
			c.recordedAs(v.name, j, a)
			c.advance(time.Second)
			if err := call(c.ctx, c.s, []store.Action{b}); v.refused == nil {
				c.ok(v.name+" again", err)
			} else {
				c.fails(v.name+" again", err, v.refused)
			}
			want := []store.Action{a}
			if v.again != "" {
				want = []store.Action{c.with(b, v.again), a}
			}
			c.recordedAs(v.name+" again", j, want...)
			if !run.IsZero() {
				c.eq(v.name+": of the run", c.actions(j, store.ListActionsParams{Run: run}), want)
			}
		})
	}},
	{"audit/again", "P30", "a call that is sent again with the same action has one record, with the outcome of the first", func(c *C) {
		c.eachAudited(func(v audited, j store.Journal) {
			run, call := v.ready(c)
			a := anAction(run)
			c.ok(v.name, call(c.ctx, c.s, []store.Action{a}))
			want := c.with(a, store.Done)
			c.advance(time.Second)
			again := a
			again.Details = "sent again"
			err := call(c.ctx, c.s, []store.Action{again})
			c.check(err == nil || errors.Is(err, v.refused), "%s again: saw %s, expected %v or no error", v.name, show(err), v.refused)
			c.recordedAs(v.name+" again", j, want)
		})
	}},
	{"audit/without", "P30", "a call without a Record stores no action", func(c *C) {
		c.eachAudited(func(v audited, j store.Journal) {
			run, call := v.ready(c)
			c.ok(v.name, call(c.ctx, c.s, nil))
			c.eq(v.name+": effects", v.effect(c, run), 1)
			c.recordedAs(v.name, j)
		})
	}},
	{"audit/namespaces", "P15", "the action of a call is recorded in the namespace of the call, and only there", func(c *C) {
		c.eachAudited(func(v audited, j store.Journal) {
			run, call := v.ready(c)
			a, ns := anAction(run), c.ns
			c.ns = ns + "/other"
			_ = call(c.ctx, c.s, []store.Action{anAction(run)}) // finds nothing there, or changes something else
			c.ns = ns
			c.recordedAs(v.name+" elsewhere", j)
			c.ok(v.name, call(c.ctx, c.s, []store.Action{a}))
			c.recordedAs(v.name, j, c.with(a, store.Done))
		})
	}},
	{"audit/invalid", "P16", "a call whose Record is wrong changes nothing", func(c *C) {
		c.eachAudited(func(v audited, j store.Journal) {
			run, call := v.ready(c)
			before := v.effect(c, run)
			long, nobody, line := anAction(run), anAction(run), anAction(run)
			long.Details, nobody.Actor, line.From = strings.Repeat("x", store.MaxDetails+1), "", "a\nb"
			c.fails(v.name+" with two actions", call(c.ctx, c.s, []store.Action{anAction(run), anAction(run)}), store.ErrInvalid)
			c.fails(v.name+" of nobody", call(c.ctx, c.s, []store.Action{nobody}), store.ErrInvalid)
			c.fails(v.name+" from two lines", call(c.ctx, c.s, []store.Action{line}), store.ErrInvalid)
			c.fails(v.name+" with long details", call(c.ctx, c.s, []store.Action{long}), store.ErrTooLarge)
			c.eq(v.name+": effects", v.effect(c, run), before)
			c.recordedAs(v.name, j)
		})
		id := aRun(c)
		_, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id, id}, Now: c.now, Record: []store.Action{anAction(id), anAction(id)}})
		c.fails("Cancel of a run twice", err, store.ErrInvalid)
	}},
	{"audit/one-subscription-too-many", "P30", "a subscription that is refused because there are too many stores no action", func(c *C) {
		j := c.journal()
		for i := range store.MaxSubscriptions {
			c.subscribe(store.Subscription{Name: fmt.Sprint(i)})
		}
		_, err := c.outbox().PutSubscription(c.ctx, store.PutSubscriptionParams{Namespace: c.ns, Subscription: store.Subscription{Name: aSub}, Now: c.now, Record: []store.Action{anAction(store.ID{})}})
		c.fails("PutSubscription", err, store.ErrInvalid)
		c.recordedAs("one too many", j)
	}},
	{"audit/items", "P30", "each item of a call has its own record and outcome, and an item that is refused has none", func(c *C) {
		j := c.journal()
		none, done := store.NewID(), c.start()
		c.end(done, complete("x"))
		failed := c.start()
		c.end(failed, failWith("f"))
		canceled := aRun(c)
		c.cancel(canceled)
		parent := c.family(nil, kid(1))
		child := c.childrenOf(parent)[0].ID
		paused, active := aRun(c), aRun(c)
		c.pause(paused)
		ids := []store.ID{none, done.Run.ID, parent, canceled, failed.Run.ID, child, paused, active}
		calls := []struct {
			what string
			call func([]store.Action) ([]store.ControlResult, error)
			want []string
		}{
			{"Pause", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}, []string{"", "", store.Done, "", "", store.Done, store.NoChange, store.Done}},
			{"Resume", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids, Resume: true, Now: c.now, Record: r})
			}, []string{"", "", store.Done, "", "", store.Done, store.Done, store.Done}},
			{"Cancel", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}, []string{"", "", store.Done, store.NoChange, "", store.Done, store.Done, store.Done}},
			{"Restart", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}, []string{"", "", "", store.Done, store.Done, store.Done, store.Done, store.Done}},
			{"Unpin", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Unpin(c.ctx, store.UnpinParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}, []string{"", "", "", "", "", "", "", ""}},
		}
		for _, call := range calls {
			c.advance(time.Second)
			var record, want []store.Action
			for i, id := range ids {
				a := anAction(id)
				a.Verb = fmt.Sprintf("%s %d", call.what, i)
				if record = append(record, a); call.want[i] != "" {
					want = append(want, c.with(a, call.want[i]))
				}
			}
			res, err := call.call(record)
			c.ok(call.what, err)
			for i := range res {
				c.check((res[i].Err == nil) == (call.want[i] != ""), "%s of item %d: saw error %s, expected the outcome %q", call.what, i, show(res[i].Err), call.want[i])
			}
			var got []store.Action
			for _, a := range c.actions(j, store.ListActionsParams{}) {
				if a.At.Equal(c.now) {
					got = append(got, a)
				}
			}
			slices.SortFunc(got, func(a, b store.Action) int { return strings.Compare(a.Verb, b.Verb) })
			c.eq("the journal after "+call.what, got, want)
		}
	}},
	{"audit/large-batch", "P30", "each of 250 items of a call has its own record", func(c *C) {
		j := c.journal()
		const many = 250
		ids := c.createN(many, store.NewRun{})
		sigs := make([]store.NewSignal, many)
		for i, id := range ids {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: "n"}
		}
		for _, call := range []struct {
			what string
			call func([]store.Action) ([]store.ControlResult, error)
		}{
			{"Pause", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Pause(c.ctx, store.PauseParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}},
			{"Cancel", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}},
			{"Restart", func(r []store.Action) ([]store.ControlResult, error) {
				return c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: r})
			}},
			{"Signal", func(r []store.Action) (all []store.ControlResult, err error) {
				res, err := c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: sigs, Now: c.now, Record: r})
				for i := range res {
					all = append(all, store.ControlResult{Err: res[i].Err})
				}
				return all, err
			}},
		} {
			c.advance(time.Second)
			var record, want []store.Action
			for _, id := range ids {
				a := anAction(id)
				record, want = append(record, a), append(want, c.with(a, store.Done))
			}
			res, err := call.call(record)
			c.ok(call.what, err)
			for i := range res {
				c.ok(fmt.Sprintf("%s of item %d", call.what, i), res[i].Err)
			}
			var got []store.Action
			for _, a := range c.actions(j, store.ListActionsParams{}) {
				if a.At.Equal(c.now) {
					got = append(got, a)
				}
			}
			byID := func(a, b store.Action) int { return bytes.Compare(a.ID[:], b.ID[:]) }
			slices.SortFunc(got, byID)
			slices.SortFunc(want, byID)
			c.eq("the journal after "+call.what, got, want)
		}
	}},
	{"audit/rivals", "P30", "of the runs of a restart that have one external id, the one that is restarted has a record", func(c *C) {
		j := c.journal()
		var ids []store.ID
		var record []store.Action
		for range 3 {
			id := c.create(store.NewRun{ExternalID: "order"})
			c.cancel(id)
			ids, record = append(ids, id), append(record, anAction(id))
		}
		res, err := c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: ids, Now: c.now, Record: record})
		c.ok("Restart", err)
		c.fails("the second", res[1].Err, store.ErrAlreadyExists)
		c.recordedAs("Restart", j, c.with(record[0], store.Done))
	}},
	{"audit/signals", "P30", "the record of a signal names the run that has received it, and a signal that is refused has none", func(c *C) {
		j := c.journal()
		run, gone := c.create(store.NewRun{ExternalID: "order"}), aRun(c)
		c.cancel(gone)
		sigs := []store.NewSignal{
			{ID: store.NewID(), ExternalID: "order", Name: "a"}, {ID: store.NewID(), ExternalID: "none", Name: "b"},
			{ID: store.NewID(), Run: gone, Name: "c"}, {Run: run, Name: "d"}, {ID: store.NewID(), Run: run, Name: "e"},
		}
		record := make([]store.Action, len(sigs))
		for i := range record {
			record[i] = anAction(sigs[i].Run)
			record[i].Verb = sigs[i].Name
		}
		_, err := c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: sigs, Now: c.now, Record: record})
		c.ok("Signal", err)
		got := c.actions(j, store.ListActionsParams{Run: run})
		slices.SortFunc(got, func(a, b store.Action) int { return strings.Compare(a.Verb, b.Verb) })
		first := record[0]
		first.Run = run
		c.eq("the journal of the run", got, []store.Action{c.with(first, store.Done), c.with(record[4], store.Done)})
		c.eq("actions", len(c.actions(j, store.ListActionsParams{})), 2)
		again := anAction(store.ID{})
		_, err = c.s.Signal(c.ctx, store.SignalParams{Namespace: c.ns, Signals: sigs[:1], Now: c.now, Record: []store.Action{again}})
		c.ok("Signal again", err)
		c.eq("actions after the signal was sent again", len(c.actions(j, store.ListActionsParams{})), 2)
	}},
	{"audit/races", "P30", "of calls at once that make the same change, one has the record of it", func(c *C) {
		j := c.journal()
		for _, v := range auditedVerbs {
			if v.again != store.NoChange {
				continue
			}
			ns := c.ns
			c.ns = ns + "/" + v.name
			run, call := v.ready(c)
			const n = 4
			record := make([]store.Action, n)
			for i := range record {
				record[i] = anAction(run)
			}
			c.race(n, func(i int, s store.Store) error { return call(c.ctx, s, record[i:i+1]) })
			outcomes := map[string]int{}
			for _, a := range c.actions(j, store.ListActionsParams{}) {
				outcomes[a.Outcome]++
			}
			c.eq(v.name+": outcomes", outcomes, map[string]int{store.Done: 1, store.NoChange: n - 1})
			c.ns = ns
		}
	}},
}
