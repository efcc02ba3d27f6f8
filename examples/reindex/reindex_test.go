package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/reindex/search"
	"github.com/pawlhq/pawl/examples/reindex/source"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// world is a source with 200 documents, their first index, and a worker.
type world struct {
	*testing.T
	*indexer
	eng *engine.Engine
}

// hook stands around each attempt of a step.
type hook func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error)

func newWorld(t *testing.T, around func(w *world) hook) *world {
	dir := t.TempDir()
	p := program{dir: dir, docs: 200, plan: Plan{Batch: 100}}
	src, err := p.openSource(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	indices, err := search.Open(filepath.Join(dir, "indices"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, indices.Close()) })
	require.NoError(t, p.first(t.Context(), src, indices))

	st, err := backends.Open(t.Context(), "sqlite:"+filepath.Join(dir, "pawl.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	w := &world{t, &indexer{src, indices}, engine.New(st)}
	t.Cleanup(w.eng.Close)
	var opts []worker.Option
	if around != nil {
		opts = append(opts, worker.WrapSteps(around(w)))
	}
	works := worker.New(w.eng, opts...)
	require.NoError(t, works.Register(w.reindex(), w.rollback(), w.drop()))
	ctx, stop := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	beside.Go(func() { _ = works.Run(ctx) })
	beside.Go(func() { _ = indices.Follow(ctx, src, func(time.Duration) {}) })
	t.Cleanup(beside.Wait)
	t.Cleanup(stop)
	return w
}

func (w *world) start() workflow.Handle[search.Verification] {
	h, err := w.reindex().Start(w.Context(), w.eng, Plan{To: "docs-2", Analyzer: "en", Batch: 50})
	require.NoError(w, err)
	return h
}

// write changes some documents, deletes some, and makes one.
func (w *world) write() {
	require.NoError(w, w.source.Write(w.Context(), func(tx *source.Tx) error {
		for i := range 20 {
			if _, err := tx.Put(w.Context(), source.ID(i), "painted engines", "again"); err != nil {
				return err
			}
			if _, err := tx.Delete(w.Context(), source.ID(100+i)); err != nil {
				return err
			}
		}
		_, err := tx.Put(w.Context(), source.ID(110), "made anew", "")
		return err
	}))
}

func (w *world) verify(name string) {
	v, err := (w.indexer).verify(w.Context(), Plan{To: name})
	require.NoError(w, err)
	require.True(w, v.OK(), v.String())
	end, err := w.source.End(w.Context())
	require.NoError(w, err)
	require.Equal(w, end, v.Offset)
}

var errCrash = errors.New("it has done its work and died")

// Every step is done twice: it dies between its work and its record.
func TestEveryStepTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			if step.Attempt == 1 && step.Key.Name == "backfill" {
				w.write()
			}
			out, err := next(ctx)
			if step.Attempt == 1 && err == nil {
				return nil, errCrash
			}
			return out, err
		}
	})
	v, err := w.start().Result(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
	require.Equal(t, search.Alias{Target: "docs-2", Previous: "docs-1", Generation: 2}, w.indices.Alias())
	w.write()
	w.world("docs-2", "docs-1")
	found, err := w.indices.Match(t.Context(), "engine")
	require.NoError(t, err)
	require.NotZero(t, found, "the new index knows word forms")
}

// world checks that indices are what the source is.
func (w *world) world(names ...string) {
	for _, name := range names {
		w.verify(name)
	}
}

// The switch waits for the consumer, and the consumer for the switch.
func TestGate(t *testing.T) {
	t.Parallel()
	switched := make(chan struct{})
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			run := workflow.InStep(ctx)
			switch step.Key.Name {
			case "backfill":
				w.write()
			case "consume-changes": // it is late
				err := workflow.WaitForState(run, "filled", func(r workflow.FlowStateReader) (bool, error) {
					_, done, err := TargetWatermark.Read(r)
					return done, err
				})
				if err != nil {
					return nil, err
				}
				out, err := next(ctx)
				select {
				case <-switched:
				default:
					t.Error("the consumer has ended before the switch")
				}
				return out, err
			case "switch-alias":
				target, _, err1 := TargetWatermark.Get(run)
				offset, _, err2 := ConsumerOffset.Get(run)
				if err := errors.Join(err1, err2); err != nil || offset < target || offset < 241 {
					t.Errorf("switched at offset %d, before the watermark %d: %v", offset, target, err)
				}
				close(switched)
			}
			return next(ctx)
		}
	})
	v, err := w.start().Result(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
}

// Writers are faster than the consumer can be. It ends all the same, and those who
// follow the alias's target take over.
func TestConsumerIsBehind(t *testing.T) {
	t.Parallel()
	var writing sync.WaitGroup
	defer writing.Wait()
	storm, stop := context.WithCancel(t.Context())
	defer stop()
	behind := int64(0)
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			if step.Key.Name == "switch-alias" {
				for range 20 {
					w.write() // faster than one by one
				}
				writing.Go(func() {
					for storm.Err() == nil {
						w.write()
					}
				})
			}
			out, err := next(ctx)
			if step.Key.Name == "consume-changes" {
				offset, _, err1 := ConsumerOffset.Get(workflow.InStep(ctx))
				end, err2 := w.source.End(ctx)
				require.NoError(w, errors.Join(err1, err2))
				behind = end - offset
				stop()
			}
			return out, err
		}
	})
	h, err := w.reindex().Start(t.Context(), w.eng, Plan{To: "docs-2", Analyzer: "en", Batch: 10})
	require.NoError(t, err)
	v, err := h.Result(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
	require.Greater(t, behind, int64(100))
}

// Nobody writes: the gate opens all the same.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	v, err := newWorld(t, nil).start().Result(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
	require.EqualValues(t, 200, v.Offset)
}

func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, err := w.start().Result(t.Context())
	require.NoError(t, err)
	back := func() (search.Alias, error) {
		h, err := w.rollback().Start(t.Context(), w.eng, struct{}{})
		require.NoError(t, err)
		return h.Result(t.Context())
	}
	for generation := int64(3); generation < 5; generation++ {
		w.write()
		a, err := back()
		require.NoError(t, err)
		require.Equal(t, w.indices.Alias(), a)
		require.Equal(t, generation, a.Generation)
		w.world("docs-1", "docs-2")
	}
	require.Equal(t, "docs-2", w.indices.Alias().Target)
	h, err := w.drop().Start(t.Context(), w.eng, "docs-1")
	require.NoError(t, err)
	dropped, err := h.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, "docs-1", dropped)
	_, err = back()
	require.ErrorContains(t, err, "there is no index behind docs-2 to go back to")
}

// Somebody rolls back between the switch and its record: the retry lets it be, and
// nobody waits for ever.
func TestRollbackBeforeTheSwitchIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			out, err := next(ctx)
			if step.Key.Name == "switch-alias" && step.Attempt == 1 {
				require.NoError(w, w.indices.Switch(2, "docs-1"))
				return nil, errCrash
			}
			return out, err
		}
	})
	_, err := w.start().Result(t.Context())
	require.ErrorIs(t, err, engine.ErrFailed)
	require.ErrorContains(t, err, "the alias has moved on")
	require.Equal(t, search.Alias{Target: "docs-1", Previous: "docs-2", Generation: 3}, w.indices.Alias())
}

// An index that is not what it should be does not stay.
func TestSwitchBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			if step.Key.Name == "verify" {
				return json.Marshal(search.Verification{Index: "docs-2", Documents: 2, Indexed: 1, Differences: []string{"b is missing"}})
			}
			return next(ctx)
		}
	})
	_, err := w.start().Result(t.Context())
	require.ErrorContains(t, err, "index docs-2 DIFFERS from the source at offset 0: 2 documents, 1 indexed, 0 equal: b is missing")
	require.Equal(t, search.Alias{Target: "docs-1", Previous: "docs-2", Generation: 3}, w.indices.Alias())
}

// A part that fails for good ends the others.
func TestPartFails(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"backfill", "consume-changes"} {
		w := newWorld(t, func(w *world) hook {
			return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
				if step.Key.Name == name {
					return nil, workflow.Permanent(errors.New("the disk has gone"))
				}
				return next(ctx)
			}
		})
		_, err := w.start().Result(t.Context())
		require.ErrorContains(t, err, "the disk has gone", name)
		require.Equal(t, search.Alias{Target: "docs-1", Generation: 1}, w.indices.Alias())
	}
}

// A reindex is canceled before the gate has opened. The next one begins where it was.
func TestCancel(t *testing.T) {
	t.Parallel()
	filled := make(chan struct{}, 10)
	var hold sync.WaitGroup
	hold.Add(1)
	w := newWorld(t, func(w *world) hook {
		return func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			if step.Key.Name != "backfill" {
				return next(ctx)
			}
			filled <- struct{}{}
			hold.Wait()
			return next(ctx)
		}
	})
	h := w.start()
	<-filled
	require.NoError(t, w.eng.Cancel(t.Context(), h.ID(), "another time"))
	hold.Done()
	_, err := h.Result(t.Context())
	require.ErrorIs(t, err, engine.ErrCanceled)
	require.Equal(t, search.Alias{Target: "docs-1", Generation: 1}, w.indices.Alias())
	w.write()
	v, err := w.start().Result(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), v.String())
}

func TestIndexInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	h, err := w.reindex().Start(t.Context(), w.eng, Plan{To: "docs-1", Analyzer: "en", Batch: 50})
	require.NoError(t, err)
	_, err = h.Result(t.Context())
	require.ErrorContains(t, err, "docs-1 is in use: give the new index another name")
}

// output takes what the program prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// The program as a user runs it: twice, and from other terminals.
func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := func(more ...string) []string { return append(more, "-dir", dir, "-docs", "300", "-rate", "50") }
	var first output
	require.NoError(t, run(t.Context(), &first, args()))
	require.Contains(t, first.String(), "index docs-2 equals the source")
	require.Contains(t, first.String(), "none of them saw an index that was empty, incomplete or missing")

	ctx, stop := context.WithCancel(t.Context())
	var serving output
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &serving, args("-serve")) }()
	require.Eventually(t, func() bool { return strings.Contains(serving.String(), "index docs-3 equals the source") }, time.Minute, 10*time.Millisecond)
	var asked output
	require.NoError(t, run(t.Context(), &asked, args("-rollback")))
	require.Contains(t, asked.String(), "rollback-alias: {Target:docs-2 Previous:docs-3 Generation:4}")
	require.NoError(t, run(t.Context(), &asked, args("-drop", "docs-3")))
	require.Contains(t, asked.String(), "drop-index: docs-3")
	require.ErrorContains(t, run(t.Context(), &asked, args("-drop", "docs-2")), "is the alias's target")
	stop()
	require.NoError(t, <-ended)
	require.NotContains(t, serving.String(), "WRONG")

	require.ErrorContains(t, run(t.Context(), &asked, []string{"-dir", dir, "-docs", "1"}), "-docs must be 200 at least")
	require.Equal(t, store.Completed, statusOf(t, dir))
}

// The workflow's records may be anywhere.
func TestOtherBackends(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { return pgtest.Start(t).URL() },
		"turso": func(t *testing.T) string {
			server := sqldtest.Start(t)
			server.NamespaceNamed(t, "127") // what the server reads out of 127.0.0.1
			return "http://" + server.Addr()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			require.NoError(t, run(t.Context(), &out, []string{"-db", url(t), "-dir", t.TempDir(), "-docs", "200", "-rate", "50", "-batch", "100"}))
			require.Contains(t, out.String(), "index docs-2 equals the source")
		})
	}
}

func statusOf(t *testing.T, dir string) store.Status {
	p := program{db: "sqlite:" + filepath.Join(dir, "pawl.db")}
	st, eng, err := p.openEngine(t.Context())
	require.NoError(t, err)
	defer st.Close()
	defer eng.Close()
	run, err := eng.Get(t.Context(), store.DeriveID(store.ID{}, "reindex to docs-3"))
	require.NoError(t, err)
	return run.Status
}
