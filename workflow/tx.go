package workflow

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// StepTx is a [Step] whose function gets a transaction on the database that holds Pawl's
// tables. What it writes there and the step's record become durable together: exactly once,
// whatever crashes. When the function returns nil, Pawl commits the transaction. An error,
// a panic, a lost lease or the end of its context rolls it back.
//
// Tx is a type that the store's backend offers: pgx.Tx or *sql.Tx on postgres, *sql.Tx on
// sqlite. On another backend, or for another type, the step fails with
// store.ErrUnsupported.
//
//	paid, err := workflow.StepTx(ctx, "pay", func(ctx context.Context, tx pgx.Tx) (Receipt, error) {
//		_, err := tx.Exec(ctx, "UPDATE accounts SET ...")
//		...
//	})
//
// Effects elsewhere, such as a request to another service, are not undone and may happen
// again. Keep the function short: while it runs, other branches of the run cannot record
// anything, and on sqlite no other program can write. The function's own statements wait as
// long as its context lets them: set a [Timeout] where a connection may hang.
func StepTx[Tx, T any](ctx Context, name string, fn func(ctx context.Context, tx Tx) (T, error), opts ...StepOption) (T, error) {
	var result T
	if fn == nil {
		return result, store.Invalid("step "+name, "its function is nil")
	}
	o := applyStep(opts)
	if err := noLimits("step "+name, o, noLimitInTx); err != nil {
		return result, err
	}
	tx := new(Tx)
	data, err := ctx.branch.Step(name, o, tx, func(sctx context.Context) ([]byte, error) {
		v, err := fn(sctx, *tx)
		if err != nil {
			return nil, err
		}
		return encode(ctx, name, v)
	})
	if err != nil {
		return result, public(err)
	}
	return result, decode(ctx, name, data, &result)
}

// DoTx is [StepTx] without a result.
func DoTx[Tx any](ctx Context, name string, fn func(ctx context.Context, tx Tx) error, opts ...StepOption) error {
	if fn == nil {
		return store.Invalid("step "+name, "its function is nil")
	}
	o := applyStep(opts)
	if err := noLimits("step "+name, o, noLimitInTx); err != nil {
		return err
	}
	tx := new(Tx)
	_, err := ctx.branch.Step(name, o, tx, func(sctx context.Context) ([]byte, error) { return nil, fn(sctx, *tx) })
	return public(err)
}

const noLimitInTx = "its permit could not end in its transaction; put the run under the limit, or make it a step of workflow.Step"

func encode(ctx Context, name string, v any) ([]byte, error) {
	data, err := ctx.codec.Marshal(v)
	if ctx.branch.Invocation().CheckInStep(err) != nil {
		return nil, Permanent(fmt.Errorf("the result of step %q, a %T, cannot be encoded: %w", name, v, err))
	}
	return data, nil
}
