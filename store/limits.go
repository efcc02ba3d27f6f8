package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Limits are the sizes, in bytes, over which nothing is stored (P12). Cases:
// payload/limits-declared, payload/at-the-limit, payload/over-the-limit,
// payload/meta-and-failure-limits, payload/run-input, payload/run-meta,
// payload/claimed-input, payload/continued-input, payload/child-input,
// payload/forked-input, payload/run-output, payload/child-output,
// payload/step-output, payload/claimed-step-output, payload/signal,
// payload/state, payload/committed-state, payload/schedule-input,
// payload/schedule-meta, payload/fired-input, payload/workflow-meta,
// payload/failure-text, payload/not-shared.
type Limits struct {
	// Payload bounds a run's input and output, a step's output, a signal's
	// payload and a state value, each. The output of a signal step may be longer
	// by a signal's name, which is noted with the payload.
	Payload int
	// Warn is the size from which on a payload that is taken is worth a warning in
	// the log, which the engine gives; 0: none is.
	Warn int
}

// DefaultPayloadLimit is the payload limit of a backend that was not told
// another. Payloads are coordination data; larger things belong elsewhere,
// with a reference in the payload.
const DefaultPayloadLimit = 2 << 20

// Variables of the environment for limits that a program does not set.
const (
	EnvPayloadLimit = "PAWL_PAYLOAD_MAX_BYTES"
	EnvPayloadWarn  = "PAWL_PAYLOAD_WARN_BYTES"
)

// OrDefault fills in what is zero: from the environment ([EnvPayloadLimit],
// [EnvPayloadWarn]), or else [DefaultPayloadLimit] and half of the payload limit.
// ErrInvalid says which variable is wrong. Backends use it.
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
		return l, Invalid("limits", fmt.Sprintf("a payload limit of %d and a warning from %d bytes on: neither may be negative", l.Payload, l.Warn))
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
		return 0, Invalid("the environment's "+variable, fmt.Sprintf("%q is not a number of bytes above zero, such as %d", text, DefaultPayloadLimit))
	}
	return n, nil
}
