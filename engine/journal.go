package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// keepActions is how long the store keeps what people did.
const keepActions = 90 * 24 * time.Hour

// forgetEvery is how often an engine that records deletes what is older.
const forgetEvery = time.Hour

// Actor makes the engine record the calls that change runs, queues, workflows, limits and schedules, such
// as a cancel, as done by this actor. An actor is for example a user and a host: "ada@laptop".
//
// The store records an action in the same transaction as its effect: the record is there if and only if
// the effect is, and says whether the call changed something ([store.Action].Outcome). If the answer to a
// request is lost and the engine sends it again, there is one record. A call that the store refuses, such as
// the cancel of a run that has completed, is recorded afterwards with the reason, if the journal can be
// written. A purge has one record, with the outcome of its first batch.
//
// These are recorded in a write of their own, before they are done and without an outcome: a signal with a
// start ([WithSignal]), [Engine.TriggerSchedule], and [Engine.Record]. If such a record cannot be written, the
// call fails and the action is not done.
//
// Records are kept for ninety days, also if their runs are deleted earlier. By default, and for an empty name,
// nothing is recorded, and neither on a backend that is not a [store.Journal].
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

// From sets from where the calls are made that the engine records, such as "cli": [store.Action].From. A place
// that is not a name ([store.ValidateName]) is left out. The default is empty: unknown.
func From(place string) Option {
	return func(e *Engine) {
		if e.from = place; store.ValidateName("origin", place) != nil {
			e.from = ""
		}
	}
}

type fromKey struct{}

// WithFrom returns a context whose calls are recorded as made from a place, such as the address of a client,
// instead of from the engine's [From]. A place that is not a name changes nothing.
func WithFrom(ctx context.Context, place string) context.Context {
	if store.ValidateName("origin", place) != nil {
		return ctx
	}
	return context.WithValue(ctx, fromKey{}, place)
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
// bytes are shortened, and there is no outcome. Without an actor, and on a backend that is not a [store.Journal], it does nothing and returns nil.
func (e *Engine) Record(ctx context.Context, verb, target, details string, runs ...store.ID) error {
	if e.fault != nil {
		return e.fault
	}
	record := e.acts(ctx, verb, target, details, runs...)
	if len(record) == 0 {
		return nil
	}
	p := store.RecordParams{Namespace: e.namespace, Actions: record, KeepFor: keepActions}
	err := e.retry(ctx, func(ctx context.Context) error { return e.store.(store.Journal).Record(ctx, p) })
	if err != nil {
		return fmt.Errorf("%s was not done because the journal entry could not be written: %w", verb, err)
	}
	return nil
}

// acts returns the actions of a call for the store to record with their effects, one for each run or, without
// runs, one for the target. There are none if nothing is recorded.
func (e *Engine) acts(ctx context.Context, verb, target, details string, runs ...store.ID) []store.Action {
	actor := e.actorOf(ctx)
	if actor == "" {
		return nil
	}
	if _, ok := e.store.(store.Journal); !ok {
		return nil
	}
	from := e.from
	if place, ok := ctx.Value(fromKey{}).(string); ok {
		from = place
	}
	a := store.Action{Actor: actor, From: from, Verb: verb, Target: shorten(target), Details: shorten(details)}
	if len(runs) == 0 {
		a.ID = store.NewID()
		return []store.Action{a}
	}
	record := make([]store.Action, len(runs))
	for i, id := range runs {
		a.ID, a.Run, a.Target = store.NewID(), id, "run "+id.String()
		record[i] = a
	}
	return record
}

// acted follows a call with a Record. It records the actions that the store has refused, whose errors
// refused returns, and sometimes deletes old ones. It does not fail: the call has its result.
func (e *Engine) acted(ctx context.Context, record []store.Action, refused func(i int) error) {
	if len(record) == 0 {
		return
	}
	var actions []store.Action
	for i, a := range record {
		if a.Outcome = refusal(refused(i)); a.Outcome != "" {
			actions = append(actions, a)
		}
	}
	e.note(ctx, actions)
}

// note records actions if it can, and sometimes deletes old ones.
func (e *Engine) note(ctx context.Context, actions []store.Action) {
	p := store.RecordParams{Namespace: e.namespace, Actions: actions}
	now, last := time.Now().UnixNano(), e.forgot.Load()
	if e.root == nil && now-last >= int64(forgetEvery) && e.forgot.CompareAndSwap(last, now) {
		p.KeepFor = keepActions
	}
	if len(p.Actions) > 0 || p.KeepFor > 0 {
		_ = e.store.(store.Journal).Record(ctx, p)
	}
}

// actedOn is acted for one action.
func (e *Engine) actedOn(ctx context.Context, record []store.Action, err error) {
	e.acted(ctx, record, func(int) error { return err })
}

// refusals are the errors by which a store refuses a call, as a record says it.
var refusals = []struct {
	err  error
	text string
}{
	{store.ErrNotFound, "refused: not found"},
	{store.ErrFinished, "refused: finished"},
	{store.ErrAlreadyExists, "refused: already exists"},
	{store.ErrConflict, "refused: conflict"},
	{store.ErrTooLarge, "refused: too large"},
	{store.ErrInvalid, "refused: invalid"},
}

// refusal returns the outcome of an action that was refused. It is empty if it was not, or if it is not known.
func refusal(err error) string {
	if err == nil || errors.Is(err, store.ErrOutcomeUnknown) {
		return ""
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return ""
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
