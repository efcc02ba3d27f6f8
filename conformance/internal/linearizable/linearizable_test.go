package linearizable

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
