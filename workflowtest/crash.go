package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// wire lies between a worker and its store. It can be cut at a call, which is how
// the worker dies: whatever it still does reaches nobody.
type wire struct {
	store.Store
	mu     sync.Mutex
	calls  int
	at     int  // the call at which it is cut; 0: never
	after  bool // cut behind the call: it is applied, its answer lost
	cut    bool
	onCut  func()
	record []string // what the calls were

	foreign sync.Map // contexts of steps in transactions that SQLite does not have -> their types
}

func newWire() *wire { return &wire{} }

var errCut = errors.New("workflowtest: the worker is dead")

func (w *wire) call(what string, do func() error) error {
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return errCut
	}
	w.calls++
	w.record = append(w.record, what)
	die := w.calls == w.at
	if die {
		w.cut = true
	}
	w.mu.Unlock()
	if !die {
		return do()
	}
	if w.after {
		_ = do()
	}
	w.onCut()
	return errCut
}

// Claim is a point at which to die when it brings something: its runs are leased
// then, to a dead worker.
func (w *wire) Claim(ctx context.Context, p store.ClaimParams) (c store.Claimed, err error) {
	if w.dead() {
		return c, errCut
	}
	c, err = w.Store.Claim(ctx, p)
	if err == nil && len(c.Runs) > 0 {
		if err = w.call("claim", func() error { return nil }); err != nil {
			return store.Claimed{}, err
		}
	}
	return c, err
}

func (w *wire) Commit(ctx context.Context, p store.CommitParams) (res []store.CommitResult, err error) {
	err = w.call(describe(p.Commits), func() (err error) {
		res, err = w.Store.Commit(ctx, p)
		return err
	})
	return res, err
}

// Append is a point at which to die, too.
func (w *wire) Append(ctx context.Context, p store.AppendParams) (res store.AppendResult, err error) {
	err = w.call("append of "+p.Step.String()+" to "+p.Stream, func() (err error) {
		res, err = w.Store.(store.Streamer).Append(ctx, p)
		return err
	})
	return res, err
}

func (w *wire) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	return w.Store.(store.Streamer).ReadStream(ctx, p)
}

func (w *wire) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	if w.dead() {
		return nil, errCut
	}
	return w.Store.Extend(ctx, p)
}

func (w *wire) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	if w.dead() {
		return errCut
	}
	return w.Store.RemoveWorker(ctx, p)
}

// Hints passes on those of the store.
func (w *wire) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	return w.Store.(store.Hinter).Hints(ctx, topics...)
}

func (w *wire) dead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

func describe(commits []store.Commit) string {
	s := "commit of"
	for _, c := range commits {
		for _, step := range c.Steps {
			s += fmt.Sprintf(" %s (%s)", step.StepKey, step.Status)
		}
		if c.Transition != nil {
			s += " " + c.Transition.Kind.String()
		}
	}
	return s
}

// CrashOption configures [CrashEverywhere].
type CrashOption func(*crashConfig)

type crashConfig struct {
	reset   func()
	observe func() any
	prepare func(env *Env)
	script  func(env *Env, run store.ID)
	finish  func(env *Env)
}

// Reset sets a function that is called before every run. It puts the outside world back to
// how it was.
func Reset(f func()) CrashOption { return func(c *crashConfig) { c.reset = f } }

// Observe sets a function that returns what the workflow has done to the outside world. Its
// results are compared after every run, with reflect.DeepEqual.
func Observe(f func() any) CrashOption { return func(c *crashConfig) { c.observe = f } }

// Script sets a function that is called after every start. It gives the run what it needs
// from outside, such as signals.
func Script(f func(env *Env, run store.ID)) CrashOption { return func(c *crashConfig) { c.script = f } }

// Prepare sets a function that is called before every start, in the run's own environment:
// for example, to create tables that steps in transactions write to, with [Env.Tx].
func Prepare(f func(env *Env)) CrashOption { return func(c *crashConfig) { c.prepare = f } }

// Finish sets a function that is called after every run, while its environment still
// exists: for example, to read what [Observe] is to return.
func Finish(f func(env *Env)) CrashOption { return func(c *crashConfig) { c.finish = f } }

// crashLease is how long a killed worker's runs wait for the next one.
const crashLease = 10 * time.Minute

// end is what came of a run.
type end struct {
	Output any
	Error  string
	World  any
}

// CrashEverywhere runs the workflow once undisturbed, and then once for each point at which
// its worker may crash: before and after every claim and every commit. A new worker takes
// over when the lease ends, ten minutes later at most.
//
// For every point, the output or error, and what [Observe] returns, must be the same as in
// the undisturbed run. So it finds steps that are not idempotent.
func CrashEverywhere[In, Out any](t *testing.T, w *workflow.Workflow[In, Out], in In, opts ...CrashOption) {
	t.Helper()
	crashEverywhere(t, t.Errorf, w, in, opts)
}

// crashEverywhere reports what it finds by complain.
func crashEverywhere[In, Out any](t *testing.T, complain func(format string, args ...any), w *workflow.Workflow[In, Out], in In, opts []CrashOption) {
	t.Helper()
	c := crashConfig{reset: func() {}, observe: func() any { return nil }, prepare: func(*Env) {}, script: func(*Env, store.ID) {}, finish: func(*Env) {}}
	for _, opt := range opts {
		opt(&c)
	}
	once := func(at int, after bool) (got end, calls []string) {
		wire := newWire()
		wire.at, wire.after = at, after
		c.reset()
		synctest.Test(t, func(t *testing.T) {
			run(t, wire, crashLease, func(env *Env) {
				c.prepare(env)
				started := Start(env, w, in)
				c.script(env, started.ID())
				out, err := started.Wait()
				if got.Output = out; err != nil {
					got.Error = errorText(err)
				}
				synctest.Wait()
				c.finish(env)
			})
		})
		got.World = c.observe()
		return got, wire.record
	}
	want, calls := once(0, false)
	for i, call := range calls {
		for _, after := range []bool{false, true} {
			got, _ := once(i+1, after)
			if reflect.DeepEqual(got, want) {
				continue
			}
			where := "before"
			if after {
				where = "behind"
			}
			complain("a crash %s call %d of %d (%s) changes what comes of the run:\n\tundisturbed: %+v\n\tcrashed:     %+v",
				where, i+1, len(calls), call, want, got)
		}
	}
}

// errorText is an error without the run's ID, which differs from run to run.
func errorText(err error) string {
	var failure *store.Failure
	if errors.As(err, &failure) {
		return failure.Code + ": " + failure.Message
	}
	return err.Error()
}
