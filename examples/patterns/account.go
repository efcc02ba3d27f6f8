package patterns

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Amount is money, in cents.
type Amount struct {
	Cents int64
	Note  string
}

// Transfer is a request to an account: who asks gets the new balance.
var Transfer = workflow.NewUpdate[Amount, int64]("transfer")

// ErrOverdrawn is the answer to a transfer that the account cannot pay.
var ErrOverdrawn = errors.New("the account would be overdrawn")

// Ledger writes transfers down. A repeated key is not written twice.
type Ledger interface {
	Write(ctx context.Context, key string, a Amount) error
}

// Account keeps the balance of an account, and closes when nobody has asked for a while.
func Account(ledger Ledger, idle time.Duration) *workflow.Workflow[int64, int64] {
	return workflow.New("account", func(ctx workflow.Context, balance int64) (int64, error) {
		for {
			req, err := Transfer.ReceiveTimeout(ctx, idle, workflow.Validate(hasNote))
			if errors.Is(err, workflow.ErrTimeout) {
				return balance, nil
			}
			if err != nil {
				return balance, err
			}
			if balance+req.In.Cents < 0 {
				if err := req.Answer(ctx, 0, workflow.Coded("overdrawn", ErrOverdrawn)); err != nil {
					return balance, err
				}
				continue
			}
			err = workflow.Do(ctx, "write", func(ctx context.Context) error {
				return ledger.Write(ctx, workflow.IdempotencyKey(ctx), req.In)
			})
			if err != nil {
				return balance, err
			}
			balance += req.In.Cents
			if err := req.Answer(ctx, balance, nil); err != nil {
				return balance, err
			}
		}
	})
}

// hasNote refuses transfers that say nothing of what they are for.
func hasNote(a Amount) error {
	if a.Note == "" {
		return errors.New("a transfer needs a note")
	}
	return nil
}

// Pay asks an account for a transfer. It may be called again with the same order, also after a
// crash: the account pays once, and Pay returns the same balance.
func Pay(ctx context.Context, account workflow.Target, order string, cents int64) (balance int64, err error) {
	balance, err = Transfer.Ask(ctx, account, Amount{-cents, "order " + order}, workflow.SendKey(order))
	switch {
	case workflow.ErrorCode(err) == "overdrawn":
		return 0, ErrOverdrawn
	case err != nil:
		return 0, err
	}
	return balance, nil
}
