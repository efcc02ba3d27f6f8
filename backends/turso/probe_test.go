package turso_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func TestProbe(t *testing.T) {
	s := open(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	ctx := context.Background()
	last := s.Counters()
	show := func(what string, begin time.Time) {
		c := s.Counters()
		fmt.Printf("%-20s trips %d read %d written %d  %v\n", what, c.RoundTrips-last.RoundTrips, c.RowsRead-last.RowsRead, c.RowsWritten-last.RowsWritten, time.Since(begin))
		last = c
	}
	show("open", time.Now())
	cp := store.ClaimParams{Namespace: "n", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"f"}, Max: 10}}}
	for range 3 {
		b := time.Now()
		_, err := s.Claim(ctx, cp)
		require.NoError(t, err)
		show("idle claim", b)
	}
	for range 2 {
		b := time.Now()
		s.Expect()
		_, err := s.Claim(ctx, cp)
		require.NoError(t, err)
		show("empty write claim", b)
	}
	for range 3 {
		b := time.Now()
		_, err := s.Create(ctx, store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "f", Queue: "q", Input: []byte(`{}`)}}})
		require.NoError(t, err)
		show("create", b)
		b = time.Now()
		got, err := s.Claim(ctx, cp)
		require.NoError(t, err)
		require.Len(t, got.Runs, 1)
		show("claim", b)
		l := got.Runs[0].Lease
		step := func(n int64) store.StepRecord {
			return store.StepRecord{StepKey: store.StepKey{Name: fmt.Sprint("s", n), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: n, Attempt: 1, Output: []byte(`{}`)}
		}
		for i := range int64(2) {
			b = time.Now()
			r, err := s.Commit(ctx, store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: l, Seq: i + 1, Steps: []store.StepRecord{step(i + 1)}}}})
			require.NoError(t, err)
			require.NoError(t, r[0].Err)
			show("commit step", b)
		}
		b = time.Now()
		r, err := s.Commit(ctx, store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: l, Seq: 3, Steps: []store.StepRecord{step(3)}, Transition: &store.Transition{Kind: store.Complete}}}})
		require.NoError(t, err)
		require.NoError(t, r[0].Err)
		show("commit last", b)
	}
	ch, err := s.Hints(ctx)
	require.NoError(t, err)
	for i := range 5 {
		_, err := s.Create(ctx, store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "f", Queue: "q", Input: []byte(`{}`)}}})
		require.NoError(t, err)
		_ = i
	}
	end := time.After(time.Second)
	for {
		select {
		case h := <-ch:
			fmt.Println(h)
		case <-end:
			show("a second", time.Now())
			return
		}
	}
}
