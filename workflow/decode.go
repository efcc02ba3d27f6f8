package workflow

import (
	"fmt"
	"reflect"

	"github.com/pawlhq/pawl/internal/exec"
)

// DecodeError says that a payload cannot be decoded into the type that the code expects: a signal
// or a value of flow state of the wrong type, or a result whose type was changed. Find it with
// errors.As; [ErrorCode] returns [CodeDecode]. A run that returns it fails, or is tried again as
// [RunAttempts] says.
//
// In a workflow's function and in steps, it is never about a payload that the codec cannot
// open (engine.ErrCodec): then the run's lease is given back, and the code does not get an
// error.
type DecodeError struct {
	What string // what was to be decoded: `the payload of signal "approved"`
	Type string // the Go type that it was to be decoded into
	// Err is the codec's error. For a signal, and for flow state that a workflow's function reads,
	// it is made from the error's recorded text.
	Err error
}

// Error returns a text that names the payload, the type and the codec's error.
func (e *DecodeError) Error() string { return e.internal().Error() }

// Unwrap returns the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// As converts the error to the engine's own form.
func (e *DecodeError) As(target any) bool {
	t, ok := target.(**exec.DecodeError)
	if ok {
		*t = e.internal()
	}
	return ok
}

func (e *DecodeError) internal() *exec.DecodeError {
	return &exec.DecodeError{What: e.What, Type: e.Type, Err: e.Err}
}

// decodeInto decodes a payload; what and args say what it is.
func decodeInto[T any](codec exec.Codec, data []byte, v *T, what string, args ...any) error {
	if err := codec.Unmarshal(data, v); err != nil {
		return &DecodeError{What: fmt.Sprintf(what, args...), Type: reflect.TypeFor[T]().String(), Err: err}
	}
	return nil
}

// decodeOwn is decodeInto for a payload of the run itself, on a goroutine of the run.
func decodeOwn[T any](b *exec.Branch, codec exec.Codec, data []byte, v *T, what string, args ...any) error {
	return b.Invocation().Check(decodeInto(codec, data, v, what, args...))
}
