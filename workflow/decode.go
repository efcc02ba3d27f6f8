package workflow

import (
	"fmt"
	"reflect"

	"github.com/pawlhq/pawl/internal/exec"
)

// DecodeError says that a payload cannot be decoded into the type that the code has for
// it: a signal or a value of flow state of the wrong type, a result whose type was changed.
// errors.As finds it, and [ErrorCode] gives [CodeDecode]. A run that returns it fails, or
// is tried again as [RunAttempts] says.
//
// In a workflow's function and in steps it is never about a payload that the codec cannot
// open (engine.ErrCodec): the run's lease is given back then, and the code not told.
type DecodeError = exec.DecodeError

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
