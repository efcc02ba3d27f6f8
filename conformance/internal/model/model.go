// Package model implements the contract of package store in the simplest way: one mutex, plain
// maps, and one critical section for each method. The results of random operations on real backends
// are compared with its results, and the engine runs on it in simulated time. It stores nothing on
// disk.
package model

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Options changes what a Store enforces.
type Options struct {
	PayloadLimit int  // 0: store.DefaultPayloadLimit
	Transactions bool // the store is a store.Transactor, by *Tx
}

// Store is the model.
type Store struct {
	limits store.Limits
	hub    store.Hub

	mu             sync.Mutex
	closed         bool
	runs           map[store.ID]*run
	live           map[store.ID]*run        // those of runs that are not final
	holders        map[external]store.ID    // P8: who holds an external id
	debounced      map[debounceKey]store.ID // the last run that was created with a key
	replaced       map[name]replacement     // by the IDs of the starts
	children       map[store.ID][]store.ID  // by parent, in the order of spawning
	workers        map[name]*store.Worker
	workflows      map[name]store.Workflow
	paused         map[target]time.Time // since when
	locks          map[name]lock
	schedules      map[name]*schedule
	rules          map[name]*limit        // the limits that exist
	keys           map[limitKey]*keyState // what is known of keys beside the leases
	turns          map[name]int64         // the virtual clocks of limits
	actions        []action
	subscriptions  map[name]store.Subscription
	changes        []Waiting // by Seq
	changeSeq      int64
	counted        map[limitKey]int64                    // the permits, during a claim
	breaks         LimitFault                            // 0: none
	breaksDebounce DebounceFault                         // 0: none
	edges          map[limitKey]time.Time                // for LimitBurstTwice
	leaked         map[limitKey]int64                    // permits without a lease, of a fault
	at             time.Time                             // of the claim, for LimitForgetsExpired
	offered        []store.ID                            // the runs that claims may return, and purges may delete; nil: all
	deaf           atomic.Pointer[func(store.Hint) bool] // which hints are lost: see LoseHints
	passing        *bound                                // of the runs that a call's commits pass permits on to
	ended          []store.RunCount                      // by the cancels of the item or commit under way
	markers        map[string]int                        // rows of programs: see Tx.Mark

	transactions bool
	open         chan struct{} // closed when the transaction that is open ends; nil: none is
	later        *[]store.Hint // gathers the hints of a transaction
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Hinter     = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
)

type name struct{ namespace, name string }

type external struct{ namespace, id, suffix string }

type target struct{ namespace, queue, workflow string }

// run is a run with everything that belongs to it.
type run struct {
	ended bool // by its holder, who is still the Worker
	store.Run
	steps   []store.Step // by Position
	state   map[string]store.StateEntry
	signals []store.Signal          // unread, in the order of sending
	had     map[store.SignalID]bool // every signal that ever came: P4
	sent    []store.SignalID        // the same, in the order of sending
	answers map[store.SignalID]store.GivenAnswer
	groups  map[string]*store.Group

	items    []store.StreamItem // of its streams, by Position
	position int64              // the last one that was given

	// These fields describe the last lease. They are kept after its end, so that a repeated
	// transition is recognized (P4).
	holder string
	seq    int64
	claim  int64 // the ClaimID of the last lease
	build  string

	// While the run sleeps: what ends the sleep besides its time.
	wakes  store.WakeOn
	awaits []store.Await

	resume store.Status // while paused: what it is to be again

	charged bool // the attempt has taken the tokens of the run's limits

	passed store.Lease // that the end of the run has passed its permits on to
}

// New makes an empty store.
func New(opts Options) *Store {
	if opts.PayloadLimit == 0 {
		opts.PayloadLimit = store.DefaultPayloadLimit
	}
	return &Store{
		limits:    store.Limits{Payload: opts.PayloadLimit, Warn: max(1, opts.PayloadLimit/2)},
		runs:      map[store.ID]*run{},
		live:      map[store.ID]*run{},
		holders:   map[external]store.ID{},
		debounced: map[debounceKey]store.ID{},
		replaced:  map[name]replacement{},
		children:  map[store.ID][]store.ID{},
		workers:   map[name]*store.Worker{},
		workflows: map[name]store.Workflow{},
		paused:    map[target]time.Time{},
		locks:     map[name]lock{},
		schedules: map[name]*schedule{},
		rules:     map[name]*limit{},

		subscriptions: map[name]store.Subscription{},
		keys:          map[limitKey]*keyState{},
		turns:         map[name]int64{},
		edges:         map[limitKey]time.Time{},
		leaked:        map[limitKey]int64{},
		markers:       map[string]int{},

		transactions: opts.Transactions,
	}
}

// enter begins a method that writes. If it returns no error, the caller holds the mutex and no
// transaction is open.
func (s *Store) enter(ctx context.Context, invalid error) error {
	for {
		err := s.look(ctx, invalid)
		if err != nil || s.open == nil {
			return err
		}
		over := s.open
		s.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look begins a method that reads. If it returns no error, the caller holds the mutex. A call whose
// context is done or whose params are invalid reads nothing.
func (s *Store) look(ctx context.Context, invalid error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if invalid != nil {
		return invalid
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("model store is closed: %w", store.ErrUnavailable)
	}
	return nil
}

// Diagnose implements store.Diagnoser.
func (s *Store) Diagnose(ctx context.Context) ([]store.Finding, error) {
	if err := s.look(ctx, nil); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return []store.Finding{{Name: "memory", Seen: fmt.Sprintf("%d runs, which end with this process", len(s.runs))}}, nil
}

func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if err := s.look(ctx, nil); err != nil {
		return time.Time{}, err
	}
	defer s.mu.Unlock()
	return clock(time.Time{}), nil
}

func (s *Store) Features() store.Features {
	return store.Features{Name: "model", Contract: 2, Hints: true, Transactions: s.transactions, Durability: store.Volatile}
}

func (s *Store) Limits() store.Limits { return s.limits }

func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.hub.Close()
	return nil
}

func (s *Store) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if err := s.look(ctx, nil); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.hub.Subscribe(ctx, topics...)
}

// publish sends the hints of a write. In a transaction they are sent after the commit.
func (s *Store) publish(hints ...store.Hint) {
	if s.later != nil {
		*s.later = append(*s.later, hints...)
		return
	}
	s.hub.Publish(hints...)
}

// hintDue sends a hint that a run can be claimed at a new time.
func (s *Store) hintDue(r *run) {
	if r.Status != store.Paused && !r.VisibleAt.IsZero() {
		s.hint(store.Hint{Kind: store.HintQueue, Namespace: r.Namespace, Queue: r.Queue})
	}
}

func (s *Store) hintRun(kind store.HintKind, r *run) {
	s.hint(store.Hint{Kind: kind, Namespace: r.Namespace, Run: r.ID})
}

// hint sends a hint to all listeners.
func (s *Store) hint(h store.Hint) {
	if lost := s.deaf.Load(); lost == nil || !(*lost)(h) {
		s.publish(h)
	}
}

// find returns the run with an ID, or nil if the namespace has none (P15).
func (s *Store) find(namespace string, id store.ID) *run {
	if r := s.runs[id]; r != nil && r.Namespace == namespace {
		return r
	}
	return nil
}

// leased reports whether a worker holds the run. An expired lease counts until another worker takes
// over.
func (r *run) leased() bool { return r.Worker != "" && !r.ended }

// asleep reports whether events can change the run's time. A paused run that sleeps is woken too,
// and is awake when it is resumed.
func (r *run) asleep() bool {
	return r.Status == store.Sleeping || r.Status == store.Paused && r.resume == store.Sleeping
}

// wake makes a sleeping run claimable now. It does not change an earlier time, so that further
// events do not move the run to the end of the queue.
func (s *Store) wake(r *run, now time.Time) {
	r.VisibleAt = earliest(r.VisibleAt, now)
	s.hintDue(r)
}

// row returns a copy of a run for a caller.
func (r *run) row() store.Run {
	out := r.Run
	out.Input, out.Output, out.Meta = bytes.Clone(r.Input), bytes.Clone(r.Output), bytes.Clone(r.Meta)
	out.Failure, out.Digest = cloneFailure(r.Failure), digest(r.Digest)
	out.Pin = clonePin(r.Pin)
	out.Under, out.StepUnder, out.Tags = slices.Clone(r.Under), slices.Clone(r.StepUnder), r.Tags.Clone()
	return out
}

func cloneFailure(f *store.Failure) *store.Failure {
	if f == nil {
		return nil
	}
	c := *f
	c.Details = bytes.Clone(f.Details)
	return &c
}

func cloneStep(st store.Step) store.Step {
	st.Output, st.Failure, st.Earlier = bytes.Clone(st.Output), cloneFailure(st.Failure), slices.Clone(st.Earlier)
	for i := range st.Earlier {
		st.Earlier[i].StartedAt = micro(st.Earlier[i].StartedAt)
	}
	if len(st.Earlier) == 0 {
		st.Earlier = nil
	}
	return st
}

func compareIDs(a, b store.ID) int { return bytes.Compare(a[:], b[:]) }

func notFound(id store.ID) error { return fmt.Errorf("run %s: %w", id, store.ErrNotFound) }

// finished is the error for a run that is final.
func finished(r *run) error { return fmt.Errorf("run %s is %v: %w", r.ID, r.Status, store.ErrFinished) }

// clock returns the time of a call whose Now is now: the store's own time if now is zero.
func clock(now time.Time) time.Time {
	if now.IsZero() {
		now = time.Now()
	}
	return micro(now)
}

// micro returns a time as it is stored.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// after returns the time d later, in whole microseconds.
func after(t time.Time, d time.Duration) time.Time { return t.Add(whole(d)) }

// whole returns a duration as it is stored: rounded up, so that nothing happens before its time.
func whole(d time.Duration) time.Duration {
	r := d.Truncate(time.Microsecond)
	if r < d {
		r += time.Microsecond
	}
	return r
}

// earliest returns the earlier time, where zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func oneOf[T comparable](list []T, v T) bool { return len(list) == 0 || slices.Contains(list, v) }
