package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

func TestFailureCodesAreThoseRecorded(t *testing.T) {
	for recorded, code := range map[string]string{
		exec.CodeError: CodeError, exec.CodePanic: CodePanic, exec.CodeTimeout: CodeTimeout, exec.CodeTooLarge: CodeTooLarge,
		exec.CodeCanceled: CodeCanceled, exec.CodeCrashed: CodeCrashed, exec.CodeDeadline: CodeDeadline,
		exec.CodeNondeterministic: CodeNondeterministic, exec.CodeDeadlock: CodeDeadlock, exec.CodeUnreadable: CodeUnreadable,
		exec.CodeCodec: CodeCodec, exec.CodeDecode: CodeDecode, exec.CodeCoordination: CodeCoordination,
	} {
		require.Equal(t, recorded, code)
	}
}

func TestErrorsOfTheEngineBecomeThoseOfUsers(t *testing.T) {
	key := store.StepKey{Name: "charge", Occurrence: 1}
	failure := &store.Failure{Code: "declined", Message: "no"}
	inner := &exec.FailedStep{Key: key, Attempts: 3, Failure: failure}
	var step *StepError
	require.ErrorAs(t, public(inner), &step)
	require.Equal(t, &StepError{Key: key, Attempts: 3, Failure: failure}, step)
	require.Equal(t, inner.Error(), step.Error())
	require.Equal(t, "declined", ErrorCode(fmt.Errorf("order 7: %w", step)))

	why := errors.New("no number")
	undecoded := &exec.DecodeError{What: "a payload", Type: "int", Err: why}
	var decode *DecodeError
	require.ErrorAs(t, public(undecoded), &decode)
	require.Equal(t, &DecodeError{What: "a payload", Type: "int", Err: why}, decode)
	require.Equal(t, undecoded.Error(), decode.Error())
	require.ErrorIs(t, decode, why)

	require.NoError(t, public(nil))
	require.Equal(t, why, public(why))
}

func TestTheEngineKnowsADecodeErrorHoweverItIsWrapped(t *testing.T) {
	var n int
	err := fmt.Errorf("order 7: %w", decodeInto(codecOf{}, []byte(`"x"`), &n, "the payload of signal %q", "approved"))
	var inner *exec.DecodeError
	require.ErrorAs(t, err, &inner)
	require.Equal(t, `the payload of signal "approved"`, inner.What)
	require.Equal(t, "int", inner.Type)
	require.Equal(t, CodeDecode, ErrorCode(err))
	var syntax *json.UnmarshalTypeError
	require.ErrorAs(t, err, &syntax)
	var none *StepError
	require.NotErrorAs(t, err, &none)
}

// codecOf is JSON.
type codecOf struct{}

func (codecOf) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (codecOf) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
