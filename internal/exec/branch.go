package exec

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Branch is one line of execution in a run. Its operations come one after the
// other; what is concurrent is a branch of its own.
type Branch struct {
	inv      *Invocation
	path     string // empty: the main one
	next     int    // index of the next operation
	uses     map[string]int
	forks    map[string]int
	marks    map[string]markState
	obsolete string  // the last mark whose old path the run follows, and the code no longer has
	active   string  // the operation under way
	returned bool    // its function returned or its end is known
	shield   *shield // of a cleanup; nil: it heeds the cancel
	exited   string  // the step whose function has ended the branch's goroutine

	done    chan struct{} // closed when its goroutine has ended; nil for the main one
	joiners []*Branch     // those that wait for done
	promise string        // of a promise: what it is called; empty: it is a branch
	made    int           // promises that it has made
	err     error
	value   any
}

func newBranch(inv *Invocation, path string) *Branch { return &Branch{inv: inv, path: path} }

// Invocation returns the invocation that b belongs to.
func (b *Branch) Invocation() *Invocation { return b.inv }

// Path names the branch; the main one's is empty.
func (b *Branch) Path() string { return b.path }

// Context is what the workflow's own code may pass on: it ends when the run is
// canceled, taken over or its worker stops waiting for it.
func (b *Branch) Context() context.Context { return b.inv.ctx }

// Now is the store's clock as the worker can tell it.
func (b *Branch) Now() time.Time { return b.inv.Now() }

func (b *Branch) describe() string {
	if b.promise != "" {
		return b.promise
	}
	if b.path == "" {
		return "the main branch"
	}
	return fmt.Sprintf("branch %q", b.path)
}

// Fork starts a concurrent branch, under its own name, and returns it.
func (b *Branch) Fork(name string, fn func(child *Branch) (any, error)) (*Branch, error) {
	return b.fork(name, b.shield, fn)
}

func (b *Branch) fork(name string, sh *shield, fn func(child *Branch) (any, error)) (*Branch, error) {
	if err := store.ValidateName("branch name", name); err != nil {
		return nil, err
	}
	if strings.ContainsAny(name, "/#") {
		return nil, store.Invalid("branch name", fmt.Sprintf(`%q contains "/" or "#", which separate the parts of a branch's path`, name))
	}
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	path := b.forkPathLocked(name)
	if err := store.ValidateName("branch path", path); err != nil {
		return nil, err
	}
	child := newBranch(inv, path)
	child.shield = sh
	child.done = make(chan struct{})
	inv.history.fork(b.path, path)
	inv.presence.live++
	go child.run(fn)
	return child, nil
}

// forkPathLocked is the path of the next fork with this name.
func (b *Branch) forkPathLocked(name string) string {
	if b.forks == nil {
		b.forks = make(map[string]int)
	}
	b.forks[name]++
	path := name
	if n := b.forks[name]; n > 1 {
		path = fmt.Sprintf("%s#%d", name, n)
	}
	if b.path != "" {
		path = b.path + "/" + path
	}
	return path
}

// run calls the function of a forked branch on a goroutine of its own.
func (b *Branch) run(fn func(child *Branch) (any, error)) {
	defer b.inv.leave(b)
	defer b.inv.catch(b.describe())
	v, err := fn(b)
	b.returned = true
	b.inv.locked(func() {
		b.value, b.err = v, err
		if key, ok := b.unvisitedLocked(); ok {
			b.inv.returnedEarlyLocked(b.describe(), key)
		}
	})
}

// unvisitedLocked returns the first recorded operation that the branch, which has returned,
// has not come to; none when the run was interrupted or closed. It gives up the lock while
// it reads.
func (b *Branch) unvisitedLocked() (store.StepKey, bool) {
	inv := b.inv
	for !inv.ending.closed && !inv.interruption.any() {
		if key, ok := inv.history.past(b.path, b.next); ok {
			return key, true
		}
		if !inv.history.more {
			break
		}
		inv.loadStepsLocked()
	}
	return store.StepKey{}, false
}

// endLocked closes the branch; those who wait for it go on.
func (b *Branch) endLocked() {
	if b.done != nil {
		b.inv.presence.joined(b)
		close(b.done)
	}
}

// Join waits for a branch that was forked and returns what it returned.
func (b *Branch) Join(child *Branch) (any, error) {
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	select {
	case <-child.done:
	default:
		inv.presence.join(b, child)
		inv.checkIdleLocked()
		inv.unlocked(func() {
			select {
			case <-child.done:
			case <-inv.ending.done:
			}
		})
		inv.exitIfClosedLocked()
	}
	return child.value, child.err
}

// Promise makes an end that branches may wait for with Join, and that one of them
// brings about with Resolve.
func (b *Branch) Promise() *Branch {
	b.inv.mu.Lock()
	defer b.inv.mu.Unlock()
	b.made++
	p := newBranch(b.inv, "")
	p.promise = fmt.Sprintf("promise %d of %s", b.made, b.describe())
	p.done = make(chan struct{})
	return p
}

// Resolve ends a promise. Only the first one counts; it is told so.
func (b *Branch) Resolve(v any, err error) (first bool) {
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	if b.returned {
		return false
	}
	b.returned, b.value, b.err = true, v, err
	b.endLocked()
	return true
}
