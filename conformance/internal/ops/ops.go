// Package ops has what the random and the linearizability tier share: calls of a store as
// values, and the text of their params and results.
package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Holding is a lease as its worker knows it.
type Holding struct {
	NS      string
	Lease   store.Lease
	Seq     int64
	Seen    int64
	Signals []store.SignalID
}

// Operation is one call, as it was resolved.
type Operation struct {
	Verb   string
	Params any
	Call   func(context.Context, store.Store, any) (any, error)
}

// None is the result of a verb that returns an error alone.
type None struct{}

// Alone fits a verb that returns an error alone.
func Alone[P any](call func(store.Store, context.Context, P) error) func(store.Store, context.Context, P) (None, error) {
	return func(s store.Store, ctx context.Context, p P) (None, error) { return None{}, call(s, ctx, p) }
}

// Claimed is Claim, without the positions of signals, which are the store's own.
func Claimed(s store.Store, ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	res, err := s.Claim(ctx, p)
	for i := range res.Runs {
		err = errors.Join(err, Placed(&res.Runs[i].Inbox))
	}
	return res, err
}

// Inbox is Inbox, without the positions of signals.
func Inbox(s store.Store, ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	in, err := s.Inbox(ctx, p)
	return in, errors.Join(err, Placed(&in))
}

// Steps reads the pages of Steps up to the last one, because a store may have a limit of its own to
// the bytes of a page.
func Steps(s store.Store, ctx context.Context, p store.StepsParams) ([]store.Step, error) {
	var steps []store.Step
	for {
		page, err := s.Steps(ctx, p)
		steps = append(steps, page.Steps...)
		switch {
		case err != nil || page.Next == 0:
			return steps, err
		case len(page.Steps) == 0 || page.Next != steps[len(steps)-1].Position:
			return steps, fmt.Errorf("the page after position %d has %d steps, and its Next is %d", p.After, len(page.Steps), page.Next)
		}
		p.After = page.Next
	}
}

// Placed checks that the positions of signals grow, and takes them out.
func Placed(in *store.Inbox) error {
	last := int64(0)
	for i := range in.Signals {
		at := &in.Signals[i].Position
		if *at <= last {
			return fmt.Errorf("signal %d of an inbox is at position %d, the one before at %d", i, *at, last)
		}
		last, *at = *at, 0
	}
	return nil
}

// Invoke makes an operation of a verb.
func Invoke[P, R any](verb string, p P, call func(store.Store, context.Context, P) (R, error)) Operation {
	return Operation{Verb: verb, Params: p, Call: func(ctx context.Context, s store.Store, p any) (any, error) { return call(s, ctx, p.(P)) }}
}
