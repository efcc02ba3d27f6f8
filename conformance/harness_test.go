package conformance

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/store"
)

// The tiers get every field of the harness that an author sets.
func TestHarnessIsHandedOver(t *testing.T) {
	kind := TxKind{
		Name: "a",
		Begin: func(context.Context, store.Store) (ProgramTx, error) {
			return ProgramTx{Commit: func() error { return context.Canceled }}, nil
		},
		Step:   func() (any, func(context.Context, string) error) { return nil, nil },
		Marked: func(context.Context, store.Store, string) (int, error) { return 1, nil },
		Alone:  true,
	}
	var armed Fault
	h := Harness{
		New:        func(testing.TB) store.Store { return nil },
		Reopen:     func(testing.TB, store.Store) store.Store { return nil },
		Rewind:     func(testing.TB, store.Store) func() { return nil },
		Restart:    func(testing.TB, store.Store) store.Store { return nil },
		Exceptions: map[string]string{"a/b": "reason"},
		Lacks:      map[store.Ability]string{store.Hints: "reason"},
		Progress:   true,
		Bubble:     true,
		Faults: func(testing.TB, store.Store) FaultyStore {
			return FaultyStore{Faults: []Fault{FaultSilent}, Arm: func(f Fault, nth int) (<-chan struct{}, func()) { armed = f; return nil, nil }}
		},
		Transactions: []TxKind{kind},
		Meter:        func(testing.TB) Meter { return Meter{Reads: func() int64 { return 7 }} },
		Unmeasured:   "reason",
	}
	sameFields(t, h, h.inner())
	sameFields(t, kind, kind.inner())

	fs := h.inner().Faults(t, nil)
	require.Equal(t, []faults.Fault{faults.Silent}, fs.Faults)
	fs.Arm(faults.Delayed, 1)
	require.Equal(t, FaultDelayed, armed)
	require.EqualValues(t, 7, h.inner().Meter(t).Reads())
	tx, err := kind.inner().Begin(t.Context(), nil)
	require.NoError(t, err)
	require.ErrorIs(t, tx.Commit(), context.Canceled)

	none := Harness{}.inner()
	require.Nil(t, none.Faults, "a hook that is not set stays so")
	require.Nil(t, none.Meter)
	require.Nil(t, none.Transactions)
	require.Nil(t, TxKind{}.inner().Begin)
}

// sameFields expects every field of the public struct to be set, and to be set in the other.
func sameFields(t *testing.T, public, inner any) {
	t.Helper()
	p, in := reflect.ValueOf(public), reflect.ValueOf(inner)
	for i := range p.NumField() {
		name := p.Type().Field(i).Name
		require.False(t, p.Field(i).IsZero(), "the test leaves %s out", name)
		f := in.FieldByName(name)
		require.True(t, f.IsValid() && !f.IsZero(), "%s does not reach the tiers", name)
	}
}

// The public types of the report are those that are written.
func TestReportIsDescribed(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[Report](), reflect.TypeFor[report.Report]()},
		{reflect.TypeFor[TierReport](), reflect.TypeFor[report.TierReport]()},
		{reflect.TypeFor[Tally](), reflect.TypeFor[report.Tally]()},
	} {
		public, inner := pair[0], pair[1]
		require.Equal(t, inner.NumField(), public.NumField(), public.Name())
		for i := range inner.NumField() {
			require.Equal(t, inner.Field(i).Name, public.Field(i).Name)
			require.Equal(t, inner.Field(i).Tag, public.Field(i).Tag, public.Field(i).Name)
		}
	}
}

func TestFaultsAreThoseOfTheTiers(t *testing.T) {
	for public, inner := range map[Fault]faults.Fault{
		FaultRefused: faults.Refused, FaultBefore: faults.Before, FaultAfter: faults.After,
		FaultSilent: faults.Silent, FaultCut: faults.Cut, FaultDelayed: faults.Delayed,
	} {
		require.Equal(t, inner, faults.Fault(public), inner.String())
	}
}
