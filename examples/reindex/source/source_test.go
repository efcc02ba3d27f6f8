package source

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fresh(t *testing.T, docs int) *Source {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "source.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Load(t.Context(), docs))
	return s
}

// The log, replayed, gives the documents, whatever is written, and by whoever.
func TestTheLogTellsAll(t *testing.T) {
	s := fresh(t, 50)
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	done := make(chan error)
	for seed := range uint64(2) {
		go func() { done <- Writer{Source: s, Docs: 50, Rate: 2000, Seed: seed}.Run(ctx) }()
	}
	for range 2 {
		require.NoError(t, <-done)
	}

	replayed, deleted := map[string]Document{}, 0
	after := int64(0)
	for {
		changes, err := s.Changes(t.Context(), after, 7)
		require.NoError(t, err)
		if len(changes) == 0 {
			break
		}
		for _, c := range changes {
			require.Greater(t, c.Offset(), after, "in order")
			after = c.Offset()
			require.WithinDuration(t, time.Now(), c.At, time.Minute)
			if c.Deleted {
				deleted++
				delete(replayed, c.ID)
			} else {
				require.Greater(t, c.Version, replayed[c.ID].Version)
				replayed[c.ID] = c.Document
			}
		}
	}
	end, err := s.End(t.Context())
	require.NoError(t, err)
	require.Equal(t, after, end)
	require.Positive(t, deleted)
	require.Greater(t, end, int64(100), "the writers wrote")

	count := 0
	for last := ""; ; {
		page, err := s.Page(t.Context(), last, 9)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			require.Equal(t, replayed[d.ID], d)
			require.Greater(t, d.ID, last)
			last = d.ID
			count++
		}
	}
	require.Len(t, replayed, count)
	n, err := s.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, count, n)
	for i := range Pinned {
		require.Contains(t, replayed, ID(i), "a pinned document")
	}
}

// A snapshot does not see what is written behind it, and holds no writer up.
func TestSnapshot(t *testing.T) {
	s := fresh(t, 5)
	snap, err := s.Snapshot(t.Context())
	require.NoError(t, err)
	defer snap.Close()
	require.NoError(t, s.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Put(t.Context(), "new", "a", "b")
		return err
	}))
	require.EqualValues(t, 5, snap.End())
	n := 0
	for d, err := range snap.Documents(t.Context()) {
		require.NoError(t, err)
		require.NotEqual(t, "new", d.ID)
		n++
	}
	require.Equal(t, 5, n)
}

// Documents and log change together or not at all, and a source is filled once.
func TestWriteFails(t *testing.T) {
	s := fresh(t, 5)
	require.ErrorIs(t, s.Write(t.Context(), func(tx *Tx) error {
		if _, err := tx.Delete(t.Context(), ID(1)); err != nil {
			return err
		}
		return context.Canceled
	}), context.Canceled)
	require.NoError(t, s.Load(t.Context(), 5))
	end, err := s.End(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, end)
	n, err := s.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

func TestHash(t *testing.T) {
	d := Document{Title: "a", Body: "bc"}
	require.Equal(t, d.Hash(), Document{ID: "x", Version: 3, Title: "a", Body: "bc"}.Hash())
	require.NotEqual(t, d.Hash(), Document{Title: "ab", Body: "c"}.Hash())
}
