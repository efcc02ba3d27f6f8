package store

import (
	"errors"
	"fmt"
)

// The errors of the contract (P16). A backend returns errors that match
// exactly one of them by errors.Is; callers never look at an error's text.
// Context errors are passed on as they are, beside ErrOutcomeUnknown where a
// write may have been applied.
//
// Cases: errors/unknown-run-is-not-found, errors/invalid-params,
// errors/canceled-context.
var (
	// ErrNotFound: nothing of that name exists in that namespace.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: another thing holds that name.
	ErrAlreadyExists = errors.New("already exists")
	// ErrLeaseLost: the lease is not the run's present one, or the store no longer
	// has commits that its holder made under it ([CommitsMissing]). Nothing was
	// changed, and the holder must give the run up: what it knows of the run is not
	// what the store has.
	ErrLeaseLost = errors.New("lease lost")
	// ErrConflict: the thing is not in a state that allows this, or a
	// compare-and-set found another version. Read again, then decide.
	ErrConflict = errors.New("conflict")
	// ErrFinished: the run is final and takes no more of this.
	ErrFinished = errors.New("run is finished")
	// ErrInvalid: the request itself is wrong; the same request never succeeds.
	// The error is an [*InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a payload is over its limit and nothing was stored. The
	// error is a [*TooLargeError].
	ErrTooLarge = errors.New("too large")
	// ErrUnsupported: this backend cannot do that; [Features] says why.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnavailable: nothing was applied; the same request may succeed later. A
	// backend says so of a write only where it is certain: the request was not sent, or
	// the database has answered that it was undone. What a driver infers is no
	// certainty; the outcome is unknown then.
	ErrUnavailable = errors.New("store unavailable")
	// ErrOutcomeUnknown: the answer was lost; perhaps it was applied. Send the
	// same request again: by P4 that is safe. Of a claim, send it with Again.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Retryable reports whether the same request may succeed when it is sent again:
// it matches [ErrUnavailable] or [ErrOutcomeUnknown].
func Retryable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown)
}

// InvalidError says which field of a request is wrong and why. It matches
// [ErrInvalid].
type InvalidError struct {
	Field  string // as a user knows it: "queue", "step name"
	Reason string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("invalid %s: %s", e.Field, e.Reason) }

// Is matches [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalid makes an [*InvalidError].
func Invalid(field, reason string) error { return &InvalidError{Field: field, Reason: reason} }

// CommitsMissing is the answer to a commit whose number is not the next one: last is that of
// the last one applied. The holder sends them in order and each until it is
// answered, so the store has lost those between. It matches [ErrLeaseLost].
func CommitsMissing(l Lease, seq, last int64) error {
	return fmt.Errorf("run %v, epoch %d: commit %d does not follow commit %d, the last one that the store has: the database has lost commits that were answered, as after the promotion of a replica that lagged or the restore of a backup: %w",
		l.Run, l.Epoch, seq, last, ErrLeaseLost)
}

// TooLargeError names the field that is over its limit, in bytes. It matches
// [ErrTooLarge].
type TooLargeError struct {
	Field string
	Size  int
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is %d bytes, over the limit of %d: store the data elsewhere and pass a reference, or raise the limit", e.Field, e.Size, e.Limit)
}

// Is matches [ErrTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
