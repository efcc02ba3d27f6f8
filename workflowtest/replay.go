package workflowtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/replay"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// History is a run with its records. It can be kept in a file beside the code: see
// [History.Save] and [Load].
type History struct {
	Run   store.Run
	Steps []store.Step
}

// Record reads the history of a run, finished or not: for example, of a production run.
func Record(ctx context.Context, eng *engine.Engine, id store.ID) (History, error) {
	run, err := eng.Get(ctx, id)
	if err != nil {
		return History{}, err
	}
	steps, err := eng.Steps(ctx, id)
	return History{Run: run, Steps: steps}, err
}

// Save writes a history as JSON.
func (h History) Save(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "\t")
	return enc.Encode(h)
}

// Load reads a history that [History.Save] wrote.
func Load(r io.Reader) (h History, err error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return History{}, fmt.Errorf("workflowtest: not a saved history: %w", err)
	}
	return h, nil
}

// CheckOption configures [Check], [Replay] and [ReplayLive].
type CheckOption func(*checking)

type checking struct {
	codec     engine.Codec
	namespace string // of ReplayLive
	sample    int    // of ReplayLive; 0: all
}

// Codec sets the codec with which the history was recorded, with all of its keys. The
// default is [engine.JSON].
func Codec(c engine.Codec) CheckOption { return func(o *checking) { o.codec = c } }

// Replay fails the test if the workflow's code does not fit a recorded history. The message
// says what no longer matches. See [Check].
func Replay(t testing.TB, w workflow.Definition, h History, opts ...CheckOption) {
	t.Helper()
	if err := Check(w, h, opts...); err != nil {
		t.Errorf("%v", err)
	}
}

// Check runs the workflow's code against a recorded history without executing any step. It
// returns an error if the code asks for something else than is recorded, or if its types do
// not fit what is recorded. For the history of a finished run, it also returns an error if
// the code would continue after the last record or end differently. An error that matches
// engine.ErrCodec says that the history was recorded with another codec: set it with
// [Codec].
func Check(w workflow.Definition, h History, opts ...CheckOption) error {
	o := checking{codec: engine.JSON{}}
	for _, opt := range opts {
		opt(&o)
	}
	def := bridge.Define(w, o.codec)
	if def.Err != nil {
		return def.Err
	}
	what := fmt.Sprintf("history of run %s of workflow %q", h.Run.ID, h.Run.Workflow)
	if def.Name != h.Run.Workflow {
		return fmt.Errorf("%s: the code is of workflow %q", what, def.Name)
	}
	out, err := replay.Run(context.Background(), def, replay.History{Run: h.Run, Steps: h.Steps})
	if err != nil {
		return err
	}
	return h.verdict(what, o.codec, out)
}

func (h History) verdict(what string, codec engine.Codec, out *replay.Outcome) error {
	t := out.End.Transition
	if f := out.Misfit(); f != nil && f.Code == exec.CodeCodec {
		return fmt.Errorf("%s: %w", what, cannotOpen{f.Message})
	} else if f != nil {
		return fmt.Errorf("%s: %s", what, f.Message)
	}
	switch {
	case h.Run.Status != store.Completed && h.Run.Status != store.Failed:
		return nil
	case out.End.Err != nil:
		return fmt.Errorf("%s: the run had finished, but the code now continues with %s", what, out.Beyond)
	case t.Kind == store.Sleep && out.Begins:
		return fmt.Errorf("%s: the run had finished, but the code now continues with a step", what)
	case t.Kind == store.Sleep && out.Beyond != "":
		return fmt.Errorf("%s: the run had finished, but the code now continues with %s", what, out.Beyond)
	case t.Kind == store.Sleep:
		return fmt.Errorf("%s: the run had finished, but the code now waits for something", what)
	case out.Beyond != "":
		return fmt.Errorf("%s: the run had finished, but the code now also records %s", what, out.Beyond)
	case h.Run.Status == store.Completed && t.Kind != store.CompleteRun:
		return fmt.Errorf("%s: the run had completed, but the code now fails: %v", what, t.Failure)
	case h.Run.Status == store.Failed && t.Kind == store.CompleteRun:
		return fmt.Errorf("%s: the run had failed, but the code now completes", what)
	case h.Run.Status == store.Completed && !same(codec, t.Output, h.Run.Output):
		return fmt.Errorf("%s: its output was %s and is now %s", what, clip(h.Run.Output), clip(t.Output))
	}
	return nil
}

// cannotOpen is the error of a history that was recorded with another codec.
type cannotOpen struct{ text string }

func (e cannotOpen) Error() string {
	return e.text + "; say with what the history was recorded: workflowtest.Codec"
}
func (e cannotOpen) Is(target error) bool { return target == engine.ErrCodec }

// same compares outputs by what they say, however they are encoded.
func same(codec engine.Codec, a, b []byte) bool {
	if d, ok := codec.(engine.Digester); ok {
		x, err := d.Digest(a)
		y, err2 := d.Digest(b)
		if errors.Join(err, err2) == nil && len(x) > store.DigestScheme {
			return bytes.Equal(x, y)
		}
	}
	return sameJSON(a, b)
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		return bytes.Equal(a, b)
	}
	ja, _ := json.Marshal(x)
	jb, _ := json.Marshal(y)
	return bytes.Equal(ja, jb)
}

func clip(b []byte) string {
	s := strings.ToValidUTF8(string(b), "?")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}
