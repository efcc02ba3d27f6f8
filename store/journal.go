package store

import (
	"context"
	"encoding/binary"
	"time"
)

// Journal is implemented by backends that keep what people did, and who it was: the
// engine records what is done by one that knows its actor (engine.Actor).
type Journal interface {
	Record(ctx context.Context, p RecordParams) error
	ListActions(ctx context.Context, p ListActionsParams) (ActionPage, error)
}

// Action is something that somebody did, or was about to do.
type Action struct {
	ID      ID        // made by the caller, so that recording again is safe
	At      time.Time // the store's clock when it was recorded
	Actor   string    // who, as "user@host"
	Verb    string    // "cancel", "pause", ...
	Target  string    // what, as people name it: "run 0191...", "queue mail"
	Run     ID        // the run, if it is one
	Details string    // such as the reason that was given
}

// RecordParams is the input of Record, which keeps actions, all or none. At is the
// store's.
//
// P4: an action whose ID the store has is the same one, and changes nothing. Case:
// journal/repeat.
//
// KeepFor, when set, deletes actions of the namespace that are older, some thousand at
// a time; those of runs outlive their runs. Cases: journal/record-and-list,
// journal/forgets, journal/invalid.
type RecordParams struct {
	Namespace string
	Actions   []Action
	KeepFor   time.Duration // 0: for ever
	Now       time.Time
}

// ListActionsParams is the input of ListActions, which pages through actions, newest
// first, those of one moment by ID.
//
// P14: actions that exist during the whole listing come exactly once. A cursor of
// another query is refused with ErrInvalid. Case: journal/pages.
type ListActionsParams struct {
	Namespace string
	Run       ID     // zero: whatever they were done to
	Actor     string // empty: whoever did them
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// ActionPage is a page of actions; Next is empty on the last one.
type ActionPage struct {
	Actions []Action
	Next    string
}

// MaxDetails bounds the text of an action, in bytes.
const MaxDetails = 4096

// Validate checks the call.
func (p *RecordParams) Validate() error {
	for i := range p.Actions {
		a := &p.Actions[i]
		if a.ID.IsZero() {
			return Invalid("action id", "it is zero; make one with NewID")
		}
		if err := first(ValidateName("actor", a.Actor), ValidateName("verb", a.Verb), plainText("target", a.Target), plainText("details", a.Details),
			size("target", len(a.Target), MaxDetails), size("details", len(a.Details), MaxDetails)); err != nil {
			return err
		}
	}
	return first(ValidateName("namespace", p.Namespace), batch("actions", len(p.Actions)), duration("age", p.KeepFor))
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
		return at, id, Invalid("cursor", "it is cut short; start without one")
	}
	copy(id[:], pos[atSize:])
	return time.UnixMicro(int64(binary.BigEndian.Uint64(pos))).UTC(), id, nil
}

// NextCursor makes the cursor behind a page's last action.
func (p *ListActionsParams) NextCursor(last *Action) string {
	pos := binary.BigEndian.AppendUint64(nil, uint64(last.At.UnixMicro()))
	return EncodeCursor(cursorActions, p.query(), append(pos, last.ID[:]...))
}

// atSize is the bytes of a time in a cursor.
const atSize = 8
