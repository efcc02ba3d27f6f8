package workflow

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// GenerateOption configures a [Generate]: an [ItemsOption], or one of [Batch],
// [Window], [ItemKey] and [GeneratorStep].
type GenerateOption interface{ applyGenerate(*generateOptions) }

type generateOptions struct {
	exec.GenerateOptions
	key func(item any) (string, error)
}

func (o ItemsOption) applyGenerate(to *generateOptions) { o(&to.ItemOptions) }

type generateOption func(*generateOptions)

func (o generateOption) applyGenerate(to *generateOptions) { o(to) }

// Batch sets how many items are spawned by one write. Fewer are when the generator
// has made no more for a moment, or when they are large. Default: 100.
func Batch(n int) GenerateOption { return generateOption(func(o *generateOptions) { o.Batch = n }) }

// Window bounds the items that are spawned and not final, over all workers: yield
// waits while there are as many. Default: 10,000.
func Window(n int) GenerateOption {
	return generateOption(func(o *generateOptions) { o.AtOnce = int64(n) })
}

// ItemKey tells items apart: of several with the same key one is spawned, the first,
// also when a generator that is started again yields them in another order. Without it
// an item is known by its place in the stream. The keys may have any length.
func ItemKey[Item any](key func(item Item) string) GenerateOption {
	return generateOption(func(o *generateOptions) {
		o.Keyed = true
		o.key = func(item any) (string, error) {
			i, ok := item.(Item)
			if !ok {
				var want Item
				return "", Permanent(store.Invalid("item key", fmt.Sprintf("its function is for a %T, and the item is a %T", want, item)))
			}
			return key(i), nil
		}
	})
}

// GeneratorStep sets how the generator itself is run and tried again, as for a
// [Step].
func GeneratorStep(opts ...StepOption) GenerateOption {
	return generateOption(func(o *generateOptions) {
		for _, opt := range opts {
			opt(&o.Step)
		}
	})
}

// ErrYieldEnded: an item was yielded after its generator had returned.
var ErrYieldEnded = exec.ErrYieldEnded

// Generated tells what became of the items of a generator.
type Generated struct {
	Spawned   int64 // items in all, duplicates counted once
	Completed int64
	Failed    int64
	Canceled  int64
}

// Generate runs a workflow for each item that a generator yields, while it yields
// them: items go to child runs, in batches, and no list of them is kept anywhere. The
// step ends when the generator has returned and all items are final; once the
// generator has returned, this run sleeps and holds no slot.
//
// The generator runs like the function of a [Step], with a step's context, and may
// take hours. It is tried again as [GeneratorStep] says, and run again when its worker
// has died: then it yields its items again from the first one, and those that were
// spawned before are dropped. It must yield the same items in the same order for
// that; where it cannot, give the items keys with [ItemKey]. A generator that can go
// on where it was is for [GenerateFrom].
//
// yield may be called by several goroutines. It waits while too many items are not
// final ([Window]). It fails, and takes no item, when the generator's context has
// ended, because the run is canceled, say, or too many items have failed, or when the
// generator has returned ([ErrYieldEnded]); the generator should return then. An item
// that is too large gives an error that names its place and matches
// store.ErrTooLarge; the generator may leave it out and go on.
//
// When the generator has failed for good the error is a [*StepError]; with [FailFast]
// the items that are not final are canceled, otherwise they come to their end before.
// Items that fail give an [*ItemsError], as for [Map]. A step that failed is done anew
// when this run is tried again or restarted; so is one whose items were canceled with
// this run.
//
// How far the step has come can be seen with engine.Engine.Progress.
func Generate[Item, Out any](ctx Context, name string, generator func(ctx context.Context, yield func(Item) error) error, item *Workflow[Item, Out], opts ...GenerateOption) (Generated, error) {
	if generator == nil {
		return Generated{}, store.Invalid("generator "+name, "its function is nil")
	}
	return generate(ctx, name, item, opts, false, func(gctx context.Context, g *exec.Generator, take func(Item, []byte) error) error {
		return generator(gctx, func(i Item) error { return take(i, nil) })
	})
}

// GenerateSeq is [Generate] for a sequence: seq returns one for each attempt. An
// error in it fails the attempt.
func GenerateSeq[Item, Out any](ctx Context, name string, seq func(ctx context.Context) iter.Seq2[Item, error], item *Workflow[Item, Out], opts ...GenerateOption) (Generated, error) {
	if seq == nil {
		return Generated{}, store.Invalid("generator "+name, "its function is nil")
	}
	return Generate(ctx, name, func(gctx context.Context, yield func(Item) error) error {
		for i, err := range seq(gctx) {
			if err != nil {
				return err
			}
			if err := yield(i); err != nil {
				return err
			}
		}
		return nil
	}, item, opts...)
}

// GenerateFrom is [Generate] for a generator that can go on where it was. With each
// item it yields a cursor: from where to go on behind this item. The cursor of the
// last item that was spawned is recorded with it, and given to the generator when it
// is run again; at first from is zero. So no item is spawned twice, and none left out,
// without a look at those of before.
func GenerateFrom[Item, Cursor, Out any](ctx Context, name string, generator func(ctx context.Context, from Cursor, yield func(Item, Cursor) error) error, item *Workflow[Item, Out], opts ...GenerateOption) (Generated, error) {
	if generator == nil {
		return Generated{}, store.Invalid("generator "+name, "its function is nil")
	}
	return generate(ctx, name, item, opts, true, func(gctx context.Context, g *exec.Generator, take func(Item, []byte) error) error {
		var from Cursor
		if data := g.Cursor(); data != nil {
			if err := decodeInto(ctx.codec, data, &from, "the cursor of generator %q", name); err != nil {
				return Permanent(ctx.branch.Invocation().CheckInStep(err))
			}
		}
		return generator(gctx, from, func(i Item, next Cursor) error {
			data, err := ctx.codec.Marshal(next)
			if ctx.branch.Invocation().CheckInStep(err) != nil {
				return Permanent(fmt.Errorf("the cursor of generator %q, a %T, cannot be encoded: %w", name, next, err))
			}
			return take(i, data)
		})
	})
}

func generate[Item, Out any](ctx Context, name string, item *Workflow[Item, Out], opts []GenerateOption, cursored bool, run func(ctx context.Context, g *exec.Generator, take func(Item, []byte) error) error) (Generated, error) {
	if item == nil {
		return Generated{}, store.Invalid("generator "+name, "its workflow is nil")
	}
	if item.err != nil {
		return Generated{}, fmt.Errorf("generator %q: %w", name, item.err)
	}
	var o generateOptions
	o.Batch, o.Cursored, o.Step = 100, cursored, stepOptions(nil)
	o.ItemOptions = exec.ItemOptions{Workflow: item.name, Queue: item.queue, AtOnce: 10_000}
	for _, opt := range opts {
		opt.applyGenerate(&o)
	}
	switch {
	case o.Batch < 1 || o.Batch > store.MaxBatch:
		return Generated{}, store.Invalid("generator "+name, fmt.Sprintf("batches of %d items: allowed are 1 to %d", o.Batch, store.MaxBatch))
	case o.AtOnce < 1:
		return Generated{}, store.Invalid("generator "+name, fmt.Sprintf("a window of %d lets no item run", o.AtOnce))
	}
	o.Batch = min(o.Batch, int(o.AtOnce))
	if err := checkItems(fmt.Sprintf("generator %q", name), o.ItemOptions); err != nil {
		return Generated{}, err
	}
	end, err := ctx.branch.Generate(name, o.GenerateOptions, func(gctx context.Context, g *exec.Generator) error {
		return run(gctx, g, func(i Item, cursor []byte) error {
			data, err := item.item(ctx, "an item of generator "+name, i)
			if err != nil {
				return err
			}
			key := ""
			if o.key != nil {
				if key, err = o.key(i); err != nil {
					return err
				}
			}
			return g.Yield(data, key, cursor)
		})
	})
	if err != nil {
		return Generated{}, err
	}
	return Generated{Spawned: end.Spawned, Completed: end.Completed, Failed: end.Failed, Canceled: end.Canceled}, itemsError(end, item.name)
}
