package exec

import (
	"encoding/json"
	"errors"
	"time"
)

// Later is an error that says when the next attempt is worth it.
type Later struct {
	After time.Duration // above 0
	Err   error
}

func (e *Later) Error() string { return e.Err.Error() }

// Unwrap gives the error below.
func (e *Later) Unwrap() error { return e.Err }

// later is how long an error asks to wait; 0: it does not say.
func later(err error) time.Duration {
	var l *Later
	if errors.As(err, &l) {
		return l.After
	}
	return 0
}

// plain is the error of user code below what marks it.
func plain(err error) error {
	for {
		switch e := err.(type) {
		case *Later:
			err = e.Err
		case *Coded:
			err = e.Err
		default:
			return err
		}
	}
}

// next is Wait, unless the error of the attempt has said how long to wait.
func (p Policy) next(attempt int, after time.Duration) (wait time.Duration, ok bool) {
	if wait, ok = p.Wait(attempt); ok && after > 0 {
		wait = after
	}
	return wait, ok
}

// RunRetry is what a start says of its run's retries, where it differs from the
// workflow. It is kept in the run's Meta.
type RunRetry struct {
	Attempts *int           `json:"attempts,omitempty"` // negative: for ever
	Backoff  *RunRetryDelay `json:"backoff,omitempty"`
}

// RunRetryDelay is the wait between attempts.
type RunRetryDelay struct {
	Initial time.Duration `json:"initial"`
	Factor  float64       `json:"factor"`
	Max     time.Duration `json:"max"`
}

// retryKey is where Meta, a JSON object, has the RunRetry.
const retryKey = "retry"

// SetRetry changes what a run's meta says of its retries.
func SetRetry(meta []byte, change func(*RunRetry)) []byte {
	all := make(map[string]json.RawMessage)
	_ = json.Unmarshal(meta, &all) // none, or the engine's own
	var r RunRetry
	_ = json.Unmarshal(all[retryKey], &r)
	change(&r)
	all[retryKey], _ = json.Marshal(r) // numbers only
	out, _ := json.Marshal(all)
	return out
}

// forRun is the definition with the retries that the run was started with.
func (d *Definition) forRun(meta []byte) *Definition {
	var m struct {
		Retry *RunRetry `json:"retry"`
	}
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil || m.Retry == nil {
		return d
	}
	own := *d
	if r := m.Retry; r.Attempts != nil {
		own.Retry.Attempts = *r.Attempts
	}
	if b := m.Retry.Backoff; b != nil {
		own.Retry.Initial, own.Retry.Factor, own.Retry.Max = b.Initial, b.Factor, b.Max
	}
	return &own
}
