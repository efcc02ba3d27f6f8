package model

import (
	"context"
	"errors"
	"sync"

	"github.com/pawlhq/pawl/conformance/internal/relay"
	"github.com/pawlhq/pawl/store"
)

// Remote is the model behind a network. Each call is one request, which can be hit by a fault. Each
// error says what Remote knows of the request's outcome (P16).
type Remote struct {
	relay.Relay
	Store *Store
	// Says, if set, turns an error of the network into the store's error; write: the method writes.
	Says func(verb string, write bool, err error) error

	mu     sync.Mutex
	fault  Fault
	left   int // requests up to the one that meets it
	met    chan struct{}
	healed chan struct{}
}

// Tamper changes what the model has stored, beside the network.
func (r *Remote) Tamper(id store.ID, do func(Row)) { r.Store.Tamper(id, do) }

// Fault is a fault of package conformance with the same number.
type Fault uint8

// The faults.
const (
	Refused Fault = 1 + iota
	Before
	After
	Silent
	Cut
	Delayed
)

// NewRemote puts a network before a store.
func NewRemote(s *Store) *Remote {
	r := &Remote{Store: s}
	r.Relay = relay.Relay{Store: s, Pass: func(ctx context.Context, verb string, params any, call func() error) error {
		return r.request(ctx, verb, verb == "Claim" || relay.Writes(verb, params), call)
	}}
	return r
}

// Arm makes a fault hit the nth request from now on.
func (r *Remote) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.left, r.met, r.healed = f, nth, make(chan struct{}), make(chan struct{})
	healed := r.healed
	return r.met, sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fault = 0
		close(healed)
	})
}

// next returns the fault that hits a request.
func (r *Remote) next() (f Fault, met func(), healed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == 0 {
		return 0, nil, nil
	}
	if r.left--; r.left != 0 {
		return 0, nil, nil
	}
	f, r.fault = r.fault, 0
	happened := r.met
	return f, func() { close(happened) }, r.healed
}

var errLost = errors.New("the connection is gone")

// request sends a request. The server executes do.
func (r *Remote) request(ctx context.Context, verb string, write bool, do func() error) error {
	f, met, healed := r.next()
	if f == 0 {
		return do()
	}
	err := meets(ctx, f, met, healed, write, do)
	if r.Says != nil && err != nil {
		return r.Says(verb, write, err)
	}
	return err
}

// meets applies a fault to a request.
func meets(ctx context.Context, f Fault, met func(), healed <-chan struct{}, write bool, do func() error) error {
	lost := errors.Join(errLost, store.ErrUnavailable)
	if write {
		lost = errors.Join(errLost, store.ErrOutcomeUnknown)
	}
	switch f {
	case Delayed:
		met()
		<-healed
		return do()
	case Refused:
		met()
		return errors.Join(errLost, store.ErrUnavailable)
	case Before:
		met()
		return lost
	case Silent:
		_ = do()
		met()
		<-ctx.Done()
		if write {
			return errors.Join(ctx.Err(), store.ErrOutcomeUnknown)
		}
		return ctx.Err()
	}
	_ = do()
	met()
	return lost
}
