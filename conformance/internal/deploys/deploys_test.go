package deploys_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/deploys"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

const (
	pairs = 200
	runs  = 12 // under way in each
)

// fleet is the programs of one pair on a store.
type fleet struct {
	t   *testing.T
	eng *engine.Engine

	mu  sync.Mutex  // the branches of a run execute steps at the same time
	ran map[int]int // executions of steps, by the number of the run
}

// deploy starts a worker on a program. The function that it returns shuts it down.
func (f *fleet) deploy(p deploys.Program) (stop func()) {
	_, defs := p.Definitions(deploys.Nap, func(run int, _ string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ran[run]++
	})
	w := worker.New(f.eng, worker.Concurrency(1))
	require.NoError(f.t, w.Register(defs...))
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(f.t, <-done)
	}
}

// start starts runs one after the other, so that they have come to different places when the
// first one is about to end.
func (f *fleet) start(p deploys.Program, every time.Duration) []workflow.Handle[int] {
	wf, _ := p.Definitions(deploys.Nap, nil)
	var hs []workflow.Handle[int]
	for i := range runs {
		h, err := wf.Start(f.t.Context(), f.eng, i)
		require.NoError(f.t, err)
		hs = append(hs, h)
		passes(every)
	}
	synctest.Wait()
	return hs
}

// passes lets time pass on the clock of the test's bubble. It takes none on the machine's clock.
func passes(d time.Duration) { <-time.After(d) }

// unfit returns the runs that a check of histories reports, each on its own, with the reasons.
func (f *fleet) unfit(p deploys.Program, hs []workflow.Handle[int]) map[store.ID]string {
	reasons := map[store.ID]string{}
	_, defs := p.Definitions(deploys.Nap, func(int, string) { f.t.Error("the check has run a step") })
	for _, h := range hs {
		var export bytes.Buffer
		require.NoError(f.t, f.eng.Export(f.t.Context(), &export, h.ID()))
		report, err := worker.CheckExport(f.t.Context(), &export, f.eng.Codec(), defs)
		require.NoError(f.t, err)
		if !report.OK() {
			reasons[h.ID()] = report.Misfits[0].Reason
		}
	}
	report, err := worker.CheckHistories(f.t.Context(), f.eng, defs)
	require.NoError(f.t, err)
	require.Equal(f.t, len(reasons), report.Unfit, "the check of the live store, and of exports")
	return reasons
}

// failed returns the ids of the runs that fail because their histories do not fit.
func (f *fleet) failed(hs []workflow.Handle[int]) (ids []store.ID) {
	for _, h := range hs {
		_, err := h.Result(f.t.Context())
		switch {
		case errors.Is(err, engine.ErrNondeterministic), workflow.ErrorCode(err) == workflow.CodeDecode:
			ids = append(ids, h.ID())
		default:
			require.NoError(f.t, err)
		}
	}
	return ids
}

// leftOut are the reasons of a misfit that shows only when the run waits. The check is stricter
// there than a worker: of a new operation in a branch that another one waits for, which the
// history is past, a worker notices nothing. It does the operation late, and the run goes on.
var leftOut = regexp.MustCompile("the code waits for (operations that are not recorded|the end of branch)")

// The check before a deploy predicts which runs under way do not fit the new code: they
// fail, and all others complete. No step of those that fail runs, where the program has no
// branches.
func TestCheckPredictsTheRunsThatDoNotFit(t *testing.T) {
	var all, unfit, changed, late, single int
	for seed := range uint64(pairs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		before := deploys.New(rng)
		after, edit := before.Edited(rng)
		t.Run(fmt.Sprintf("%d %s", seed, edit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := model.New(model.Options{})
				defer func() { _ = st.Close() }()
				f := &fleet{t: t, ran: map[int]int{}, eng: engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))}
				defer f.eng.Close()
				stop := f.deploy(before)
				hs := f.start(before, deploys.Nap/2)
				stop()
				under := slices.DeleteFunc(slices.Clone(hs), func(h workflow.Handle[int]) bool {
					run, err := f.eng.Get(t.Context(), h.ID())
					require.NoError(t, err)
					return run.Status.Final()
				})
				predicted := f.unfit(after, under)
				require.Empty(t, f.unfit(before, under), "runs that do not fit the code that made them")
				f.ran = map[int]int{}
				stop = f.deploy(after)
				failed := f.failed(under)
				stop()
				for _, id := range failed {
					require.Contains(t, predicted, id, "runs that do not fit: predicted, and seen")
				}
				for id, reason := range predicted {
					if !slices.Contains(failed, id) {
						require.Regexp(t, leftOut, reason)
						late++
					}
				}
				for i, h := range hs {
					// A branch goes on beside the one that finds the misfit.
					if predicted[h.ID()] != "" && !before.Concurrent() && !after.Concurrent() {
						single++
						require.Zero(t, f.ran[i], "steps done under a history that does not fit")
					}
				}
				all, unfit = all+len(under), unfit+len(predicted)
				if len(predicted) > 0 {
					changed++
				}
			})
		})
	}
	t.Logf("%d runs under way in %d pairs, %d of them in %d pairs do not fit; %d of these did something late", all, pairs, unfit, changed, late)
	require.Greater(t, single, all/50)
	require.LessOrEqual(t, late, all/50)
	require.Greater(t, changed, pairs/10)
	require.Greater(t, all-unfit, all/10)
}
