package engine

import (
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/internal/exec"
)

// Codec turns inputs, outputs and other payloads into bytes and back. The store
// sees only the bytes. It may be used by many goroutines.
//
// An error that matches [ErrCodec] says that this codec, as it is set up, cannot handle the
// payload, and that another might: a key is missing, the bytes are encoded by something that
// it does not know, or are damaged. A worker that meets it while it executes a run gives the
// run back; the run does not fail. Any other error of Unmarshal says that the payload is
// not of v's type, and the workflow's code is told (workflow.DecodeError).
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// Errors of codecs, matched with errors.Is.
var (
	// ErrCodec: the codec, as it is set up, cannot handle the payload.
	ErrCodec = exec.ErrCodec
	// ErrPlain: a payload that is not encrypted came where the codec insists on it. It comes
	// together with ErrCodec.
	ErrPlain = exec.ErrPlain
)

// JSON is the default codec. An absent payload leaves the value as it is, so that
// a run started without input gets the zero value.
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

// Unmarked is for codecs whose encodings never begin with a zero byte, as that of JSON. With
// it begins what package codec has compressed or encrypted: such data gives an error that
// matches [ErrCodec].
func Unmarked(data []byte) error {
	if len(data) == 0 || data[0] != 0 {
		return nil
	}
	mark := data[:min(2, len(data))]
	return fmt.Errorf("%w: it is compressed or encrypted (its mark is %q), and this codec is neither; give the engine the codec of the others with engine.Encoding", ErrCodec, mark)
}
