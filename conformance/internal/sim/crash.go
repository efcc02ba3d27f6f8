package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/store"
)

// reference is a small run that makes a few calls of the store.
type reference struct {
	name    string
	flow    int
	script  script
	delay   time.Duration
	timeout time.Duration
	slow    bool // its times are of days
	feed    *feed
}

func step(name string) op {
	return op{kind: opStep, name: name, attempts: 3, backoff: 200 * time.Millisecond}
}

func with(o op, change func(*op)) op {
	change(&o)
	return o
}

func nap(name string, d time.Duration) op { return op{kind: opSleep, name: name, d: d} }

var references = []reference{
	{name: "steps", script: script{step("a"), step("b"), step("c")}},
	{name: "one-name", script: script{step("a"), step("a"), nap("z", 10*time.Millisecond), nap("z", 10*time.Millisecond)}},
	{name: "retries", script: script{
		with(step("a"), func(o *op) { o.fail = 2; o.backoff = 20 * time.Millisecond }),
		with(step("b"), func(o *op) { o.fail = 1; o.backoff = 40 * time.Second; o.how = byPanic }), step("c")}},
	{name: "sleeps", script: script{step("a"), nap("y", 50*time.Millisecond), nap("z", 45*time.Second), step("b")}},
	{name: "days", slow: true, script: script{step("a"), nap("z", 50*time.Hour), step("b")}},
	{name: "values", script: script{{kind: opValue, name: "v"}, step("a"), {kind: opValue, name: "w"}, nap("z", 40*time.Second), {kind: opValue, name: "v"}}},
	{name: "branches", script: script{step("a"), {kind: opGroup, name: "g", branches: []script{
		{step("a"), nap("z", 35*time.Second), step("b")},
		{with(step("a"), func(o *op) { o.work = 3 * time.Second }), step("b")},
		{{kind: opValue, name: "v"}, {kind: opGroup, name: "h", branches: []script{{step("a")}, {nap("z", 50*time.Second)}}}},
	}}, step("b")}},
	{name: "long-step", script: script{step("a"), with(step("b"), func(o *op) { o.work = 70 * time.Second }), step("c")}},
	{name: "run-retry", flow: 1, script: script{step("a"), with(step("b"), func(o *op) { o.failRuns = 1; o.attempts = 2 }), step("c")}},
	{name: "caught", script: script{with(step("a"), func(o *op) { o.fail = 3; o.caught = true; o.how = byCode }), step("b")}},
	{name: "fails", flow: 2, script: script{step("a"), with(step("b"), func(o *op) { o.failRuns = 9; o.attempts = 2 }), step("c")}},
	{name: "permanent", flow: 1, script: script{step("a"), with(step("b"), func(o *op) { o.fail = 1; o.how = permanently })}},
	{name: "panics", script: script{step("a"), {kind: opPanic}}},
	{name: "deadline", timeout: 40 * time.Second, script: script{step("a"), nap("z", time.Hour), step("b")}},
	{name: "feed", feed: &feed{most: 2, within: 2 * time.Second, turns: 1, pieces: 2, fails: 1, clients: [][]feedInput{
		{{Key: "0/0/0"}, {Key: "0/0/1"}, {Key: "0/0/2", pause: time.Minute}},
		{{Key: "0/1/0", Ask: true, Slow: true}, {Key: "0/1/1", Ask: true, Bad: true}, {Key: "0/1/2", Ask: true}},
	}}},
	{name: "delayed", delay: 30 * time.Second, script: script{step("a"), step("b")}},
}

// References names the workflows of [CrashPoints].
func References() []string {
	var names []string
	for _, r := range references {
		names = append(names, r.name)
	}
	return names
}

// CrashPoints begins a reference run in a process that dies at its k-th call of the store, before
// and after the call is applied, for every stride-th k. Another process takes over. CrashPoints
// returns the number of crashes, and what failed.
func CrashPoints(t *testing.T, open Opener, name string, stride int, counts *Counts) (crashes int, failures []string) {
	for _, ref := range references {
		if ref.name != name {
			continue
		}
		for _, eager := range []bool{true, false} {
			if eager && ref.feed != nil {
				continue // its starts are never eager
			}
			for _, after := range []bool{false, true} {
				unfired := 0
				for k := uint64(0); unfired < 2 && len(failures) == 0; k += uint64(stride) {
					point := &crashPoint{call: k, after: after}
					res := inBubble(t, open, func(s store.Store) *world { return ref.world(s, point, eager, counts) })
					if point.fired {
						crashes++
					} else {
						unfired++
					}
					if len(res.Failures) > 0 {
						failures = append(failures, fmt.Sprintf("%s, eager %v, crash at call %d, applied %v:\n%s", name, eager, k, after, res.String()))
						failures = append(failures, res.tail(name))
					}
				}
			}
		}
	}
	return crashes, failures
}

func (ref *reference) world(s store.Store, point *crashPoint, eager bool, counts *Counts) *world {
	w := &world{seed: 1, store: s, counts: counts, crashAt: point, quick: true}
	w.profile = profile{
		lease: 30 * time.Second, poll: time.Minute, park: 100 * time.Millisecond, grace: time.Second, retryFor: 10 * time.Second,
		slots: []int{10}, maxCrashes: 10, long: 2 * time.Minute,
	}
	if ref.slow {
		w.profile.lease, w.profile.poll, w.profile.long = 6*time.Hour, 12*time.Hour, 50*time.Hour
	}
	if ref.feed != nil {
		w.feeds, w.profile.chaos = []*feed{ref.feed}, 10*time.Minute
		return w
	}
	p := &plan{flow: ref.flow, script: ref.script, fresh: eager, id: store.DeriveID(store.ID{1}, ref.name),
		startAt: 10 * time.Millisecond, delay: ref.delay, timeout: ref.timeout}
	w.plans = []*plan{p}
	total, _ := p.waits()
	w.profile.chaos = total + 4*w.profile.lease
	return w
}
