// Package backend is a whole backend of Pawl on ordered keys with transactions: an
// example to copy, and the running one of docs/new-backend.md.
//
// What it needs of a database is [DB], an interface of eight methods. Packages bolt and
// pebble implement it, and [Register] makes backends.Open know them.
//
// Each verb of the contract is one transaction. A verb loads runs, applies the rules of package
// storekit to them, and saves them; saving a run brings all indexes up to date. See
// keys.go for what is stored under which key.
package backend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Store is a handle to a database. All handles of a process to one path share
// the database.
type Store struct {
	limits store.Limits
	shared *shared
	hub    store.Hub

	closing sync.RWMutex // calls hold it shared
	closed  bool
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Hinter     = (*Store)(nil)
	_ store.Importer   = (*Store)(nil)
	_ store.Exporter   = (*Store)(nil)
	_ store.Journal    = (*Store)(nil)
	_ store.Ranker     = (*Store)(nil)
	_ store.Streamer   = (*Store)(nil)
	_ store.TreeReader = (*Store)(nil)
	_ store.Outboxer   = (*Store)(nil)
	_ store.Diagnoser  = (*Store)(nil)
)

// shared is an open database with its handles.
type shared struct {
	path   string
	db     DB
	writer chan struct{} // holds a token while a transaction writes

	mu      sync.Mutex
	handles map[*Store]bool
}

// open has the databases that are open in this process, by their paths.
var open struct {
	sync.Mutex
	paths map[string]*shared
}

// Register makes the URLs of a scheme known to backends.Open: bolt:pawl.db, say. Parameters
// of the URL are left unread.
func Register(scheme string, opener Opener) {
	backends.Register(scheme, backends.Backend{
		Open: func(ctx context.Context, url string, c backends.Config) (store.Store, error) {
			path, _, _ := strings.Cut(strings.TrimPrefix(url, scheme+":"), "?")
			if path == "" {
				return nil, store.Invalid("database URL", fmt.Sprintf("%q names no file; one looks like %s:pawl.db", url, scheme))
			}
			var limits store.Limits
			if c.Limits != nil {
				limits = *c.Limits
			}
			s, err := Open(ctx, path, opener, limits)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

// Open opens the store at a path. Limits that are zero have their defaults.
func Open(ctx context.Context, path string, opener Opener, limits store.Limits) (*Store, error) {
	limits, err := limits.OrDefault()
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, store.Invalid("database", err.Error())
	}
	open.Lock()
	defer open.Unlock()
	d := open.paths[path]
	if d == nil {
		db, err := opener(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w: %w", path, store.ErrUnavailable, err)
		}
		d = &shared{path: path, db: db, writer: make(chan struct{}, 1), handles: map[*Store]bool{}}
		if open.paths == nil {
			open.paths = map[string]*shared{}
		}
		open.paths[path] = d
	}
	s := &Store{limits: limits, shared: d}
	d.mu.Lock()
	d.handles[s] = true
	d.mu.Unlock()
	return s, nil
}

// Close implements [store.Store]. It waits for the calls under way.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.hub.Close()
	open.Lock()
	defer open.Unlock()
	d := s.shared
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.handles, s); len(d.handles) > 0 {
		return nil
	}
	delete(open.paths, d.path)
	return d.db.Close()
}

// Features implements [store.Store].
func (s *Store) Features() store.Features {
	return store.Features{Name: "keys", Contract: 2, Hints: true}
}

// Path is where the database is.
func (s *Store) Path() string { return s.shared.path }

// Limits implements [store.Store].
func (s *Store) Limits() store.Limits { return s.limits }

// Clock implements [store.Store].
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	return view(ctx, s, nil, noTime, func(t *tx) (time.Time, error) { return t.now, nil })
}

// Hints implements [store.Hinter].
func (s *Store) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	leave, err := s.enter(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.hub.Subscribe(ctx, topics...)
}

// publish hands hints to the subscribers of all handles.
func (d *shared) publish(hints []store.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.handles {
		s.hub.Publish(hints...)
	}
}

// noTime is the Now of calls that have none.
var noTime time.Time

// enter begins a call. A call whose context is done or whose params are invalid touches
// nothing.
func (s *Store) enter(ctx context.Context, invalid error) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if invalid != nil {
		return nil, invalid
	}
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return nil, fmt.Errorf("the store is closed: %w", store.ErrUnavailable)
	}
	return s.closing.RUnlock, nil
}

// view runs a verb that only reads. Now is the call's.
func view[T any](ctx context.Context, s *Store, invalid error, now time.Time, do func(*tx) (T, error)) (out T, err error) {
	leave, err := s.enter(ctx, invalid)
	if err != nil {
		return out, err
	}
	defer leave()
	t, err := s.begin(false, now)
	if err != nil {
		return out, err
	}
	defer t.tx.Rollback()
	return attempt(t, do)
}

// update runs a verb that writes, and commits if it returns no error.
func update[T any](ctx context.Context, s *Store, invalid error, now time.Time, do func(*tx) (T, error)) (out T, err error) {
	leave, err := s.enter(ctx, invalid)
	if err != nil {
		return out, err
	}
	defer leave()
	select {
	case s.shared.writer <- struct{}{}:
		defer func() { <-s.shared.writer }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	t, err := s.begin(true, now)
	if err != nil {
		return out, err
	}
	defer t.tx.Rollback()
	switch out, err = attempt(t, do); {
	case err != nil:
		return *new(T), err
	case !t.wrote: // a claim that found nothing, say
		return out, nil
	}
	if err := t.tx.Commit(); err != nil {
		return *new(T), fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
	}
	s.shared.publish(t.hints)
	return out, nil
}

func (s *Store) begin(write bool, now time.Time) (*tx, error) {
	t, err := s.shared.db.Begin(write)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	v := &tx{tx: t, now: storekit.Now(now), limits: s.limits}
	if write {
		v.runs = map[store.ID]*loaded{}
	}
	return v, nil
}

// attempt runs a verb. A failure of the database ends it by a panic ([check]), which
// attempt makes an error again: nothing of the transaction is applied then.
func attempt[T any](t *tx, do func(*tx) (T, error)) (out T, err error) {
	defer func() {
		if v := recover(); v != nil {
			failed, ok := v.(failure)
			if !ok {
				panic(v)
			}
			if err = failed.error; !errors.Is(err, store.ErrInvalid) {
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
		}
	}()
	return do(t)
}

// failure is a failure of the database, or of a value that it cannot hold, on its way from [check] to [attempt].
type failure struct{ error }

// check ends the verb if the database has failed. With it, reads and writes need no error
// of their own, which there would be hundreds of.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Diagnose implements [store.Diagnoser].
func (s *Store) Diagnose(ctx context.Context) ([]store.Finding, error) {
	return view(ctx, s, nil, noTime, func(t *tx) ([]store.Finding, error) {
		found := store.Finding{Name: "records", Seen: "every run can be read"}
		n := 0
		for p := range t.scan(keyOf(kindRun).All(), false) {
			var r storekit.Run
			if err := read(p.Value, &r); err != nil {
				return []store.Finding{{Name: "records", Level: store.Fault, Seen: err.Error(), Advice: "restore a backup"}}, nil
			}
			if n++; n == diagnosed || ctx.Err() != nil {
				break
			}
		}
		return []store.Finding{found}, ctx.Err()
	})
}

// diagnosed is how many runs Diagnose reads at most.
const diagnosed = 10_000
