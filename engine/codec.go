package engine

import (
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
)

// Codec turns inputs, outputs and other payloads into bytes and back. The store sees only
// the bytes. Its methods must be safe for concurrent use.
//
// An error that matches [ErrCodec] says that this codec, as it is set up, cannot handle the
// payload, and that another might: a key is missing, or the bytes are encoded in a way that
// it does not know, or are damaged. A worker that gets it while it executes a run gives the
// run back, and the run does not fail. Any other error of Unmarshal says that the payload
// does not fit v's type. The workflow's code gets it as a workflow.DecodeError.
type Codec interface {
	// Marshal returns the encoding of v.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the value that v points to. Data is empty where there is
	// no payload, as for a run that was started without input.
	Unmarshal(data []byte, v any) error
}

// Errors of codecs, matched with errors.Is.
var (
	// ErrCodec means that the codec, as configured, cannot handle the payload.
	ErrCodec = errCodec() // "the codec cannot handle the payload"
	// ErrPlain means that a payload is not encrypted although the codec requires it. Such
	// an error also matches ErrCodec.
	ErrPlain = errPlain() // "the payload is not encrypted"
)

func errCodec() error { return exec.ErrCodec }
func errPlain() error { return exec.ErrPlain }

// JSON is the default codec. Unmarshal of an empty payload leaves the value as it is, so
// that a run that was started without input gets the zero value.
type JSON struct{}

// Marshal implements [Codec].
func (JSON) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements [Codec].
func (JSON) Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	if err := Unmarked(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Unmarked returns an error that matches [ErrCodec] if package codec has compressed or
// encrypted the data: such data begins with a zero byte. It is for codecs whose encodings
// never do, such as JSON.
func Unmarked(data []byte) error {
	if len(data) == 0 || data[0] != 0 {
		return nil
	}
	mark := data[:min(2, len(data))]
	return fmt.Errorf("%w: it is compressed or encrypted (mark %q), which this codec does not support; set the codec that the other programs use with engine.PayloadCodec", ErrCodec, mark)
}
