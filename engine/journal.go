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

// Actor makes the engine record what it is told to do to runs, queues, workflows and
// schedules as done by this actor, such as a user and a host: "ada@laptop". An action is
// recorded before it is done, and it is not done if it cannot be recorded. The record does
// not tell the result; the run shows it. Records are kept for ninety days, if need be
// longer than their runs. By default there is no actor, and nothing is recorded. It needs a
// backend that is a [store.Journal].
func Actor(name string) Option { return func(e *Engine) { e.actor = name } }

// Record keeps an action of the engine's actor that the engine itself does not know of.
// Without an [Actor] it does nothing.
func (e *Engine) Record(ctx context.Context, verb, target, details string, runs ...store.ID) error {
	if e.actor == "" || e.fault != nil {
		return e.fault
	}
	journal, ok := e.store.(store.Journal)
	if !ok {
		return nil
	}
	p := store.RecordParams{Namespace: e.namespace, KeepFor: keepActions}
	add := func(target string, run store.ID) {
		p.Actions = append(p.Actions, store.Action{
			ID: store.NewID(), Actor: e.actor, Verb: verb, Target: shorten(target), Run: run, Details: shorten(details),
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
