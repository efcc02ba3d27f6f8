package workflow

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// GenerateOption configures [Generate]: it is an [ItemsOption], or one of [Batch], [Window],
// [ItemKey], [GeneratorStep] and [Fold].
type GenerateOption interface{ applyGenerate(*generateOptions) }

type generateOptions struct {
	items itemOptions
	step  stepOptions
	batch int
	keyed bool
	key   func(item any) (string, error)
	fold  *folding
}

func (o ItemsOption) applyGenerate(to *generateOptions) { o(&to.items) }

type generateOption func(*generateOptions)

func (o generateOption) applyGenerate(to *generateOptions) { o(to) }

// Batch sets the largest number of items that are spawned by one write, from 1 to 10,000. A write has
// fewer items if the generator pauses, or if the items are large. The default is 100.
func Batch(n int) GenerateOption { return generateOption(func(o *generateOptions) { o.batch = n }) }

// Window limits the items that are spawned and not final, over all workers: yield waits while there
// are as many. n must be at least 1. The default is 10,000.
func Window(n int) GenerateOption {
	return generateOption(func(o *generateOptions) { o.items.AtOnce = int64(n) })
}

// ItemKey gives items keys. Of several items with the same key only the first is spawned,
// even if a generator that is started again yields them in another order. Without it an
// item is known by its place in the stream. Keys may have any length.
func ItemKey[Item any](key func(item Item) string) GenerateOption {
	return generateOption(func(o *generateOptions) {
		o.keyed = true
		o.key = func(item any) (string, error) {
			i, ok := item.(Item)
			if !ok {
				var want Item
				return "", Permanent(store.Invalid("item key", fmt.Sprintf("its function takes a %T, but the item is a %T", want, item)))
			}
			return key(i), nil
		}
	})
}

// GeneratorStep sets how the generator itself is run and tried again, as for a [Step].
func GeneratorStep(opts ...StepOption) GenerateOption {
	return generateOption(func(o *generateOptions) {
		for _, opt := range opts {
			opt(&o.step)
		}
	})
}

// ErrYieldEnded means that an item was yielded after its generator had returned. The item is not taken.
var ErrYieldEnded = errYieldEnded() // "the generator has ended"

func errYieldEnded() error { return exec.ErrYieldEnded }

// Generated counts the items of a generator by outcome.
type Generated struct {
	Spawned   int64 // items in all, duplicates counted once
	Completed int64
	Failed    int64
	Canceled  int64
}

// Generate runs a workflow for each item that a generator yields, while it yields them.
// Items go to child runs, in batches, and no list of them is kept anywhere. The step ends
// when the generator has returned and all items are final. Once the generator has returned,
// this run sleeps and holds no slot.
//
// The generator runs like the function of a [Step], with a step's context, and may take
// hours. It is tried again as [GeneratorStep] says, and run again when its worker has died.
// Then it yields its items again from the first one, and those that were spawned before are
// dropped. For that it must yield the same items in the same order; if it cannot, give the
// items keys with [ItemKey]. For a generator that can resume where it was, use
// [GenerateFrom].
//
// Several goroutines may call yield. It waits while too many items are not final ([Window]). It
// fails, and takes no item, when the generator's context has ended (for example because the run
// is canceled, or too many items have failed) or when the generator has returned ([ErrYieldEnded]); the
// generator should then return. An item that is too large gives an error that names its place and
// matches store.ErrTooLarge; the generator may skip the item and continue.
//
// When the generator has failed for good, the error is a [*StepError]. With [FailFast] the items
// that are not final are then canceled; otherwise they run to their end first. Items that fail give
// an [*ItemsError], as for [Map]. A step that failed is done anew when this run is tried again or
// restarted; likewise a step whose items were canceled with this run.
//
// [engine.Engine.Progress] shows how far the step is.
func Generate[Item, Out any](ctx Context, name string, generator func(ctx context.Context, yield func(Item) error) error, item Callable[Item, Out], opts ...GenerateOption) (Generated, error) {
	if generator == nil {
		return Generated{}, store.Invalid("generator "+name, "its function is nil")
	}
	return generate(ctx, name, item, opts, false, func(gctx context.Context, g *exec.Generator, take func(Item, []byte) error) error {
		return generator(gctx, func(i Item) error { return take(i, nil) })
	})
}

// GenerateSeq is [Generate] for a sequence. Seq returns a new sequence for each attempt. An
// error in it fails the attempt.
func GenerateSeq[Item, Out any](ctx Context, name string, seq func(ctx context.Context) iter.Seq2[Item, error], item Callable[Item, Out], opts ...GenerateOption) (Generated, error) {
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

// GenerateFrom is [Generate] for a generator that can resume where it was. With each item it yields
// a cursor, which says where to resume after this item. The cursor of the last item that was
// spawned is recorded with it, and passed to the generator as from when it is run again; at first
// from is zero. So no item is spawned twice and none is skipped, and earlier items need not be read
// again.
func GenerateFrom[Item, Cursor, Out any](ctx Context, name string, generator func(ctx context.Context, from Cursor, yield func(Item, Cursor) error) error, item Callable[Item, Out], opts ...GenerateOption) (Generated, error) {
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

func generate[Item, Out any](ctx Context, name string, item Callable[Item, Out], opts []GenerateOption, cursored bool, run func(ctx context.Context, g *exec.Generator, take func(Item, []byte) error) error) (Generated, error) {
	called, err := calleeOf("generator "+name, item)
	if err != nil {
		return Generated{}, err
	}
	o := generateOptions{
		items: itemOptions{Workflow: called.name, Queue: called.queue, Open: called.open, AtOnce: 10_000},
		step:  stepOptions(applyStep(nil)),
		batch: 100,
	}
	for _, opt := range opts {
		opt.applyGenerate(&o)
	}
	switch {
	case o.batch < 1 || o.batch > store.MaxBatch:
		return Generated{}, store.Invalid("generator "+name, fmt.Sprintf("a batch of %d items is not between 1 and %d", o.batch, store.MaxBatch))
	case o.items.AtOnce < 1:
		return Generated{}, store.Invalid("generator "+name, fmt.Sprintf("a window of %d items is not positive", o.items.AtOnce))
	}
	if err := noLimits("generator "+name, exec.StepOptions(o.step), "a generator holds no permit while it runs; put its items, or steps, under the limit"); err != nil {
		return Generated{}, err
	}
	if err := checkItems(fmt.Sprintf("generator %q", name), o.items); err != nil {
		return Generated{}, err
	}
	if err := o.fold.check(name, reflect.TypeFor[Out]()); err != nil {
		return Generated{}, err
	}
	how := exec.GenerateOptions{
		ItemOptions: exec.ItemOptions(o.items), Step: exec.StepOptions(o.step),
		Batch: min(o.batch, int(o.items.AtOnce)), Keyed: o.keyed, Cursored: cursored,
	}
	end, err := ctx.branch.Generate(name, how, o.fold.visitor(ctx, name, called), func(gctx context.Context, g *exec.Generator) error {
		return run(gctx, g, func(i Item, cursor []byte) error {
			data, err := encodeItem(ctx, called, "an item of generator "+name, i)
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
	got := Generated{Spawned: end.Spawned, Completed: end.Completed, Failed: end.Failed, Canceled: end.Canceled}
	err = itemsError(end, called.name)
	if bad := o.fold.finish(ctx, name, end.Result); bad != nil && err == nil {
		err = bad
	}
	return got, err
}
