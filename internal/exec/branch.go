package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Invocation is the branch's.
func (b *Branch) Invocation() *Invocation { return b.inv }

// Path names the branch; the main one's is empty.
func (b *Branch) Path() string { return b.path }

func (b *Branch) describe() string {
	if b.promise != "" {
		return b.promise
	}
	if b.path == "" {
		return "the main branch"
	}
	return fmt.Sprintf("branch %q", b.path)
}

// op is an operation under way.
type op struct {
	b         *Branch
	key       store.StepKey
	kind      store.StepKind
	index     int
	position  int64
	attempt   int                   // the attempt that is next or under way
	executing bool                  // the step's function runs
	began     time.Time             // when the branch came here; of a function, when its attempt began
	earlier   []store.FailedAttempt // before this one, as its record keeps them
	recorded  *store.Step           // what the history has of it; nil: nothing
}

// begin starts an operation, with the invocation locked: it finds what is
// recorded of it and refuses what cannot be. On error the lock is still held.
func (b *Branch) beginLocked(kind store.StepKind, name string) (*op, error) {
	inv := b.inv
	inv.exitIfClosedLocked()
	if b.active != "" {
		if b.active == name {
			return nil, fmt.Errorf("%w: step %q is used twice at the same time in %s; use workflow.Go or a Group, which give each its own branch", ErrConcurrent, name, b.describe())
		}
		return nil, fmt.Errorf("%w: step %q began in %s while %q was still running; use workflow.Go or a Group for what is concurrent, and begin no step inside another", ErrConcurrent, name, b.describe(), b.active)
	}
	if err := store.ValidateName("step name", name); err != nil {
		return nil, err
	}
	if b.uses == nil {
		b.uses = make(map[string]int)
	}
	o := &op{b: b, kind: kind, index: b.next, key: store.StepKey{Branch: b.path, Name: name, Occurrence: b.uses[name] + 1}, attempt: 1, began: time.Now()}
	b.active = name
	s := b.recordedLocked(o.index)
	b.active = ""
	if s != nil {
		if s.Name != name || s.Kind != kind {
			inv.failLocked(nondeterministic(inv, "operation %d of %s was recorded as %s %q, and the code now asks for %s %q",
				o.index+1, b.describe(), s.Kind, s.Name, kind, name))
			inv.exitIfClosedLocked()
		}
		o.recorded, o.position = s, s.Position
		o.resumeLocked(s)
	}
	// A child that was started stays started: who waits for it is interrupted.
	done := o.recorded != nil && (o.recorded.Status.Final() || kind == store.KindChild)
	if b.interruptedLocked() && !done {
		return nil, inv.interruptionLocked()
	}
	if o.recorded != nil {
		b.visitedLocked(o.index)
	}
	b.next++
	b.uses[name]++
	if o.position == 0 {
		o.position = inv.nextPos
		inv.nextPos++
	}
	b.active = name
	return o, nil
}

// ErrConcurrent: an operation began in a branch in which another was running.
var ErrConcurrent = errors.New("concurrent use of one branch")

func (inv *Invocation) interruptionLocked() error {
	if inv.canceling {
		return ErrCanceled
	}
	return ErrDeadline
}

func (o *op) endLocked() { o.b.active = "" }

func (o *op) record(status store.StepStatus) store.StepRecord {
	return store.StepRecord{StepKey: o.key, Kind: o.kind, Status: status, Position: o.position, Index: o.index, Attempt: o.attempt, Earlier: o.earlier}
}

// resumeLocked goes on where the record of an operation that is not final has it. An
// attempt that was under way when its worker died is the same one again.
func (o *op) resumeLocked(s *store.Step) {
	if s.Status.Final() {
		return
	}
	o.attempt, o.earlier = max(1, s.Attempt), s.Earlier
	if s.Status == store.StepPending {
		o.nextAttempt(s.Failure, s.StartedAt)
	}
}

// nextAttempt goes on to the next attempt behind one that has failed. Of those before
// the first one is kept, and the last ones.
func (o *op) nextAttempt(f *store.Failure, startedAt time.Time) {
	failed := store.FailedAttempt{Attempt: o.attempt, StartedAt: startedAt}
	if f != nil {
		failed.Code, failed.Message = cut(f.Code, store.MaxEarlierText), cut(f.Message, store.MaxEarlierText)
	}
	o.earlier = append(slices.Clip(o.earlier), failed)
	if n := len(o.earlier); n > store.MaxEarlier {
		o.earlier = slices.Concat(o.earlier[:1], o.earlier[n-store.MaxEarlier+1:])
	}
	o.attempt++
}

// since makes a record of something that outlasts this invocation. It began when the
// run first came to it: as its record says, or just now.
func (o *op) since(status store.StepStatus) store.StepRecord {
	r := o.record(status)
	if o.recorded != nil && o.kind == store.KindGenerator && len(o.recorded.Earlier) > 0 {
		r.StartedAt = o.recorded.Earlier[0].StartedAt // while a retry waits, its record is of the last attempt
	} else if o.recorded != nil {
		r.StartedAt = o.recorded.StartedAt
	} else {
		r.Took = time.Since(o.began)
	}
	return r
}

// wait is a goroutine that waits for a time, or for an event.
type wait struct {
	due       time.Time     // by this process's clock; zero: none
	storeDue  time.Time     // by the store's, where it is fixed
	wakes     store.WakeOn  // events that may end it
	await     []store.Await // groups of children that may; they tell a run that sleeps, and no other
	spawned   int64         // records that must be durable before the counts of the groups tell of their children
	news      bool          // something has come that the waiting goroutine has not looked at
	interrupt chan struct{}
}

// wake lets the waiting goroutine look again.
func (w *wait) wake() {
	select {
	case w.interrupt <- struct{}{}:
	default:
	}
}

func (w *wait) over() bool { return !w.due.IsZero() && time.Until(w.due) <= 0 }

// waitLocked waits until the due time, or until something has come that may end
// the wait. It ends the goroutine when the run is suspended or closed, and returns
// an error when it is canceled or expired.
func (b *Branch) waitLocked(w *wait) error {
	inv := b.inv
	if w.over() {
		return nil
	}
	inv.exitIfClosedLocked()
	if b.interruptedLocked() {
		return inv.interruptionLocked()
	}
	w.interrupt, w.news = make(chan struct{}, 1), false // what has come so far was looked at
	if inv.waits == nil {
		inv.waits = make(map[*wait]struct{})
	}
	inv.waits[w] = struct{}{}
	if len(w.await) > 0 {
		inv.watchLocked()
	}
	var timeIsUp <-chan time.Time
	if !w.due.IsZero() {
		timer := time.NewTimer(max(time.Until(w.due), 1))
		defer timer.Stop()
		timeIsUp = timer.C
	}
	inv.blocked++
	inv.checkIdleLocked()
	inv.mu.Unlock()
	select {
	case <-timeIsUp:
	case <-w.interrupt:
	case <-inv.done:
	}
	inv.mu.Lock()
	inv.exitIfClosedLocked() // the waits of a suspended run stay: they say when it is due
	delete(inv.waits, w)
	inv.unblockLocked()
	if b.interruptedLocked() {
		return inv.interruptionLocked()
	}
	if b.shield != nil && !w.over() && w.wakes == 0 && len(w.await) == 0 {
		return b.waitLocked(w) // a cancel has woken it, which it does not heed
	}
	return nil
}

// checkIdleLocked suspends the run, or parks it, when all its goroutines wait. It fails
// one whose goroutines wait for nothing but each other.
func (inv *Invocation) checkIdleLocked() {
	if inv.closed || inv.live == 0 || inv.blocked < inv.live || inv.parked {
		return
	}
	if len(inv.joining) == inv.blocked {
		inv.failLocked(inv.deadlockLocked())
		return
	}
	if inv.draining {
		inv.leaveMemoryLocked()
		return
	}
	if inv.pinned > 0 {
		inv.parked = true
		inv.host.Parked(inv)
		return
	}
	soon, events := false, false
	for w := range inv.waits {
		soon = soon || !w.due.IsZero() && time.Until(w.due) <= inv.cfg.Park
		events = events || w.wakes != 0
	}
	if !soon && !events {
		inv.closeLocked(bySuspend)
		return
	}
	inv.parked = true
	inv.host.Parked(inv)
	if !soon {
		time.AfterFunc(inv.cfg.Park, inv.endPark)
	}
}

// maxNamed bounds how many branches a deadlock's failure names.
const maxNamed = 20

// deadlockLocked makes the failure of a run in which every branch waits for another one,
// or for a promise, so that nothing can ever wake it.
func (inv *Invocation) deadlockLocked() *store.Failure {
	waits := make([]string, 0, len(inv.joining))
	for b, end := range inv.joining {
		waits = append(waits, b.describe()+" waits for "+end.describe())
	}
	slices.Sort(waits)
	if n := len(waits); n > maxNamed {
		waits = append(waits[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	return &store.Failure{Code: CodeDeadlock, Message: "the branches of the run wait for each other, and nothing can wake any of them: " + strings.Join(waits, "; ")}
}

// leaveMemoryLocked ends the lease of a run that does nothing but wait and is to be
// given back. What cannot be suspended is done again elsewhere.
func (inv *Invocation) leaveMemoryLocked() {
	if inv.pinned > 0 {
		inv.closeLocked(byRelease)
	} else {
		inv.closeLocked(bySuspend)
	}
}

// leaveLocked ends the calling goroutine, which is about to begin something in a run
// that is to be given back, when what the others are at is done.
func (inv *Invocation) leaveLocked() {
	inv.exitIfClosedLocked()
	inv.pinned++
	inv.blocked++
	inv.checkIdleLocked()
	inv.mu.Unlock()
	<-inv.done
	exit()
}

// endPark suspends a run for which no event has come in the time that it waits in
// memory.
func (inv *Invocation) endPark() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if !inv.parked || inv.closed || inv.pinned > 0 {
		return
	}
	for w := range inv.waits {
		if !w.due.IsZero() && time.Until(w.due) <= inv.cfg.Park {
			return // it is awake soon anyway
		}
	}
	inv.closeLocked(bySuspend)
}

func (inv *Invocation) unblockLocked() {
	inv.blocked--
	if !inv.parked {
		return
	}
	inv.parked = false
	inv.mu.Unlock()
	inv.host.Unparked(inv)
	inv.mu.Lock()
	inv.exitIfClosedLocked()
}

// Sleep waits durably: until a time of the store's clock, or for a duration from
// the first time that the run comes here.
func (b *Branch) Sleep(name string, d time.Duration, until time.Time) error {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindSleep, name)
	if err != nil {
		inv.mu.Unlock()
		return err
	}
	if o.recorded != nil && o.recorded.Status == store.StepCompleted {
		o.endLocked()
		inv.mu.Unlock()
		return nil
	}
	w := &wait{storeDue: until}
	switch {
	case o.recorded != nil:
		w.storeDue = o.recorded.DueAt
		w.due = inv.local(w.storeDue)
	case !until.IsZero():
		w.due = inv.local(until)
	default:
		w.due = o.began.Add(d)
	}
	if o.recorded == nil && time.Until(w.due) > 0 {
		r := o.since(store.StepRunning)
		r.DueAt = until
		if until.IsZero() {
			inv.appendLocked(r, w.due)
		} else {
			inv.appendLocked(r, time.Time{})
		}
	}
	if err = b.waitLocked(w); err == nil {
		r := o.since(store.StepCompleted)
		r.DueAt = w.storeDue
		inv.appendLocked(r, time.Time{})
	}
	o.endLocked()
	inv.mu.Unlock()
	return err
}

// Value records what fn returns, once. fn must be quick and have no side effect.
func (b *Branch) Value(name string, fn func() ([]byte, error)) ([]byte, error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindValue, name)
	if err != nil {
		inv.mu.Unlock()
		return nil, err
	}
	if o.recorded != nil {
		o.endLocked()
		inv.mu.Unlock()
		return o.recorded.Output, nil
	}
	inv.mu.Unlock()
	out, err := fn()
	if err == nil {
		err = inv.checkSize("the value of "+o.key.String(), out)
	}
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	if err != nil {
		b.forgetLocked(o)
	} else {
		inv.makeRoomLocked(len(out))
		r := o.record(store.StepCompleted)
		r.Output = out
		inv.appendLocked(r, time.Time{})
		o.endLocked()
	}
	inv.mu.Unlock()
	return out, err
}

// Fork starts a concurrent branch, under its own name, and returns it.
func (b *Branch) Fork(name string, fn func(child *Branch) (any, error)) (*Branch, error) {
	return b.fork(name, b.shield, fn)
}

func (b *Branch) fork(name string, sh *shield, fn func(child *Branch) (any, error)) (*Branch, error) {
	inv := b.inv
	if err := store.ValidateName("branch name", name); err != nil {
		return nil, err
	}
	if strings.ContainsAny(name, "/#") {
		return nil, store.Invalid("branch name", fmt.Sprintf(`%q contains "/" or "#", which separate the parts of a branch's path`, name))
	}
	inv.mu.Lock()
	inv.exitIfClosedLocked()
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
	if err := store.ValidateName("branch path", path); err != nil {
		inv.mu.Unlock()
		return nil, err
	}
	child := newBranch(inv, path)
	child.shield = sh
	child.done = make(chan struct{})
	inv.live++
	inv.mu.Unlock()
	go func() {
		defer inv.leave(child)
		defer inv.catch(child.describe())
		v, err := fn(child)
		child.returned = true
		inv.mu.Lock()
		child.value, child.err = v, err
		if !inv.closed && !inv.canceling && !inv.expired {
			if key, ok := child.unvisitedLocked(); ok && !inv.canceling && !inv.expired {
				inv.failLocked(nondeterministic(inv, "%s returned, but its history goes on with %s", child.describe(), key))
			}
		}
		inv.mu.Unlock()
	}()
	return child, nil
}

// endLocked closes the branch; those who wait for it go on.
func (b *Branch) endLocked() {
	if b.done != nil {
		b.inv.blocked -= len(b.joiners)
		for _, by := range b.joiners {
			delete(b.inv.joining, by)
		}
		b.joiners = nil
		close(b.done)
	}
}

// Join waits for a branch that was forked and returns what it returned.
func (b *Branch) Join(child *Branch) (any, error) {
	inv := b.inv
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	select {
	case <-child.done:
		inv.mu.Unlock()
	default:
		child.joiners = append(child.joiners, b)
		if inv.joining == nil {
			inv.joining = make(map[*Branch]*Branch)
		}
		inv.joining[b] = child
		inv.blocked++
		inv.checkIdleLocked()
		inv.mu.Unlock()
		select {
		case <-child.done:
		case <-inv.done:
		}
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		inv.mu.Unlock()
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
	inv.exitIfClosedLocked()
	defer inv.mu.Unlock()
	if b.returned {
		return false
	}
	b.returned, b.value, b.err = true, v, err
	b.endLocked()
	return true
}

// Context is what the workflow's own code may pass on: it ends when the run is
// canceled, taken over or its worker stops waiting for it.
func (b *Branch) Context() context.Context { return b.inv.ctx }

// Now is the store's clock as the worker can tell it.
func (b *Branch) Now() time.Time { return b.inv.Now() }
