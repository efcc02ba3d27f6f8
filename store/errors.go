package store

import (
	"errors"
	"fmt"
)

// The errors of the contract (P16). A backend returns errors that match exactly one of them by
// errors.Is; callers never parse an error's text. Context errors are returned unchanged; if a write
// may have been applied, the error also matches ErrOutcomeUnknown.
//
// A fault of the connection to the database, in any request of a call, only changes what is known
// about the call's outcome. A write succeeds only if it was applied. It fails with ErrUnavailable
// if it is certain that nothing was applied, and otherwise with ErrOutcomeUnknown. A caller that
// gave up gets its context's error, which also matches ErrOutcomeUnknown unless nothing was
// applied. A read fails with ErrUnavailable. If the same call is sent again until it is answered,
// it gets the answer of a repeat, and all of the calls together have the effect of one. (A second
// SetState with IfVersion, Restart or DeleteSchedule finds what the first one did: ErrConflict, or
// ErrNotFound.)
var (
	// ErrNotFound: nothing of that name exists in the namespace.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: something else has that name.
	ErrAlreadyExists = errors.New("already exists")
	// ErrLeaseLost: the lease is not the run's present one, or the store no longer has commits that
	// its holder made under it ([CommitsMissing]). Nothing was changed, and the holder must give up
	// the run, because its view of the run is not that of the store.
	ErrLeaseLost = errors.New("lease lost")
	// ErrConflict: the state does not allow the operation, or a compare-and-set found another
	// version. Read again, then decide.
	ErrConflict = errors.New("conflict")
	// ErrFinished: the run is final and does not accept the operation any more.
	ErrFinished = errors.New("run is finished")
	// ErrInvalid: the request itself is wrong; the same request will never succeed. The error is an
	// [*InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a payload is over its limit and nothing was stored. The
	// error is a [*TooLargeError].
	ErrTooLarge = errors.New("too large")
	// ErrUnsupported: this backend cannot do that; [Features] says why.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnavailable: nothing was applied; the same request may succeed later. A backend returns it
	// for a write only if that is certain: the request was not sent, or the database has answered
	// that it was undone. A driver's guess is not certain; the outcome is unknown then.
	ErrUnavailable = errors.New("store unavailable")
	// ErrOutcomeUnknown: the answer was lost; the write may have been applied. Send the same
	// request again: by P4 that is safe. Repeat a claim with Again.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Retryable reports whether the same request may succeed when it is sent again:
// it matches [ErrUnavailable] or [ErrOutcomeUnknown].
func Retryable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown)
}

// InvalidError says which field of a request is wrong, and why. It matches [ErrInvalid].
type InvalidError struct {
	Field  string // as a user knows it: "queue", "step name"
	Reason string
}

// Error returns a text with the field and the reason.
func (e *InvalidError) Error() string { return fmt.Sprintf("invalid %s: %s", e.Field, e.Reason) }

// Is matches [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalid makes an [*InvalidError].
func Invalid(field, reason string) error { return &InvalidError{Field: field, Reason: reason} }

// CommitsMissing is the error for a commit whose number is not the next one; last is the number of
// the last commit applied. The holder sends commits in order and repeats each until it is answered,
// so the store must have lost those in between. The error matches [ErrLeaseLost].
func CommitsMissing(l Lease, seq, last int64) error {
	return fmt.Errorf("run %v, epoch %d: commit %d does not follow commit %d, the last one that the store has: the database has lost acknowledged commits, for example by the promotion of a lagging replica or the restore of a backup: %w",
		l.Run, l.Epoch, seq, last, ErrLeaseLost)
}

// TooLargeError names the field that is over its limit, usually in bytes. It matches
// [ErrTooLarge].
type TooLargeError struct {
	Field string
	Size  int
	Limit int
	Unit  string // what Size and Limit count, such as "items"; empty: bytes
}

// Error returns a text with the field, its size and the limit.
func (e *TooLargeError) Error() string {
	if e.Unit != "" {
		return fmt.Sprintf("%s would have %d %s, over the limit of %d: append fewer items, several values in one item, or references to data stored elsewhere", e.Field, e.Size, e.Unit, e.Limit)
	}
	return fmt.Sprintf("%s is %d bytes, over the limit of %d: store the data elsewhere and pass a reference, or raise the limit", e.Field, e.Size, e.Limit)
}

// Is matches [ErrTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
