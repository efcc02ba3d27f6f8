package sqlitecore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// slowServer is a Runner that refuses writes of more than most runs, and records the runs of the others.
type slowServer struct {
	most, tries int
	writes      [][]store.ID
}

func (s *slowServer) Read(context.Context, []Stmt) error { return nil }

func (s *slowServer) Write(_ context.Context, stmts []Stmt) error {
	s.tries++
	var runs []store.ID
	for _, stmt := range stmts {
		switch {
		case stmt.SQL == keepMany || stmt.SQL == finalMany.quiet || stmt.SQL == endMany.quiet:
			return fmt.Errorf("%w: %w", ErrTooLong, store.ErrUnavailable)
		case strings.Contains(stmt.SQL, commitFence): // the run is the fifth from the end of the arguments
			runs = append(runs, store.ID(stmt.Args[len(stmt.Args)-5].([]byte)))
		}
	}
	if len(runs) > s.most {
		return fmt.Errorf("%w: %w", ErrTooLong, store.ErrUnavailable)
	}
	s.writes = append(s.writes, runs)
	return nil
}

// TestCommitsThatTakeTooLong checks that a server that ends long transactions gets the commits of a
// call in parts, in order, and that it gets no more at once than maxApart with statements of their own.
func TestCommitsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, most := range []int{1, 30, 1000} {
		s := &slowServer{most: most}
		c := New(s, Config{
			Clock:  func(context.Context) (time.Time, time.Time, error) { return now, now, nil },
			Limits: store.Limits{Payload: store.DefaultPayloadLimit}, Batched: true, Publish: func(...store.Hint) {},
		})
		p, want := store.CommitParams{Namespace: "ns", Now: now}, []store.ID{}
		for i := range 350 {
			m := store.Commit{Lease: store.Lease{Run: store.NewID(), Worker: "w", Epoch: 1}, Seq: 1, Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal}}
			if i%7 == 0 || i > 300 {
				m.Transition = &store.Transition{Kind: store.CompleteRun}
			}
			p.Commits, want = append(p.Commits, m), append(want, m.Lease.Run)
		}
		_, err := c.Commit(t.Context(), p)
		require.NoError(t, err)
		var got []store.ID
		for _, part := range s.writes {
			require.LessOrEqual(t, len(part), min(most, maxApart))
			got = append(got, part...)
		}
		require.Equal(t, want, got)
		require.Less(t, s.tries, 2*len(want)+20)
	}
}
