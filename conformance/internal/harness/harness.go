// Package harness is what every tier is given: a backend's harness, its abilities, and the
// verbs that it has not written yet.
package harness

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

// Harness is conformance.Harness, inside the suite.
type Harness struct {
	New          func(t testing.TB) store.Store
	Reopen       func(t testing.TB, s store.Store) store.Store // nil: the data lives in one handle
	Rewind       func(t testing.TB, s store.Store) (back func())
	Restart      func(t testing.TB, s store.Store) store.Store
	Exceptions   map[string]string // cases that must fail: reason
	Lacks        map[store.Ability]string
	Progress     bool // the backend is being written
	Bubble       bool // New works inside a testing/synctest bubble
	Faults       func(t testing.TB, s store.Store) faults.Store
	Transactions []TxKind
	Meter        func(t testing.TB) Meter
	Unmeasured   string // why the cost cases are left out

	Tier *report.Tier // the one under way; nil: none
}

// TxKind is conformance.TxKind, inside the suite.
type TxKind struct {
	Name   string
	Begin  func(ctx context.Context, s store.Store) (ProgramTx, error)
	Step   func() (target any, mark func(ctx context.Context, marker string) error)
	Marked func(ctx context.Context, s store.Store, marker string) (int, error)
	Alone  bool
}

// ProgramTx is conformance.ProgramTx.
type ProgramTx struct {
	Tx       store.Tx
	Mark     func(ctx context.Context, marker string) error // writes a marker in it
	Commit   func() error
	Rollback func() error
}

// Meter is conformance.Meter.
type Meter struct {
	Store  store.Store
	Reads  func() int64 // nil: nothing counts, and times are compared
	Settle func()
}

// MustFail holds an excepted case to its exception.
func MustFail(t testing.TB, h Harness, rec *runner.Recorder, name string) {
	t.Helper()
	reason := h.Exceptions[name]
	switch {
	case rec.Skipped():
		t.Errorf("%s is excepted (%s) but does not apply to this backend: remove the exception", name, reason)
	case !rec.Failed():
		t.Errorf("%s is excepted (%s) but passes: remove the exception", name, reason)
	default:
		h.Tier.Except(name, reason)
		t.Logf("%s fails as declared (%s):\n%s", name, reason, rec.Text())
	}
}

// WholeTier begins a tier that counts as one case, and ends it with t.
func WholeTier(t *testing.T, name string, h *Harness) *report.Tier {
	t.Helper()
	s := h.New(t)
	CheckAbilities(t, *h, s)
	h.Progress = h.Progress || report.Progress()
	h.Tier = report.Begin(t, name, s)
	r, progress := h.Tier, h.Progress
	t.Cleanup(func() {
		r.Ended(t, name, "")
		r.End(t, progress)
	})
	return r
}
