package bolt_test

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/examples/backend"
	"github.com/pawlhq/pawl/examples/backend/bolt"
	"github.com/pawlhq/pawl/store"
)

func open(t testing.TB, path string) *backend.Store {
	t.Helper()
	s, err := backend.Open(context.Background(), path, openFile, store.Limits{})
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// files has the open databases by their paths, for rewind.
var files sync.Map

func openFile(ctx context.Context, path string) (backend.DB, error) {
	db, err := bolt.Open(ctx, path)
	files.Store(path, db)
	return db, err
}

// harness opens stores in files. Nothing in them waits for anything outside the process, so
// they work in a bubble.
func harness() conformance.Harness {
	return conformance.Harness{
		New:    func(t testing.TB) store.Store { return open(t, filepath.Join(t.TempDir(), "pawl.db")) },
		Reopen: func(t testing.TB, s store.Store) store.Store { return open(t, s.(*backend.Store).Path()) },
		Rewind: rewind,
		Bubble: true,
		Meter:  metered,
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, harness()) }

func TestEngine(t *testing.T) { conformance.RunEngine(t, harness()) }

func TestRandom(t *testing.T) { conformance.RunRandom(t, harness()) }

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, harness()) }

// rewind copies all that a database holds; the function that it returns puts it back in one
// transaction.
func rewind(t testing.TB, s store.Store) (back func()) {
	v, _ := files.Load(s.(*backend.Store).Path())
	db := v.(backend.DB)
	tx := begin(t, db, false)
	defer tx.Rollback()
	then := pairs(t, tx)
	return func() {
		tx := begin(t, db, true)
		defer tx.Rollback()
		for _, p := range pairs(t, tx) {
			ok(t, tx.Delete(p.Key))
		}
		for _, p := range then {
			ok(t, tx.Put(p.Key, p.Value))
		}
		ok(t, tx.Commit())
	}
}

func begin(t testing.TB, db backend.DB, write bool) backend.Tx {
	t.Helper()
	tx, err := db.Begin(write)
	ok(t, err)
	return tx
}

func pairs(t testing.TB, tx backend.Tx) (all []backend.Pair) {
	t.Helper()
	for p, err := range tx.Scan(nil, []byte{0xff}, false) {
		ok(t, err)
		all = append(all, backend.Pair{Key: bytes.Clone(p.Key), Value: bytes.Clone(p.Value)})
	}
	return all
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The package makes its URLs known.
func TestOpenByURL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	for _, url := range []string{"bolt:" + path, "bolt:" + path + "?migrate=false"} {
		s, err := backends.Open(t.Context(), url)
		ok(t, err)
		if got := s.(*backend.Store).Path(); got != path {
			t.Errorf("%s opened %s, expected %s", url, got, path)
		}
		ok(t, s.Close())
	}
	if _, err := backends.Open(t.Context(), "bolt:"); err == nil {
		t.Error("a URL without a file was opened")
	}
}
