package random

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

func TestRandomOnTheModel(t *testing.T) {
	Run(t, harness.Harness{New: suitetest.NewModel})
}

// A store may have a limit of its own to the bytes of a page of steps.
func TestRandomAllowsShorterPages(t *testing.T) {
	Run(t, harness.Harness{New: func(t testing.TB) store.Store { return shortPages{suitetest.NewModel(t)} }})
}

// shortPages sends one step per page unless the call limits the bytes.
type shortPages struct{ store.Store }

func (s shortPages) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	if p.MaxBytes == 0 {
		p.MaxBytes = 1
	}
	return s.Store.Steps(ctx, p)
}

// Random sequences find each fault, and one of the first three sequences that find it is reduced to
// few operations.
func TestRandomFindsFaults(t *testing.T) {
	for name, fault := range map[string]func(store.Store) store.Store{
		"commit of any epoch":       func(s store.Store) store.Store { return suitetest.AnyEpoch{Store: s} },
		"signals never repeated":    func(s store.Store) store.Store { return suitetest.FreshSignals{Store: s} },
		"sleep that overlooks":      func(s store.Store) store.Store { return suitetest.BlindSleep{Store: s} },
		"claim before its time":     func(s store.Store) store.Store { return suitetest.FastClock{Store: s} },
		"empty bytes read as nil":   func(s store.Store) store.Store { return suitetest.EmptyIsNil{Store: s} },
		"commit without transition": func(s store.Store) store.Store { return suitetest.Forgetful{Store: s} },
		"cancel without a cleanup":  func(s store.Store) store.Store { return suitetest.Abrupt{Store: s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fault(suitetest.NewModel(t))
			r := &random{ctx: t.Context(), handles: [2]store.Store{s, s}, limits: s.Limits(), reached: map[string]int{}}
			sequences := r.drawn()
			found, few := 0, 5
			for seed := 0; seed < 200 && found < 3; seed++ {
				q := sequences.Example(seed)
				if q.difference == "" {
					continue
				}
				found++
				if q = q.reduce(); q.difference == "" {
					t.Errorf("sequence %d: reduced it shows no difference any more", seed)
				}
				t.Logf("sequence %d:%#v\n%s", seed, q, q.difference)
				if len(q.ops) <= few {
					return
				}
			}
			t.Errorf("saw %d sequences with a difference, none of which was reduced to %d operations; expected one", found, few)
		})
	}
}

// If a commit names a later epoch and number, the claims and commits before it can still be left
// out.
func TestReduceLeavesOutLeases(t *testing.T) {
	s := suitetest.BlindSleep{Store: suitetest.NewModel(t)}
	r := &random{ctx: t.Context(), handles: [2]store.Store{s, s}, limits: s.Limits(), reached: map[string]int{}}
	q := r.newSequence(nil)
	ns, run := q.ns("a"), q.ids[0]
	perform := func(verb string, params any, call func(context.Context, store.Store, any) (any, error)) {
		t.Helper()
		op := drawn{Operation: ops.Operation{Verb: verb, Params: params, Call: call}, leases: q.standings(params)}
		q.ops = append(q.ops, op)
		_, err := q.execute(op, true)
		require.NoError(t, err)
		q.before = q.look()
		q.now = q.now.Add(time.Second)
	}
	signal := func() {
		p := store.SignalParams{Namespace: ns, Signals: []store.NewSignal{{ID: q.sigs[len(q.ops)], Run: run, Name: "go"}}, Now: q.now}
		perform("Signal", p, func(ctx context.Context, s store.Store, p any) (any, error) {
			return s.Signal(ctx, p.(store.SignalParams))
		})
	}
	commit := func(c store.Commit) {
		p := store.CommitParams{Namespace: ns, Commits: []store.Commit{c}, Now: q.now}
		perform("Commit", p, func(ctx context.Context, s store.Store, p any) (any, error) {
			return s.Commit(ctx, p.(store.CommitParams))
		})
	}
	perform("Create", store.CreateParams{Namespace: ns, Runs: []store.NewRun{{ID: run, Workflow: "f1", Queue: "q1"}}, Now: q.now},
		func(ctx context.Context, s store.Store, p any) (any, error) {
			return s.Create(ctx, p.(store.CreateParams))
		})
	const claims, commits = 4, 3
	for range claims {
		p := store.ClaimParams{Namespace: ns, Worker: "w1", Demands: []store.Demand{{Queue: "q1", Workflows: randomWorkflows, Max: 1}}, LeaseFor: time.Millisecond, Now: q.now}
		perform("Claim", p, func(ctx context.Context, s store.Store, p any) (any, error) {
			return ops.Claimed(s, ctx, p.(store.ClaimParams))
		})
	}
	lease := store.Lease{Run: run, Worker: "w1", Epoch: claims}
	signal()
	for seq := range int64(commits) {
		commit(store.Commit{Lease: lease, Seq: 1 + seq, Seen: 1})
	}
	signal()
	require.Empty(t, q.difference)
	commit(store.Commit{Lease: lease, Seq: 1 + commits, Seen: 1, Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal}})
	require.NotEmpty(t, q.difference, "the fault shows")
	q = q.reduce()
	require.Len(t, q.ops, 4, "a create, a claim, a signal and a commit are enough:%#v", q)
}
