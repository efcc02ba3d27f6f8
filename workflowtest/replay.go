package workflowtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// History is a run with its records, as it can be kept in a file beside the code.
type History struct {
	Run   store.Run
	Steps []store.Step
}

// Record reads the history of a run, of production say, finished or not.
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

// Load reads what [History.Save] wrote.
func Load(r io.Reader) (h History, err error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return History{}, fmt.Errorf("workflowtest: not a saved history: %w", err)
	}
	return h, nil
}

// CheckOption configures [Check] and [Replay].
type CheckOption func(*checking)

type checking struct{ codec engine.Codec }

// Codec is the codec with which the history was recorded, with all its keys. Default:
// engine.JSON.
func Codec(c engine.Codec) CheckOption { return func(o *checking) { o.codec = c } }

// Replay fails the test when the workflow's code does not fit a recorded history,
// saying what no longer matches.
func Replay(t testing.TB, w workflow.Definition, h History, opts ...CheckOption) {
	t.Helper()
	if err := Check(w, h, opts...); err != nil {
		t.Errorf("%v", err)
	}
}

// Check runs the workflow's code on a recorded history, executing no step. It
// returns an error when the code asks for something else than is recorded, or its types do
// not take what is recorded; when the history is of a finished run, also when the code would
// go on behind it or end otherwise. An error that matches engine.ErrCodec says that the
// history was recorded with another [Codec].
func Check(w workflow.Definition, h History, opts ...CheckOption) error {
	o := checking{codec: engine.JSON{}}
	for _, opt := range opts {
		opt(&o)
	}
	def := w.Define(o.codec)
	if def.Err != nil {
		return def.Err
	}
	what := fmt.Sprintf("history of run %s of workflow %q", h.Run.ID, h.Run.Workflow)
	if def.Name != h.Run.Workflow {
		return fmt.Errorf("%s: the code is of workflow %q", what, def.Name)
	}
	finished := h.Run.Status == store.Completed || h.Run.Status == store.Failed
	run := h.Run
	run.Deadline, run.Crashes, run.Status = time.Time{}, 0, store.Running
	r := &replayer{codec: o.codec, ended: make(chan struct{})}
	now := time.Now()
	for _, s := range h.Steps {
		if s.DueAt.After(now) {
			now = s.DueAt // every wait that was recorded is over
		}
	}
	inv := exec.New(context.Background(), exec.Config{
		Park: -1, Linger: time.Hour, Aside: time.Minute, ShowAfter: time.Hour, MaxCrashes: 1, PayloadLimit: 1 << 30, PayloadWarn: 1 << 30,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, r, def, store.ClaimedRun{Run: run, Steps: h.Steps}, time.Now(), now)
	go inv.Execute()
	<-r.ended
	return r.verdict(what, h, finished)
}

// replayer is the host of an invocation that must not do anything.
type replayer struct {
	codec  engine.Codec
	mu     sync.Mutex
	beyond string // the first thing that is not recorded
	begins bool   // a step that is not recorded is about to begin
	end    exec.End
	ended  chan struct{}
}

func (r *replayer) Commit(c store.Commit) store.CommitResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range c.Steps {
		waits := s.Kind == store.KindSleep || s.Kind == store.KindSignal || s.Kind == store.KindState && s.Status == store.StepRunning
		if r.beyond == "" && !waits {
			r.beyond = s.String()
		}
	}
	return store.CommitResult{Status: store.Running}
}

// Ready holds a step that is not recorded before it begins. Whether the code waits for
// it shows when the rest of the run has ended, or waits, too: in the recorded run it may
// have been cut short, or not have come that far.
func (r *replayer) Ready(inv *exec.Invocation) bool {
	r.mu.Lock()
	r.begins = true
	r.mu.Unlock()
	inv.Stay()
	return false
}

// Begin is never reached: Ready refuses before.
func (r *replayer) Begin(context.Context, *exec.Invocation, any) (store.Transaction, error) {
	return nil, store.ErrUnsupported
}

func (r *replayer) CommitTx(*exec.Invocation, store.Transaction, store.Commit) (store.CommitResult, error) {
	return store.CommitResult{}, store.ErrUnsupported
}

// State refuses: a read that is not recorded is about to be made.
func (r *replayer) State(context.Context, *exec.Invocation, ...string) ([]store.StateEntry, error) {
	if r.beyond == "" {
		r.beyond = "a read of flow state"
	}
	return nil, store.ErrUnsupported
}

// SetState is never reached: it is of steps.
func (r *replayer) SetState(context.Context, *exec.Invocation, store.StateWrite) (store.StateEntry, error) {
	return store.StateEntry{}, store.ErrUnsupported
}

func (r *replayer) Inbox(*exec.Invocation, exec.Look) (store.Inbox, bool) { return store.Inbox{}, true }

// Ask refuses: what is kept with children is no part of a history.
func (r *replayer) Ask(*exec.Invocation, string, func(context.Context, store.Store, string) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beyond == "" {
		r.beyond = "the large results of a child, which the history does not have"
	}
	return exec.ErrShutdown
}

func (r *replayer) Parked(*exec.Invocation)      {}
func (r *replayer) Unparked(*exec.Invocation)    {}
func (r *replayer) Ended(*exec.Invocation, bool) {}

func (r *replayer) Closed(_ *exec.Invocation, end exec.End) {
	r.end = end
	close(r.ended)
}

func (r *replayer) verdict(what string, h History, finished bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.end.Transition
	switch {
	case t.Failure != nil && (t.Failure.Code == exec.CodeNondeterministic || t.Failure.Code == exec.CodeDeadlock):
		return fmt.Errorf("%s: %s", what, t.Failure.Message)
	case t.Failure != nil && t.Failure.Code == exec.CodeCodec:
		return fmt.Errorf("%s: %w", what, cannotOpen{t.Failure.Message})
	case t.Failure != nil && t.Failure.Code == exec.CodeDecode && !h.hasFailed(exec.CodeDecode):
		return fmt.Errorf("%s: %s", what, t.Failure.Message)
	case !finished:
		return nil
	case r.end.Err != nil:
		return fmt.Errorf("%s: the run had finished, and the code now goes on with %s", what, r.beyond)
	case t.Kind == store.Sleep && r.begins:
		return fmt.Errorf("%s: the run had finished, and the code now goes on with a step", what)
	case t.Kind == store.Sleep:
		return fmt.Errorf("%s: the run had finished, and the code now waits for something", what)
	case r.beyond != "":
		return fmt.Errorf("%s: the run had finished, and the code now records %s as well", what, r.beyond)
	case h.Run.Status == store.Completed && t.Kind != store.Complete:
		return fmt.Errorf("%s: the run had completed, and the code now fails: %v", what, t.Failure)
	case h.Run.Status == store.Failed && t.Kind == store.Complete:
		return fmt.Errorf("%s: the run had failed, and the code now completes", what)
	case h.Run.Status == store.Completed && !r.same(t.Output, h.Run.Output):
		return fmt.Errorf("%s: its output was %s, and is now %s", what, clip(h.Run.Output), clip(t.Output))
	}
	return nil
}

// cannotOpen is the error of a history that was recorded with another codec.
type cannotOpen struct{ text string }

func (e cannotOpen) Error() string {
	return e.text + "; say with what the history was recorded: workflowtest.Codec"
}
func (e cannotOpen) Is(target error) bool { return target == engine.ErrCodec }

// hasFailed says whether the run, or a step of it, has failed with a code.
func (h History) hasFailed(code string) bool {
	has := func(f *store.Failure) bool { return f != nil && f.Code == code }
	return has(h.Run.Failure) || slices.ContainsFunc(h.Steps, func(s store.Step) bool { return has(s.Failure) })
}

// same compares outputs by what they say, however they are encoded.
func (r *replayer) same(a, b []byte) bool {
	if d, ok := r.codec.(engine.Digester); ok {
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
