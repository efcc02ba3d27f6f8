package exec

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// addStepsLocked adds recorded steps to the history. Signals that an earlier lease has
// skipped stay unread.
func (inv *Invocation) addStepsLocked(steps []store.Step, more bool) {
	inv.history.add(steps, more)
	for i := range steps {
		if s := &steps[i]; s.Kind == store.KindSignal && s.Status == store.StepFailed {
			if bad := recordedBad(s); bad.Signal != nil {
				inv.inbox.passOver(*bad.Signal)
			}
		}
	}
}

// recordedLocked returns the recorded operation of the branch, or nil if there is none.
// It releases the lock while it reads.
func (b *Branch) recordedLocked(index int) *store.Step {
	inv := b.inv
	for {
		if s := inv.history.at(b.path, index); s != nil || !inv.history.more {
			return s
		}
		inv.loadStepsLocked()
	}
}

// loadStepsLocked reads the next page of the history, or waits until another goroutine
// has read it. It ends the calling goroutine if the invocation was closed in the
// meantime.
func (inv *Invocation) loadStepsLocked() {
	h := &inv.history
	if h.reading {
		for h.reading {
			inv.changed.Wait()
			inv.exitIfClosedLocked()
		}
		return
	}
	h.reading = true
	after := h.readTo
	var page store.StepPage
	inv.unlocked(func() { page = inv.stepsAfter(after) })
	h.reading = false
	inv.changed.Broadcast()
	inv.exitIfClosedLocked()
	inv.addStepsLocked(page.Steps, page.Next != 0)
}

// stepsAfter reads a page of the history on a goroutine of the run.
func (inv *Invocation) stepsAfter(position int64) (page store.StepPage) {
	inv.ask("the run's steps", func(ctx context.Context, st store.Store, ns string) (err error) {
		page, err = st.Steps(ctx, store.StepsParams{Namespace: ns, Run: inv.run.ID, After: position, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes})
		return err
	})
	return page
}

// ask calls the store on a goroutine of the run. If the run was closed in the meantime,
// or the store refuses, it ends the goroutine.
func (inv *Invocation) ask(what string, call func(ctx context.Context, st store.Store, namespace string) error) {
	err := inv.host.Ask(inv, what, call)
	if err == nil {
		return
	}
	if err != ErrShutdown {
		inv.SetAside(err)
	}
	inv.Lose() // has no effect if the invocation has already ended
	exit()
}

// misfitLocked makes the failure of a run whose history does not match the code. If the
// code has received a decode error, that error explains why it took another path than
// before.
func (inv *Invocation) misfitLocked(format string, args ...any) *store.Failure {
	if inv.undecoded != nil {
		return &store.Failure{Code: CodeDecode, Message: fmt.Sprintf("%v; after that the recorded history does not match the code: ", inv.undecoded) + fmt.Sprintf(format, args...) +
			". Run code whose type accepts the payload, and restart the run"}
	}
	return &store.Failure{Code: CodeNondeterministic, Message: "the recorded history does not match the code: " + fmt.Sprintf(format, args...) +
		". Run the code that recorded it, or give the changed workflow a new name or version"}
}

// mismatchLocked ends a run whose history does not fit the code, and the goroutine: see
// misfitsLocked.
func (inv *Invocation) mismatchLocked(m misfit, format string, args ...any) {
	inv.misfitsLocked(m, inv.misfitLocked(format, args...))
	exit()
}
