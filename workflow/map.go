package workflow

import (
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// MapOption configures a [Map] or a [Reduce]: it is an [ItemsOption] or [AtOnce].
type MapOption interface{ applyMap(*itemOptions) }

func (o ItemsOption) applyMap(to *itemOptions) { o(to) }

type mapOption func(*itemOptions)

func (o mapOption) applyMap(to *itemOptions) { o(to) }

// AtOnce limits the items that are spawned and not final, over all workers: n are spawned, and more
// as items become final. The default, also for 0, is no limit: all are spawned at once, and workers
// take them as they have slots. With a negative n the step fails with store.ErrInvalid.
func AtOnce(n int) MapOption { return mapOption(func(o *itemOptions) { o.AtOnce = int64(n) }) }

// Map runs a workflow for each item, as child runs that any worker takes, and returns their outputs
// in the order of the items. This run sleeps meanwhile and wakes once, or each time that [AtOnce]
// lets it spawn more. The retries of an item are set by its workflow: the attempts of its steps,
// and [RunAttempts].
//
// Items that fail are handled as [FailFast], [Tolerate] or [Collect] say. The error is an
// [*ItemsError], and the outputs of items that did not complete are zero. A step that
// failed this way is done anew, with all its items, when this run is tried again or
// restarted; likewise a step whose items were canceled with this run.
//
// The items must be the same each time that this run is replayed: take them from its input
// or from a step. Outputs of up to 64 KB together are recorded with this run. Larger ones
// stay with the items, where each replay reads them again, some megabytes at a time;
// retention keeps the items for as long as this run is not final. If you do not need the
// list of outputs, use [Reduce].
func Map[In, Out any](ctx Context, name string, items []In, item Callable[In, Out], opts ...MapOption) ([]Out, error) {
	called, err := calleeOf("map "+name, item)
	if err != nil {
		return nil, err
	}
	outs := make([]Out, len(items))
	var bad error
	end, err := runMap(ctx, name, items, called, opts, exec.Visitor{
		Begin: func() { clear(outs); bad = nil },
		Item: func(i int, output []byte) error {
			if err := decodeItem(ctx, called, name, i, output, &outs[i]); err != nil && bad == nil {
				bad = err
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if err := itemsError(end, called.name); err != nil {
		return outs, err
	}
	return outs, bad
}

// Reduce is a [Map] that folds the outputs, in the order of the items, and does not keep
// the list: outputs are read some megabytes at a time. The last result of fold is recorded,
// like the result of a [Step], and comes back as it was encoded and decoded. A replay does
// not fold again.
//
// Fold gets the result of the fold before, at first initial, and the outputs of the items
// that completed, with their places. It must have no side effects: it may be called again
// for the same outputs. Its error fails the step.
func Reduce[In, Out, Acc any](ctx Context, name string, items []In, item Callable[In, Out], initial Acc, fold func(acc Acc, i int, out Out) (Acc, error), opts ...MapOption) (Acc, error) {
	var result Acc
	if fold == nil {
		return result, store.Invalid("reduce "+name, "its fold function is nil")
	}
	called, err := calleeOf("reduce "+name, item)
	if err != nil {
		return result, err
	}
	acc := initial
	end, err := runMap(ctx, name, items, called, opts, exec.Visitor{
		Begin: func() { acc = initial },
		Item: func(i int, output []byte) error {
			var out Out
			err := decodeItem(ctx, called, name, i, output, &out)
			if err == nil {
				acc, err = fold(acc, i, out)
			}
			return err
		},
		Result: func() ([]byte, error) { return encode(ctx, name, acc) },
	})
	if err != nil {
		return result, err
	}
	err = itemsError(end, called.name)
	if end.Result != nil {
		if bad := decode(ctx, name, end.Result, &result); bad != nil && err == nil {
			err = bad
		}
	}
	return result, err
}

func runMap[In any](ctx Context, name string, items []In, called callee, opts []MapOption, v exec.Visitor) (*exec.ItemsEnd, error) {
	o := itemOptions{Workflow: called.name, Queue: called.queue, Open: called.open}
	for _, opt := range opts {
		opt.applyMap(&o)
	}
	if o.AtOnce < 0 {
		return nil, store.Invalid("map "+name, fmt.Sprintf("AtOnce(%d) is not positive", o.AtOnce))
	}
	if err := checkItems(fmt.Sprintf("map %q", name), o); err != nil {
		return nil, err
	}
	return ctx.branch.Map(name, exec.ItemOptions(o), len(items), func(i int) (exec.ChildInput, error) {
		return encodeItem(ctx, called, fmt.Sprintf("item %d of map %s", i+1, name), items[i])
	}, v)
}

func decodeItem[Out any](ctx Context, called callee, name string, i int, output []byte, out *Out) error {
	return Permanent(decodeOwn(ctx.branch, ctx.codec, output, out, "the output of item %d of %s, a run of workflow %q,", i+1, name, called.name))
}
