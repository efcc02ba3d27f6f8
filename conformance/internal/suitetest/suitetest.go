// Package suitetest has what the tests of the conformance suite share: the model as a
// backend, and stores with faults that the suite must find.
package suitetest

import (
	"context"
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

func NewModel(testing.TB) store.Store { return model.New(model.Options{}) }

// ModelHarness makes models behind a layer, such as a mutant's.
func ModelHarness(opts model.Options, wrap func(*model.Store) store.Store) harness.Harness {
	var bases sync.Map // of each store its model
	base := func(s store.Store) *model.Store {
		m, _ := bases.Load(s)
		return m.(*model.Store)
	}
	return harness.Harness{
		Bubble:     true,
		Unmeasured: "the model looks at all that it holds",
		New: func(t testing.TB) store.Store {
			m := model.New(opts)
			s := wrap(m)
			bases.Store(s, m)
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Restart: func(t testing.TB, s store.Store) store.Store {
			var again store.Store
			var m *model.Store
			if r, ok := s.(mutant.Reopener); ok {
				again, m = r.Reopen()
			} else {
				m = base(s).Reopen(nil)
				again = wrap(m)
			}
			bases.Store(again, m)
			t.Cleanup(func() { _ = again.Close() })
			return again
		},
		Faults: func(_ testing.TB, s store.Store) faults.Store {
			other := wrap(base(s))
			remote := other.(interface {
				Arm(f model.Fault, nth int) (met <-chan struct{}, heal func())
			})
			return faults.Store{
				Store:  other,
				Faults: []faults.Fault{faults.Refused, faults.Before, faults.After, faults.Silent, faults.Cut, faults.Delayed},
				Arm:    func(f faults.Fault, nth int) (<-chan struct{}, func()) { return remote.Arm(model.Fault(f), nth) },
			}
		},
		Transactions: []harness.TxKind{{
			Name: "model",
			Begin: func(ctx context.Context, s store.Store) (harness.ProgramTx, error) {
				tx, err := base(s).BeginTx(ctx)
				if err != nil {
					return harness.ProgramTx{}, err
				}
				return harness.ProgramTx{
					Tx:       tx,
					Mark:     func(_ context.Context, marker string) error { tx.Mark(marker); return nil },
					Commit:   func() error { tx.Commit(); return nil },
					Rollback: func() error { tx.Rollback(); return nil },
				}, nil
			},
			Step: func() (any, func(ctx context.Context, marker string) error) {
				var tx *model.Tx
				return &tx, func(_ context.Context, marker string) error { tx.Mark(marker); return nil }
			},
			Marked: func(_ context.Context, s store.Store, marker string) (int, error) { return base(s).Marked(marker), nil },
			Alone:  true,
		}},
	}
}

func WantReport(t *testing.T, rec *runner.Recorder, parts ...string) {
	t.Helper()
	if !rec.Failed() {
		t.Errorf("the suite passed, expected it to fail")
	}
	for _, part := range parts {
		if !strings.Contains(rec.Text(), part) {
			t.Errorf("the suite reported:\n%s\nexpected it to contain %q", rec.Text(), part)
		}
	}
}

// AnyEpoch commits under whatever lease the run has.
type AnyEpoch struct{ store.Store }

func (s AnyEpoch) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		l := &p.Commits[i].Lease
		runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: []store.ID{l.Run}})
		if err == nil && len(runs) == 1 {
			l.Worker, l.Epoch = runs[0].Worker, runs[0].Epoch
		}
	}
	return s.Store.Commit(ctx, p)
}

// FreshSignals takes every signal for a new one.
type FreshSignals struct{ store.Store }

func (s FreshSignals) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	for i := range p.Signals {
		p.Signals[i].ID = store.NewID()
	}
	return s.Store.Signal(ctx, p)
}

// FastClock is a millisecond ahead when it claims.
type FastClock struct{ store.Store }

func (s FastClock) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Now = p.Now.Add(time.Millisecond)
	return s.Store.Claim(ctx, p)
}

// EmptyIsNil reads an empty input as none.
type EmptyIsNil struct{ store.Store }

func (s EmptyIsNil) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	runs, err := s.Store.Get(ctx, p)
	for i := range runs {
		if len(runs[i].Input) == 0 {
			runs[i].Input = nil
		}
	}
	return runs, err
}

// BlindSleep takes all events for seen.
type BlindSleep struct{ store.Store }

func (s BlindSleep) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		p.Commits[i].Seen = 1 << 40
	}
	return s.Store.Commit(ctx, p)
}

// Forgetful answers a commit that it has not applied.
type Forgetful struct{ store.Store }

func (s Forgetful) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		if t := p.Commits[i].Transition; t != nil && t.Kind == store.Retry {
			p.Commits[i].Transition = nil
		}
	}
	return s.Store.Commit(ctx, p)
}

// Abrupt ends a run at once that is canceled, whatever it has recorded, unless it is leased.
type Abrupt struct{ store.Store }

func (s Abrupt) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: p.IDs})
	p.Force = err == nil && len(runs) == 1 && runs[0].Worker == ""
	return s.Store.Cancel(ctx, p)
}

// bare is the model without any ability, and says so.
type bare struct{ store.Store }

func NewBare(t testing.TB) store.Store {
	s := model.New(model.Options{PayloadLimit: 0})
	t.Cleanup(func() { _ = s.Close() })
	return bare{s}
}

func (s bare) Features() store.Features {
	f := store.Features{Name: "bare", Contract: 2, Durability: store.Volatile}
	for _, a := range store.Abilities() {
		f.Gaps = append(f.Gaps, store.Gap{Ability: a, Reason: "it is bare"})
	}
	return f
}

func LacksAll() map[store.Ability]string {
	m := map[store.Ability]string{}
	for _, a := range store.Abilities() {
		m[a] = "it is bare"
	}
	return m
}

// MutantLimit is the payload limit of mutants: large payloads prove no more.
const MutantLimit = 4096

// ByName finds a mutant.
func ByName(t *testing.T, name string) mutant.Mutant {
	t.Helper()
	i := slices.IndexFunc(mutant.All(), func(m mutant.Mutant) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no mutant %s", name)
	}
	return mutant.All()[i]
}

// SetFlag gives a flag a value for the time of a test.
func SetFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
}
