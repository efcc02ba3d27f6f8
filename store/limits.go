package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Limits are the sizes, in bytes, above which nothing is stored (P12): the error is a
// [*TooLargeError] with the field, the size and the limit. A payload of exactly the limit is
// stored. Meta fields and failures have limits of their own, [MaxMeta] and [MaxFailure].
type Limits struct {
	// Payload limits a run's input and output, a step's output, a signal's payload and a state
	// value, each, and an answer. The output of a signal step may be longer by the signal's name and
	// ID, which are recorded with the payload.
	Payload int
	// Warn is the size from which the engine logs a warning for a payload that is accepted; 0: no
	// warnings.
	Warn int
}

// DefaultPayloadLimit is the default payload limit of a backend. Payloads are meant for
// coordination; store larger data elsewhere, with a reference in the payload.
const DefaultPayloadLimit = 2 << 20

// Environment variables with the values of [Limits] that a program does not set: a number of bytes, in
// digits.
const (
	EnvPayloadLimit = "PAWL_PAYLOAD_MAX_BYTES"  // for Limits.Payload
	EnvPayloadWarn  = "PAWL_PAYLOAD_WARN_BYTES" // for Limits.Warn
)

// OrDefault sets the zero fields: from the environment ([EnvPayloadLimit], [EnvPayloadWarn]), or
// else to [DefaultPayloadLimit] and half of the payload limit. An ErrInvalid error says which
// variable is wrong. OrDefault is for backends.
func (l Limits) OrDefault() (Limits, error) {
	if l.Payload == 0 {
		n, err := bytesFrom(EnvPayloadLimit, DefaultPayloadLimit)
		if err != nil {
			return l, err
		}
		l.Payload = n
	}
	if l.Warn == 0 {
		n, err := bytesFrom(EnvPayloadWarn, max(1, l.Payload/2))
		if err != nil {
			return l, err
		}
		l.Warn = n
	}
	if l.Payload < 0 || l.Warn < 0 {
		return l, Invalid("limits", fmt.Sprintf("a payload limit of %d bytes and a warning threshold of %d bytes: neither may be negative", l.Payload, l.Warn))
	}
	return l, nil
}

func bytesFrom(variable string, otherwise int) (int, error) {
	text := strings.TrimSpace(os.Getenv(variable))
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, Invalid("the environment's "+variable, fmt.Sprintf("%q is not a positive number of bytes, such as %d", text, DefaultPayloadLimit))
	}
	return n, nil
}
