package sqlite_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// hasty is the prefix of the place of a store that acknowledges writes before it executes them.
const hasty = "hasty:"

// openPlace opens the file of a place, in any process.
func openPlace(ctx context.Context, place string) (store.Store, error) {
	if path, ok := strings.CutPrefix(place, hasty); ok {
		s, err := sqlite.Open(ctx, path)
		return &hastyStore{Store: s}, err
	}
	return sqlite.Open(ctx, place)
}

func TestDurable(t *testing.T) {
	t.Parallel()
	conformance.RunDurable(t, conformance.DurableHarness{New: file, Open: openPlace})
}

// hastyStore delays some writes until the next call. It closes properly, so that only a kill
// reveals it.
type hastyStore struct {
	store.Store
	mu   sync.Mutex
	left []func()
}

func (s *hastyStore) later(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, write)
}

func (s *hastyStore) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, write := range s.left {
		write()
	}
	s.left = nil
}

func (s *hastyStore) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	s.later(func() { _, _ = s.Store.SetState(ctx, p) })
	return []store.StateEntry{{}}, nil
}

func (s *hastyStore) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	s.later(func() { _, _ = s.Store.Signal(ctx, p) })
	return []store.SignalResult{{}}, nil
}

func (s *hastyStore) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	s.flush()
	return s.Store.Create(ctx, p)
}

func (s *hastyStore) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	s.flush()
	return s.Store.Commit(ctx, p)
}

func (s *hastyStore) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	s.flush()
	return s.Store.Claim(ctx, p)
}

func (s *hastyStore) Close() error {
	s.flush()
	return s.Store.Close()
}

// watched is a TB whose failure is recorded instead of reported.
type watched struct {
	testing.TB
	said strings.Builder
}

func (w *watched) Error(args ...any)                 { fmt.Fprintln(&w.said, args...) }
func (w *watched) Errorf(format string, args ...any) { fmt.Fprintf(&w.said, format+"\n", args...) }
func (w *watched) Fatal(args ...any)                 { w.Error(args...); runtime.Goexit() }
func (w *watched) Fatalf(format string, args ...any) { w.Errorf(format, args...); runtime.Goexit() }

// TestDurableFindsAHastyStore checks that a kill reveals a store that delays its writes, although
// the store survives any orderly restart.
func TestDurableFindsAHastyStore(t *testing.T) {
	t.Parallel()
	w := &watched{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conformance.RunDurable(w, conformance.DurableHarness{New: func(t testing.TB) string { return hasty + file(t) }, Open: openPlace})
	}()
	<-done
	require.Contains(t, w.said.String(), "was acknowledged and")
	require.Regexp(t, `(state|signals): saw "[^"]*", expected "`, w.said.String())
}
