package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// keepActions is how long the store keeps what people did.
const keepActions = 90 * 24 * time.Hour

// Actor makes the engine record the calls that change runs, queues, workflows and schedules, such
// as a cancel, as done by this actor. An actor is for example a user and a host: "ada@laptop". An
// action is recorded before it is done; if the record cannot be written, the call fails and the
// action is not done. The record does not contain the result; the run shows it. Records are kept for
// ninety days, also if their runs are deleted earlier. By default, and for an empty name, nothing is
// recorded, and neither on a backend that is not a [store.Journal].
func Actor(name string) Option { return func(e *Engine) { e.actor = name } }

type actorKey struct{}

// WithActor returns a context whose calls are recorded as done by this actor, instead of by the
// engine's [Actor]. It is for programs that act on behalf of several people, such as
// servers. An empty name changes nothing.
func WithActor(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, actorKey{}, name)
}

// actorOf returns on whose behalf a call is made; empty: nothing is recorded.
func (e *Engine) actorOf(ctx context.Context) string {
	if name, ok := ctx.Value(actorKey{}).(string); ok {
		return name
	}
	return e.actor
}

// Record records an action that the program itself does for the engine's [Actor] or that of the
// context ([WithActor]): for each of the runs or, without runs, for the target. Texts over [store.MaxDetails]
// bytes are shortened. Without an actor, and on a backend that is not a [store.Journal], it does nothing and returns nil.
func (e *Engine) Record(ctx context.Context, verb, target, details string, runs ...store.ID) error {
	actor := e.actorOf(ctx)
	if actor == "" || e.fault != nil {
		return e.fault
	}
	journal, ok := e.store.(store.Journal)
	if !ok {
		return nil
	}
	p := store.RecordParams{Namespace: e.namespace, KeepFor: keepActions}
	add := func(target string, run store.ID) {
		p.Actions = append(p.Actions, store.Action{
			ID: store.NewID(), Actor: actor, Verb: verb, Target: shorten(target), Run: run, Details: shorten(details),
		})
	}
	for _, id := range runs {
		add("run "+id.String(), id)
	}
	if len(runs) == 0 {
		add(target, store.ID{})
	}
	err := e.retry(ctx, func(ctx context.Context) error { return journal.Record(ctx, p) })
	if err != nil {
		return fmt.Errorf("%s was not done because the journal entry could not be written: %w", verb, err)
	}
	return nil
}

// Actions lists what engines with an [Actor] have done, newest first. See
// [store.ListActionsParams]; Namespace is set to the engine's. It fails with
// store.ErrUnsupported if the backend keeps no journal.
func (e *Engine) Actions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	if e.fault != nil {
		return store.ActionPage{}, e.fault
	}
	journal, ok := e.store.(store.Journal)
	if !ok {
		return store.ActionPage{}, fmt.Errorf("the %s backend keeps no journal of actions: %w", e.store.Features().Name, store.ErrUnsupported)
	}
	p.Namespace = e.namespace
	return journal.ListActions(ctx, p)
}

// shorten makes text fit for a record.
func shorten(s string) string {
	const most = store.MaxDetails / 4
	clean := []rune(strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd"))
	if len(clean) > most {
		clean = append(clean[:most-1], '…')
	}
	return string(clean)
}
