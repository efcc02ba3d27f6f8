package linearizable

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

func TestLinearizableOnTheModel(t *testing.T) {
	Run(t, harness.Harness{New: suitetest.NewModel})
}

// impatient claims a run two minutes early.
type impatient struct{ store.Store }

func (s impatient) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Now = p.Now.Add(2 * time.Minute)
	return s.Store.Claim(ctx, p)
}

// late reads a run as it was some time ago.
type late struct {
	store.Store
	seen map[store.ID]store.Run
	mu   chan struct{}
}

func (s late) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	runs, err := s.Store.Get(ctx, p)
	s.mu <- struct{}{}
	defer func() { <-s.mu }()
	for i := range runs {
		old, ok := s.seen[runs[i].ID]
		if !ok {
			s.seen[runs[i].ID] = runs[i]
		} else {
			runs[i] = old
		}
	}
	return runs, err
}

// twice lets a leased run be claimed again.
type twice struct{ store.Store }

func (s twice) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	res, err := s.Store.Claim(ctx, p)
	if err != nil || len(res.Runs) > 0 {
		return res, err
	}
	p.Now = p.Now.Add(10 * time.Minute)
	return s.Store.Claim(ctx, p)
}

// gapless makes up the commits that are missing before another one.
type gapless struct{ store.Store }

func (s gapless) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	c := p.Commits[0]
	for seq := range c.Seq - 1 {
		q := p
		q.Commits = []store.Commit{{Lease: c.Lease, Seq: seq + 1}}
		if _, err := s.Store.Commit(ctx, q); err != nil {
			return nil, err
		}
	}
	return s.Store.Commit(ctx, p)
}

// The check can fail: it finds each of these faults.
// A later claim shows the order of signals that were sent at the same time. The check does not try all
// others, of which there are too many.
func TestSignalsAtTheSameTime(t *testing.T) {
	const n = 16
	run := store.NewID()
	call := func(from, to int64, in request, out answer) timed {
		return timed{run: run, request: in, answer: out, from: from, to: to}
	}
	s, list := spec{}, []int{}
	begin := request{verb: "create"}
	ops := []timed{call(1, 2, begin, s.apply(begin))}
	for id := n; id > 0; id-- {
		in := request{verb: "signal", id: id}
		ops = append(ops, call(int64(2+id), int64(3+n+id), in, s.apply(in)))
		list = append(list, id)
	}
	lost := answer{unknown: true}
	ops = append(ops, call(3, 4, request{verb: "signal", id: n + 1}, lost), call(3, 4, request{verb: "signal", id: n + 2}, lost))
	claim := request{verb: "claim", worker: "w", span: 1}
	out := s.apply(claim)
	require.Equal(t, joined(list), out.signals)
	ops = append(ops, call(100, 101, claim, out))
	h := history{done: ops}
	h.clock.Store(101)
	assert.True(t, h.check(t))

	// The fault of another order is found as quickly.
	for _, order := range [][]int{{2, 1}, {1, 3}} {
		early, late := call(1, 2, request{verb: "signal", id: order[0]}, answer{}), call(3, 4, request{verb: "signal", id: order[1]}, answer{})
		state := spec{status: store.Pending, visible: 1, attempt: 1}
		claimed := answer{status: store.Running, epoch: 1, events: 2, visible: 2, attempt: 1, signals: joined([]int{order[1], order[0]})}
		list := withSightings([]timed{early, late, call(5, 6, claim, claimed)})
		ok := true
		for _, op := range list {
			var fits bool
			next := any(nil)
			fits, next = sequential.Step(state, op.request, op.answer)
			state, ok = next.(spec), ok && fits
		}
		assert.False(t, ok, "signals %v in the wrong order", order)
	}
}

func TestLinearizableFindsFaults(t *testing.T) {
	for name, fault := range map[string]func(store.Store) store.Store{
		"commit of any epoch":       func(s store.Store) store.Store { return suitetest.AnyEpoch{Store: s} },
		"signals never repeated":    func(s store.Store) store.Store { return suitetest.FreshSignals{Store: s} },
		"sleep that overlooks":      func(s store.Store) store.Store { return suitetest.BlindSleep{Store: s} },
		"claim before its time":     func(s store.Store) store.Store { return impatient{s} },
		"commit without transition": func(s store.Store) store.Store { return suitetest.Forgetful{Store: s} },
		"read of an old state":      func(s store.Store) store.Store { return late{s, map[store.ID]store.Run{}, make(chan struct{}, 1)} },
		"commit over a gap":         func(s store.Store) store.Store { return gapless{s} },
		"claim of a leased run":     func(s store.Store) store.Store { return twice{s} },
		"cancel without a cleanup":  func(s store.Store) store.Store { return suitetest.Abrupt{Store: s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fault(suitetest.NewModel(t))
			rec := &runner.Recorder{TB: t}
			rec.Do(func() {
				for i := range histories {
					h := newHistory([2]store.Store{s, s}, fmt.Sprintf("history-%d", i+1), uint64(i))
					h.record(t.Context())
					if !h.check(rec) {
						break
					}
				}
			})
			if !rec.Failed() || !strings.Contains(rec.Text(), "has no sequential order") {
				t.Errorf("saw no fault, expected a history without an order:\n%s", rec.Text())
			}
			t.Log(rec.Text())
		})
	}
}
