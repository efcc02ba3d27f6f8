package exec

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// ErrConcurrent means that an operation began in a branch in which another was running.
var ErrConcurrent = errors.New("concurrent use of one branch")

// durable performs a durable operation of a branch: a step, a sleep, a signal, and so on.
// It owns the lock and the replay.
//
// If the operation's outcome is recorded, the operation has ended, and replay returns the
// outcome. It is called without the lock. A nil replay means that do handles the replay
// itself.
//
// Otherwise do performs the operation. It is called with the lock, and releases it only
// through unlocked. It appends records to the outbox, and waits with waitLocked.
//
// Either function may end the goroutine; see exit.
func durable[T any](b *Branch, kind store.StepKind, name string, replay, do func(o *op) (T, error)) (out T, err error) {
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	o, err := b.beginLocked(kind, name)
	if err != nil {
		return out, err
	}
	if replay != nil && o.recorded != nil && o.recorded.Status.Final() {
		o.endLocked()
		inv.unlocked(func() { out, err = replay(o) })
		return out, err
	}
	out, err = do(o)
	if o.endsNew() {
		inv.awaitFrontLocked(o.recorded == nil)
	}
	o.endLocked()
	return out, err
}

// none is the outcome of an operation that has none.
type none struct{}

// isDone is the replay of an operation that has no outcome.
func isDone(*op) (none, error) { return none{}, nil }

// op is an executing operation.
type op struct {
	b         *Branch
	key       store.StepKey
	kind      store.StepKind
	index     int
	position  int64
	attempt   int                   // the attempt that is next or executing
	executing bool                  // the step's function is running
	began     time.Time             // when the branch reached the operation; for a function, when its attempt began
	earlier   []store.FailedAttempt // earlier attempts, as the record keeps them
	recorded  *store.Step           // the operation's record in the history, or nil
	staged    []store.StreamWrite   // items of streams for the record of a function
	forgotten bool                  // it has ended without a record
	published []store.StateWrite    // by the step's function, for the commit of its record
}

// beginLocked starts an operation: it finds the operation's record and refuses operations
// that are not allowed.
func (b *Branch) beginLocked(kind store.StepKind, name string) (*op, error) {
	inv := b.inv
	inv.exitIfClosedLocked()
	if err := b.freeLocked(name); err != nil {
		return nil, err
	}
	if err := store.ValidateName("step name", name); err != nil {
		return nil, err
	}
	if b.uses == nil {
		b.uses = make(map[string]int)
	}
	s := b.comeToLocked(kind, name)
	o := &op{b: b, kind: kind, index: b.next, key: store.StepKey{Branch: b.path, Name: name, Occurrence: b.uses[name] + 1}, attempt: 1, began: time.Now()}
	if s != nil {
		if s.Name != name || s.Kind != kind {
			b.otherLocked(o, s)
		}
		b.obsolete = ""
		o.recorded, o.position = s, s.Position
		o.resumeLocked(s)
	}
	// A child that was started stays started; only the wait for it is interrupted.
	done := o.recorded != nil && (o.recorded.Status.Final() || kind == store.KindChild)
	if b.interruptedLocked() && !done {
		return nil, inv.interruption.err()
	}
	if o.recorded != nil {
		inv.history.visit(b.path, o.index)
	}
	b.frontLocked(o)
	b.next++
	b.uses[name]++
	if o.position == 0 {
		o.position = inv.history.newPosition()
	}
	b.active = name
	return o, nil
}

// freeLocked refuses an operation while another one is in progress in the branch.
func (b *Branch) freeLocked(name string) error {
	switch b.active {
	case "":
		return nil
	case name:
		return fmt.Errorf("%w: step %q is used twice at the same time in %s; run each in its own branch, with workflow.Go or a Group", ErrConcurrent, name, b.describe())
	}
	return fmt.Errorf("%w: step %q began in %s while %q was still running; run concurrent steps in branches of their own, with workflow.Go or a Group, and begin no step inside another", ErrConcurrent, name, b.describe(), b.active)
}

// endLocked lets the branch begin its next operation.
func (o *op) endLocked() { o.b.active = "" }

// endsNew reports whether the code is about to learn an outcome that the history does not
// have. A child, and the limit of a cleanup, go on while the code does.
func (o *op) endsNew() bool {
	recorded := o.recorded != nil && o.recorded.Status.Final()
	return !recorded && !o.forgotten && o.kind != store.KindChild && o.key.Name != CleanupLimit
}

// forgetLocked undoes the beginning of an operation that has no record.
func (o *op) forgetLocked() {
	o.forgotten = true
	o.b.next--
	o.b.uses[o.key.Name]--
}

// record makes a record of the operation.
func (o *op) record(status store.StepStatus) store.StepRecord {
	return store.StepRecord{StepKey: o.key, Kind: o.kind, Status: status, Position: o.position, Index: o.index, Attempt: o.attempt, Earlier: o.earlier}
}

// since makes a record of something that outlasts this invocation. It began when the run
// first reached it: as its record says, or just now.
func (o *op) since(status store.StepStatus) store.StepRecord {
	r := o.record(status)
	if o.recorded != nil && o.kind == store.KindGenerator && len(o.recorded.Earlier) > 0 {
		r.StartedAt = o.recorded.Earlier[0].StartedAt // while a retry waits, the record is of the last attempt
	} else if o.recorded != nil {
		r.StartedAt = o.recorded.StartedAt
	} else {
		r.Took = time.Since(o.began)
	}
	return r
}

// appendLocked adds a record that has no due time to the next commit.
func (o *op) appendLocked(r store.StepRecord) { o.b.inv.outbox.add(r, time.Time{}) }

// finishLocked adds the operation's last record to the next commit, which is sent soon
// even if the run's code takes a while until its next operation.
func (o *op) finishLocked(r store.StepRecord) {
	o.appendLocked(r)
	o.b.inv.lingerLocked()
}

// resumeLocked resumes an operation at its record, which is not final. An attempt that
// was executing when its worker died is repeated under the same number.
func (o *op) resumeLocked(s *store.Step) {
	if s.Status.Final() {
		return
	}
	o.attempt, o.earlier = max(1, s.Attempt), s.Earlier
	if s.Status == store.StepPending {
		o.nextAttempt(s.Failure, s.StartedAt)
	}
}

// nextAttempt advances to the attempt after a failed one. Of the earlier attempts it
// keeps the first one and the last ones.
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
