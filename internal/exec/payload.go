package exec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Errors of codecs; package engine has their contract.
var (
	ErrCodec = errors.New("the codec cannot handle the payload")
	ErrPlain = errors.New("the payload is not encrypted")
)

// DecodeError is workflow.DecodeError.
type DecodeError struct {
	What string // "the payload of signal \"approved\""
	Type string // the Go type
	Err  error  // the codec's; of a signal or a value of flow state, its text
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s cannot be decoded into %s: %v", e.What, e.Type, e.Err)
}

// Unwrap gives the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// unopened says that an error is the worker's fault, or rather its codec's, and not that of
// the code or of the payload.
func unopened(err error) bool { return errors.Is(err, ErrCodec) }

// Check looks at the error of a payload's encoding or decoding, on a goroutine of the run
// that is not in a step. When the codec cannot handle the payload, it gives the lease back
// and ends the goroutine: another worker may have the key. Other errors are returned.
func (inv *Invocation) Check(err error) error {
	if unopened(err) {
		inv.setAside(CodeCodec, err)
		inv.mu.Lock()
		inv.exitIfClosedLocked()
	}
	if err != nil {
		inv.mu.Lock()
		if inv.undecoded == nil {
			inv.undecoded = err
		}
		inv.mu.Unlock()
	}
	return err
}

// CheckInStep is Check for code that may be in a step, and for what is encoded. It returns
// the error; what the code makes of it is not recorded. The lease may end later: a step may
// have a transaction, for whose end the store's next write waits.
func (inv *Invocation) CheckInStep(err error) error {
	if unopened(err) && inv.closeAside(CodeCodec, err) {
		go inv.finish(inv.release())
	}
	return err
}

// SetAside gives the lease back for a while, because the store refuses what the run
// needs. The reason stays on the run until its next failure, or its end.
func (inv *Invocation) SetAside(why error) { inv.setAside(CodeUnreadable, why) }

func (inv *Invocation) setAside(code string, why error) {
	if inv.closeAside(code, why) {
		inv.finish(inv.release())
	}
}

// closeAside lets no operation go on; false: the invocation's end was on the way before.
func (inv *Invocation) closeAside(code string, why error) bool {
	inv.mu.Lock()
	if inv.closed {
		inv.mu.Unlock()
		return false
	}
	f := Fail(why)
	inv.aside = &store.Failure{Code: code, Message: f.Message}
	inv.closeLocked(byRelease)
	inv.mu.Unlock()
	inv.cancel(ErrShutdown)
	inv.Logger().Error("the run is set aside", "for", inv.cfg.Aside, "code", code, "error", why)
	return true
}

// release makes the transition of a run whose lease is given back: at once, or for a while
// with the reason. Runs that were set aside together do not come back together.
func (inv *Invocation) release() store.Transition {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	t := store.Transition{Kind: store.Release}
	if inv.aside != nil {
		t.Failure = inv.aside
		t.After = time.Duration(float64(inv.cfg.Aside) * (1 - 0.2*rand.Float64()))
	}
	return t
}

// badPayload is what is recorded of a payload that could not be decoded. The error is made
// of it, so that it is the same live and replayed.
type badPayload struct {
	Signal *store.SignalID `json:"signal,omitempty"` // which stays unread
	Name   string          `json:"name,omitempty"`
	Case   int             `json:"case,omitempty"` // of a Select
	What   string          `json:"what"`
	Type   string          `json:"type"`
	Error  string          `json:"error"`
	Plain  bool            `json:"plain,omitempty"`
}

// maxReason bounds what the note has of the codec's text.
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

// record makes the failed record of the operation that came upon the payload.
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
