package exec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Errors of codecs. Package engine documents their contract.
var (
	ErrCodec = errors.New("the codec cannot handle the payload")
	ErrPlain = errors.New("the payload is not encrypted")
)

// DecodeError is workflow.DecodeError.
type DecodeError struct {
	What string // "the payload of signal \"approved\""
	Type string // the Go type
	Err  error  // the codec's error; for a signal or a value of flow state, its text
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s cannot be decoded into %s: %v", e.What, e.Type, e.Err)
}

// Unwrap returns the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// unopened marks an error that is caused by the worker's codec, not by the code or the
// payload.
func unopened(err error) bool { return errors.Is(err, ErrCodec) }

// Check looks at the error of a payload's encoding or decoding, on a goroutine of the run
// that is not in a step. When the codec cannot handle the payload, it gives the lease back
// and ends the goroutine: another worker may have the key. So it does with a history of another
// build that cannot be decoded (see giveBackFor). Other errors are returned.
func (inv *Invocation) Check(err error) error {
	if unopened(err) {
		inv.setAside(CodeCodec, err)
		inv.exitIfClosed()
	}
	var undecoded *DecodeError
	if errors.As(err, &undecoded) {
		inv.giveBackFor(err)
	}
	if err != nil {
		inv.locked(func() {
			if inv.undecoded == nil {
				inv.undecoded = err
			}
		})
	}
	return err
}

// CheckInStep is like Check, for code that may be in a step and for encoding. It returns
// the error; what the code does with it is not recorded. The lease may end later: a step
// may have a transaction, and the store's next write waits for its end.
func (inv *Invocation) CheckInStep(err error) error {
	if unopened(err) && inv.closeAside(CodeCodec, err) {
		go inv.finish(inv.release())
	}
	return err
}

// SetAside releases the lease for a while, because the store refuses to return what the
// run needs. The reason stays on the run until its next failure or its end.
func (inv *Invocation) SetAside(why error) { inv.setAside(CodeUnreadable, why) }

func (inv *Invocation) setAside(code string, why error) {
	if inv.closeAside(code, why) {
		inv.finish(inv.release())
	}
}

// closeAside closes the invocation; it returns false if the invocation was already
// ending.
func (inv *Invocation) closeAside(code string, why error) bool {
	closed := false
	inv.locked(func() {
		if closed = inv.ending.closed; !closed {
			inv.ending.aside = &store.Failure{Code: code, Message: Fail(why).Message}
			inv.closeLocked(byRelease)
		}
	})
	if closed {
		return false
	}
	inv.cancel(ErrShutdown)
	inv.Logger().Error("setting the run aside", "for", inv.cfg.Aside, "code", code, "error", why)
	return true
}

// release makes the transition of a run whose lease is released: at once, or for a while
// with the reason. A random delay keeps runs that were set aside together from returning
// together.
func (inv *Invocation) release() store.Transition {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	t := store.Transition{Kind: store.Release}
	if inv.ending.aside != nil {
		t.Failure = inv.ending.aside
		t.After = time.Duration(float64(inv.cfg.Aside) * (1 - 0.2*rand.Float64()))
	}
	return t
}

// badPayload is the record of a payload that could not be decoded. The error is made from
// it, so that it is the same live and replayed.
type badPayload struct {
	Signal *store.SignalID `json:"signal,omitempty"` // which stays unread
	Name   string          `json:"name,omitempty"`
	Case   int             `json:"case,omitempty"` // of a Select
	What   string          `json:"what"`
	Type   string          `json:"type"`
	Error  string          `json:"error"`
	Plain  bool            `json:"plain,omitempty"`
}

// maxReason limits the codec's text in the note.
const maxReason = 4 << 10

func newBadPayload(err error) badPayload {
	bad := badPayload{Plain: errors.Is(err, ErrPlain), What: "a payload", Type: "the code's type", Error: err.Error()}
	var d *DecodeError
	if errors.As(err, &d) {
		bad.What, bad.Type, bad.Error = d.What, d.Type, d.Err.Error()
	}
	if len(bad.Error) > maxReason {
		bad.Error = bad.Error[:maxReason]
	}
	bad.Error = strings.ToValidUTF8(bad.Error, "\uFFFD")
	return bad
}

func (b badPayload) err() error {
	return &DecodeError{What: b.What, Type: b.Type, Err: codecText{b.Error, b.Plain}}
}

// record makes the failed record of the operation that read the payload.
func (b badPayload) record(o *op) store.StepRecord {
	r := o.since(store.StepFailed)
	r.Output, r.Failure = writeNote(b), Fail(b.err())
	return r
}

// recordedBad reads such a record.
func recordedBad(s *store.Step) (bad badPayload) {
	if readNote(s.Output, &bad) != nil {
		bad = badPayload{What: "a payload", Type: "the code's type", Error: "the record does not tell why"}
	}
	return bad
}

// codecText is a codec's error as it was recorded.
type codecText struct {
	text  string
	plain bool
}

func (t codecText) Error() string        { return t.text }
func (t codecText) Is(target error) bool { return t.plain && target == ErrPlain }
