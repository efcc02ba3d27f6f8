package workflow

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ItemsOption configures the items of [Map], [Reduce] and [Generate] alike.
type ItemsOption func(*exec.ItemOptions)

// FailFast, the default, lets the step fail with the first item that fails or is
// canceled: the items that are not final are canceled then, and the step ends when
// all of them have ended.
func FailFast() ItemsOption { return func(o *exec.ItemOptions) { o.Failures = 0 } }

// Tolerate lets n items fail or be canceled; with one more the step fails as with
// [FailFast].
func Tolerate(n int) ItemsOption {
	return func(o *exec.ItemOptions) { o.Failures = max(0, int64(n)) }
}

// Collect lets every item come to its end. When some did not complete, the step
// returns what the others gave and an [*ItemsError] that lists them.
func Collect() ItemsOption { return func(o *exec.ItemOptions) { o.Failures = exec.AnyFailures } }

// ItemQueue puts the items into another queue than their workflow's, which a worker that has
// it must serve: see worker.Queues.
func ItemQueue(name string) ItemsOption { return func(o *exec.ItemOptions) { o.Queue = name } }

// ItemPriority sets the items' priority, from -100 to 100; higher is claimed first.
func ItemPriority(p int) ItemsOption { return func(o *exec.ItemOptions) { o.Priority = p } }

// ItemTimeout gives each item a deadline, counted from when it is spawned.
func ItemTimeout(d time.Duration) ItemsOption {
	return func(o *exec.ItemOptions) { o.Timeout = d }
}

func checkItems(of string, o exec.ItemOptions) error {
	r := store.NewRun{ID: store.NewID(), Workflow: o.Workflow, Queue: o.Queue, Priority: o.Priority, Timeout: o.Timeout}
	if err := r.Validate(store.Limits{}); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}

// ItemsError is the error of a [Map], [Reduce] or [Generate] whose items failed, more
// than were allowed. It is made of what is recorded, and the same live and replayed.
// It matches engine.ErrFailed, or engine.ErrCanceled, when an item in Items does.
type ItemsError struct {
	Step      store.StepKey
	Spawned   int64 // items in all
	Completed int64
	Failed    int64
	Canceled  int64 // by whomever, also because others had failed
	// Items names the items that failed, and then those that were canceled, each in
	// the order of their places: the first thousand. The first hundred have their
	// failure, its message cut to a kilobyte.
	Items []*ItemError
}

func (e *ItemsError) Error() string {
	msg := fmt.Sprintf("step %s: of %d items %d failed and %d were canceled", e.Step, e.Spawned, e.Failed, e.Canceled)
	if len(e.Items) > 0 {
		msg += "; " + e.Items[0].Error()
	}
	return msg
}

// Unwrap gives the items' errors.
func (e *ItemsError) Unwrap() []error {
	errs := make([]error, len(e.Items))
	for i := range e.Items {
		errs[i] = e.Items[i]
	}
	return errs
}

// ItemError is an item that failed or was canceled.
type ItemError struct {
	// Index is the item's place, from 0, where messages and records count from 1: in the slice of a [Map], or in the order of yields of
	// a generator; it begins at 0.
	Index int
	Err   *engine.RunError
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Index+1, e.Err) }

// Unwrap gives the run's error.
func (e *ItemError) Unwrap() error { return e.Err }

// itemsError makes the error of a step with items; nil when it completed.
func itemsError(end *exec.ItemsEnd, workflow string) error {
	switch {
	case end.Failure != nil:
		return &StepError{Key: end.Key, Attempts: end.Attempts, Failure: end.Failure}
	case !end.ItemsFailed:
		return nil
	}
	e := &ItemsError{Step: end.Key, Spawned: end.Spawned, Completed: end.Completed, Failed: end.Failed, Canceled: end.Canceled}
	for _, f := range end.Failures {
		e.Items = append(e.Items, &ItemError{Index: int(f.Place - 1), Err: &engine.RunError{Run: f.Run, Workflow: workflow, Status: f.Status, Failure: f.Failure}})
	}
	return e
}
