package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// Coded is an error of user code that says more than its text.
type Coded struct {
	Code      string // empty: CodeError
	Permanent bool   // not worth another attempt
	Err       error
}

func (e *Coded) Error() string { return e.Err.Error() }

// Unwrap gives the error below.
func (e *Coded) Unwrap() error { return e.Err }

// maxMessage bounds what is recorded of an error's text.
const maxMessage = 32 << 10

// Fail makes the record of an error.
func Fail(err error) *store.Failure {
	var p *panicError
	if errors.As(err, &p) {
		return p.failure
	}
	f := &store.Failure{Code: CodeError, Message: strings.ToValidUTF8(err.Error(), "\uFFFD"), Type: fmt.Sprintf("%T", plain(err))}
	var coded *Coded
	var recorded *store.Failure
	var large *store.TooLargeError
	var decode *DecodeError
	if errors.As(err, &decode) {
		f.Code = CodeDecode
	}
	switch {
	case errors.As(err, &coded):
		if coded.Code != "" {
			f.Code = coded.Code
		}
		f.Type, f.Permanent = fmt.Sprintf("%T", plain(coded.Err)), coded.Permanent
	case errors.As(err, &recorded):
		f.Code, f.Type, f.Stack, f.Permanent = recorded.Code, recorded.Type, recorded.Stack, recorded.Permanent
	case errors.As(err, &large):
		f.Code = CodeTooLarge
	}
	if len(f.Message) > maxMessage {
		f.Message = strings.ToValidUTF8(f.Message[:maxMessage], "") + " [cut]"
	}
	return f
}

// StepCode is the code that the failure of a step's attempt gets; ctx is the attempt's.
func StepCode(ctx context.Context, err error) string {
	code := Fail(err).Code
	if code == CodeError && context.Cause(ctx) == errTimeout {
		return CodeTimeout
	}
	return code
}

// Retryable reports whether the policy allows another attempt after this error,
// were there attempts left.
func Retryable(p Policy, err error) bool {
	var coded *Coded
	var recorded *store.Failure
	if errors.As(err, &coded) && coded.Permanent || errors.As(err, &recorded) && recorded.Permanent || errors.Is(err, store.ErrTooLarge) || errors.Is(err, ErrConcurrent) {
		return false
	}
	return p.Retryable == nil || p.Retryable(err)
}

// checkSize holds a payload against the limits.
func (inv *Invocation) checkSize(field string, b []byte) error {
	if len(b) > inv.cfg.PayloadLimit {
		return &store.TooLargeError{Field: field, Size: len(b), Limit: inv.cfg.PayloadLimit}
	}
	if warn := inv.cfg.PayloadWarn; warn > 0 && len(b) > warn {
		inv.cfg.Logger.Warn("large payload: keep the data elsewhere and pass a reference", "run", inv.run.ID.String(), "what", field, "bytes", len(b), "limit", inv.cfg.PayloadLimit)
	}
	return nil
}
