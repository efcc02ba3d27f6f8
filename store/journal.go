package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// Journal is implemented by backends that record the actions of people: the engine records what is
// done through a handle that knows its actor (engine.Actor). Without it, nothing is recorded.
//
// The params of the methods that people use have a field Record: who does what. It is empty, or has one
// action for each item of the call, in order; a call without items takes one action. A backend that is
// a Journal then records the actions; another backend ignores the field.
//
// P30: the action of an item is stored in the same transaction as the item's effect: either both are
// there or neither is. An item with an Err, and a call that fails, store no action. An action whose ID is
// already stored stays as it is. So a call that is sent again after a lost answer has one record, that of
// the call that had the effect.
//
// The Outcome is [Done], or [NoChange] if the call had nothing to do: Cancel, Pause and PauseTarget for a
// target that was so before the call, and for a canceling run that Pause leaves as it is; SetLimit for
// a rule that was so; Purge if it deletes nothing. A signal or a fork that is sent again has no action of its
// own, whatever the action's ID. The action of a signal without a Run gets the run that received it.
//
// The store sets At and Outcome of the actions of a Record. P16: an action that Record would refuse, a
// list of another length, and a run that is in the IDs twice are ErrInvalid or ErrTooLarge for the whole
// call. Without a Record, a run may be in the IDs twice.
type Journal interface {
	// Record stores actions, all or none. The At of each is the store's clock.
	//
	// P4: an action whose ID is already stored is the same action, and changes nothing. If the
	// answer to a call is lost, send it again.
	//
	// If KeepFor is set, the call also deletes actions of the namespace that are older, up to some
	// thousand at a time. The actions of a run are kept when the run is deleted.
	//
	// P16: it returns ErrInvalid for an action without an ID, an actor or a verb, and for a From that is
	// not a name, and ErrTooLarge for a Target, Details or Outcome over [MaxDetails]; then nothing of the
	// call is stored. A call takes at most [MaxBatch] actions.
	Record(ctx context.Context, p RecordParams) error

	// ListActions returns a page of the actions, of all runs and actors or of one, newest first,
	// and by ID if their times are equal. Next is the cursor of the next page, and empty on the
	// last page.
	//
	// P14: actions that exist during the whole listing are returned exactly once. A cursor of
	// another query is ErrInvalid.
	ListActions(ctx context.Context, p ListActionsParams) (ActionPage, error)
}

// Action is something that a person did, was about to do, or was refused.
type Action struct {
	ID      ID        // chosen by the caller, so that recording again is safe
	At      time.Time // the store's clock when it was recorded
	Actor   string    // who, as "user@host"
	From    string    // from where, as "cli" or an address; empty: unknown
	Verb    string    // "cancel", "pause", ...
	Target  string    // what it was done to, as people name it: "run 0191...", "queue mail"
	Run     ID        // the run, if the target is one
	Details string    // for example the reason that was given
	// Outcome is [Done], [NoChange], or why it was refused. It is empty if the action was recorded before
	// it was done.
	Outcome string
}

// Outcomes of actions that were not refused.
const (
	Done     = "done"
	NoChange = "no change" // it was so already
)

// RecordParams is the input of [Journal.Record].
type RecordParams struct {
	Namespace string
	Actions   []Action
	KeepFor   time.Duration // 0: for ever
	Now       time.Time
}

// ListActionsParams is the input of [Journal.ListActions].
type ListActionsParams struct {
	Namespace string
	Run       ID     // zero: any run or other target
	Actor     string // empty: any actor
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// ActionPage is a page of actions; Next is empty on the last one.
type ActionPage struct {
	Actions []Action
	Next    string
}

// MaxDetails limits each text of an action, in bytes.
const MaxDetails = 4096

// Validate checks the call.
func (p *RecordParams) Validate() error {
	for i := range p.Actions {
		if err := p.Actions[i].validate(); err != nil {
			return err
		}
	}
	return first(ValidateName("namespace", p.Namespace), batch("actions", len(p.Actions)), duration("age", p.KeepFor))
}

func (a *Action) validate() error {
	if a.ID.IsZero() {
		return Invalid("action id", "it is zero; make one with NewID")
	}
	return first(ValidateName("actor", a.Actor), ValidateName("verb", a.Verb), optionalName("origin", a.From),
		plainText("target", a.Target), plainText("details", a.Details), plainText("outcome", a.Outcome),
		size("target", len(a.Target), MaxDetails), size("details", len(a.Details), MaxDetails), size("outcome", len(a.Outcome), MaxDetails))
}

// validateRecord checks the Record of a call with n items.
func validateRecord(record []Action, n int) error {
	if len(record) == 0 {
		return nil
	}
	if len(record) != n {
		return Invalid("record", fmt.Sprintf("it has %d actions; the call has %d items", len(record), n))
	}
	for i := range record {
		if err := record[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

// recordOf checks the Record of a call on runs.
func recordOf(record []Action, ids []ID) error {
	if len(record) == 0 {
		return nil
	}
	seen := make(map[ID]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			return Invalid("record", fmt.Sprintf("run %v is in the call twice", id))
		}
		seen[id] = true
	}
	return validateRecord(record, len(ids))
}

// Validate checks the call, without its cursor.
func (p *ListActionsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), optionalName("actor", p.Actor), err)
}

const cursorActions = "actions"

func (p *ListActionsParams) query() any { return []any{p.Namespace, p.Run, p.Actor} }

// Position decodes the cursor: the time and the ID of the last action seen; zero at
// the start.
func (p *ListActionsParams) Position() (at time.Time, id ID, err error) {
	pos, err := DecodeCursor(cursorActions, p.query(), p.Cursor)
	if err != nil || pos == nil {
		return at, id, err
	}
	if len(pos) != atSize+len(id) {
		return at, id, Invalid("cursor", "it is truncated; start without a cursor")
	}
	copy(id[:], pos[atSize:])
	return time.UnixMicro(int64(binary.BigEndian.Uint64(pos))).UTC(), id, nil
}

// NextCursor makes the cursor that continues after a page's last action.
func (p *ListActionsParams) NextCursor(last *Action) string {
	pos := binary.BigEndian.AppendUint64(nil, uint64(last.At.UnixMicro()))
	return EncodeCursor(cursorActions, p.query(), append(pos, last.ID[:]...))
}

// atSize is the size of a time in a cursor, in bytes.
const atSize = 8
