package workflow

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// ItemsOption configures the items of [Map], [Reduce] and [Generate].
type ItemsOption func(*itemOptions)

type itemOptions exec.ItemOptions

// FailFast, the default, makes the step fail with the first item that fails or is canceled.
// The items that are not final are then canceled, and the step ends when all of them have
// ended.
func FailFast() ItemsOption { return func(o *itemOptions) { o.Failures = 0 } }

// Tolerate lets n items fail or be canceled. With one more, the step fails as with [FailFast]. A
// negative n means 0.
func Tolerate(n int) ItemsOption {
	return func(o *itemOptions) { o.Failures = max(0, int64(n)) }
}

// Collect lets every item run to its end. If some did not complete, the step returns the outputs of
// the others and an [*ItemsError] that lists them.
func Collect() ItemsOption { return func(o *itemOptions) { o.Failures = exec.AnyFailures } }

// ItemQueue puts the items into another queue than their workflow's. A worker that has the
// workflow must serve that queue: see worker.Queues.
func ItemQueue(name string) ItemsOption { return func(o *itemOptions) { o.Queue = name } }

// ItemPriority sets the items' priority, from -100 to 100. Runs of higher priority are
// claimed first. The default is 0.
func ItemPriority(p int) ItemsOption { return func(o *itemOptions) { o.Priority = p } }

// ItemTimeout gives each item a deadline, counted from when it is spawned. The default, also for 0, is
// none.
func ItemTimeout(d time.Duration) ItemsOption {
	return func(o *itemOptions) { o.Timeout = d }
}

// ItemTags gives each item tags, as [engine.Tags] does for a start.
func ItemTags(tags map[string]string) ItemsOption {
	return func(o *itemOptions) { o.Tags.Own = store.Tags(tags).Clone() }
}

// ItemsInheritTags gives each item the tags that this run has when it spawns the item, in addition to
// those of [ItemTags], whose values win.
func ItemsInheritTags() ItemsOption { return func(o *itemOptions) { o.Tags.Inherit = true } }

func checkItems(of string, o itemOptions) error {
	r := store.NewRun{ID: store.NewID(), Workflow: o.Workflow, Queue: cmp.Or(o.Queue, o.Workflow), Priority: o.Priority, Timeout: o.Timeout, Tags: o.Tags.Own}
	if err := r.Validate(store.Limits{}); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}

// ItemsError is the error of a [Map], [Reduce] or [Generate] of which more items failed than were
// allowed. It is made from what is recorded, so that it is the same live and replayed. It matches
// engine.ErrFailed, or engine.ErrCanceled, if an item in Items does.
type ItemsError struct {
	Step      store.StepKey
	Spawned   int64 // items in all
	Completed int64
	Failed    int64
	Canceled  int64 // by anyone, also because others had failed
	// Items contains the first thousand items that did not complete: those that failed, then those
	// that were canceled, each in the order of their places. The first hundred have their failure,
	// with its message truncated to a kilobyte.
	Items []*ItemError
}

// Error returns a text with the step's key, the counts, and the first of Items.
func (e *ItemsError) Error() string {
	msg := fmt.Sprintf("step %s: of %d items, %d failed and %d were canceled", e.Step, e.Spawned, e.Failed, e.Canceled)
	if len(e.Items) > 0 {
		msg += "; " + e.Items[0].Error()
	}
	return msg
}

// Unwrap returns the items' errors, each an [*ItemError].
func (e *ItemsError) Unwrap() []error {
	errs := make([]error, len(e.Items))
	for i := range e.Items {
		errs[i] = e.Items[i]
	}
	return errs
}

// ItemError is the error of an item that failed or was canceled.
type ItemError struct {
	// Index is the item's place, from 0: in the slice of a [Map], or in the order in which
	// a generator yielded it. Messages and records count from 1.
	Index int
	Err   *engine.RunError
}

// Error returns a text with the item's number, counted from 1, and the run's error.
func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Index+1, e.Err) }

// Unwrap returns the run's error.
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
