package workflow

import (
	"fmt"
	"reflect"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Fold makes a [Generate] fold the outputs of its items, so that the run gets a result without a
// list of them. When the generator has returned and all items are final, Generate reads the
// outputs, some megabytes at a time, in the order in which the items were spawned. The last result
// of fold is recorded with the step and stored in into. A replay does not fold again.
//
//	var total Money
//	counts, err := workflow.Generate(ctx, "invoices", listInvoices, Charge, workflow.Fold(&total,
//		func(sum Money, place int64, charged Money) (Money, error) { return sum + charged, nil }))
//
// Fold gets the result of the fold before, at first the value that into had when the option was
// made, and the outputs of the items that completed, with their places, which count from 1. It must
// have no side effects: it may be called again for the same outputs. Its error fails the step. If
// items failed, the step ends as [FailFast], [Tolerate] or [Collect] say; with Collect, or within
// what Tolerate allows, the outputs of the others are folded. If the step has no result, into is
// unchanged.
//
// Out must be the output type of the item's workflow; otherwise Generate fails with store.ErrInvalid.
// With [ItemKey], an item that was yielded several times is folded once.
func Fold[Out, Acc any](into *Acc, fold func(acc Acc, place int64, out Out) (Acc, error)) GenerateOption {
	f := &folding{out: reflect.TypeFor[Out](), nothing: into == nil || fold == nil}
	if !f.nothing {
		initial := *into
		f.make = func(ctx Context, name string, called callee) exec.Visitor {
			acc := initial
			return exec.Visitor{
				Begin: func() { acc = initial },
				Item: func(i int, output []byte) error {
					var out Out
					err := decodeItem(ctx, called, name, i, output, &out)
					if err == nil {
						acc, err = fold(acc, int64(i)+1, out)
					}
					return err
				},
				Result: func() ([]byte, error) { return encode(ctx, name, acc) },
			}
		}
		f.decode = func(ctx Context, name string, result []byte) error {
			var acc Acc
			err := decode(ctx, name, result, &acc)
			if err == nil {
				*into = acc
			}
			return err
		}
	}
	return generateOption(func(o *generateOptions) { o.fold = f })
}

// folding is what [Fold] sets, without its types. The nil folding does not fold.
type folding struct {
	out     reflect.Type
	nothing bool // the variable or the function is nil
	make    func(ctx Context, name string, called callee) exec.Visitor
	decode  func(ctx Context, name string, result []byte) error
}

func (f *folding) check(name string, out reflect.Type) error {
	switch {
	case f == nil:
		return nil
	case f.nothing:
		return store.Invalid("generator "+name, "the variable or the function of its fold is nil")
	case f.out != out:
		return store.Invalid("generator "+name, fmt.Sprintf("its fold takes a %s, but the items return a %s", f.out, out))
	}
	return nil
}

func (f *folding) visitor(ctx Context, name string, called callee) exec.Visitor {
	if f == nil {
		return exec.Visitor{}
	}
	return f.make(ctx, name, called)
}

// finish stores the recorded result.
func (f *folding) finish(ctx Context, name string, result []byte) error {
	if f == nil || result == nil {
		return nil
	}
	return f.decode(ctx, name, result)
}
