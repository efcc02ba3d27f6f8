package backend_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/examples/backend"
	"github.com/pawlhq/pawl/examples/backend/bolt"
	"github.com/pawlhq/pawl/store"
)

// counting counts the commits of a database.
type counting struct {
	backend.DB
	commits *int
}

type countingTx struct {
	backend.Tx
	commits *int
}

func (d counting) Begin(write bool) (backend.Tx, error) {
	tx, err := d.DB.Begin(write)
	return countingTx{tx, d.commits}, err
}

func (t countingTx) Commit() error {
	*t.commits++
	return t.Tx.Commit()
}

func open(t *testing.T) (s *backend.Store, commits *int) {
	t.Helper()
	commits = new(int)
	opener := func(ctx context.Context, path string) (backend.DB, error) {
		db, err := bolt.Open(ctx, path)
		return counting{db, commits}, err
	}
	s, err := backend.Open(t.Context(), filepath.Join(t.TempDir(), "pawl.db"), opener, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, commits
}

// A worker at rest writes nothing.
func TestIdleClaimWritesNothing(t *testing.T) {
	t.Parallel()
	s, commits := open(t)
	_, err := s.Claim(t.Context(), store.ClaimParams{
		Namespace: "ns", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"wf"}, Max: 5}},
	})
	if err != nil || *commits != 0 {
		t.Errorf("saw %d commits, error %v, expected neither", *commits, err)
	}
}

// JSON cannot write every time.
func TestTimeBeyondJSON(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	run := store.NewRun{ID: store.NewID(), Workflow: "wf", Queue: "q", At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}
	_, err := s.Create(t.Context(), store.CreateParams{Namespace: "ns", Runs: []store.NewRun{run}})
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("saw %v, expected an error that matches ErrInvalid", err)
	}
}
