package procs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	poisonsFlag = flag.Int("procs.poisons", 1, "how many runs kill the process that executes them")
	healthyFlag = flag.Int("procs.healthy", 100, "how many healthy runs there are beside them")
)

const (
	poisonLease   = 500 * time.Millisecond
	poisonLives   = 20 * time.Millisecond // before it kills
	healthyWork   = 60 * time.Millisecond // of each step: no progress before a poison beside it kills
	poisonWorkers = 3
)

// poisonWorkflows are the workflows of TestPoisonousRuns: the steps of healthy runs append to
// the file what they have done.
func poisonWorkflows(effects *os.File) (poison, healthy *workflow.Workflow[int, int]) {
	poison = workflow.New("poison", func(ctx workflow.Context, n int) (int, error) {
		return n, workflow.Do(ctx, "kill", func(context.Context) error {
			<-time.After(poisonLives)
			if n%2 == 0 {
				os.Exit(7)
			}
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			return self.Kill()
		})
	}, workflow.Queue("mixed"))
	healthy = workflow.New("healthy", func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for _, name := range []string{"one", "two"} {
			got, err := workflow.Step(ctx, name, func(sctx context.Context) (int, error) {
				<-time.After(healthyWork)
				_, err := fmt.Fprintf(effects, "%s\n", workflow.IdempotencyKey(sctx)) // one write, appended
				return n, err
			})
			if err != nil {
				return 0, err
			}
			sum += got
		}
		return sum, nil
	}, workflow.Queue("mixed"))
	return poison, healthy
}

// victimRole works until it gets SIGTERM, or until one of its runs ends it.
func victimRole(ctx context.Context) error {
	p, err := openPart(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	effects, err := os.OpenFile(filepath.Join(os.Getenv(envDir), "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	poison, healthy := poisonWorkflows(effects)
	w := worker.New(p.eng, worker.Lease(poisonLease))
	if err := w.Register(poison, healthy); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	return w.Run(ctx)
}

// TestPoisonousRuns executes runs that kill their process together with healthy ones, in worker
// processes that are restarted whenever they die. The poisonous runs fail as crashed, and no others
// do.
func TestPoisonousRuns(t *testing.T) {
	for _, b := range allBackends {
		t.Run(b.name, func(t *testing.T) { poisoned(t, b) })
	}
}

func poisoned(t *testing.T, b backend) {
	dir := t.TempDir()
	url, _ := b.fresh(t, dir, 1)
	st, err := backends.Open(t.Context(), url)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	poison, healthy := poisonWorkflows(nil)
	for _, d := range []workflow.Definition{poison, healthy} {
		bridge.Of(eng).Know(d.Name(), d.Queue())
	}
	began := time.Now()
	var poisons []workflow.Handle[int]
	others := map[int]workflow.Handle[int]{} // by input
	for i := range *healthyFlag + *poisonsFlag {
		// The poisons stand among the others.
		if i%(*healthyFlag / *poisonsFlag) == 0 && len(poisons) < *poisonsFlag {
			h, err := poison.Start(t.Context(), eng, i)
			require.NoError(t, err)
			poisons = append(poisons, h)
			continue
		}
		h, err := healthy.Start(t.Context(), eng, i)
		require.NoError(t, err)
		others[i] = h
	}

	var deaths atomic.Int64
	stop := keepVictims(t, url, dir, &deaths)
	defer stop()

	waiting, giveUp := context.WithTimeout(t.Context(), 3*time.Minute)
	defer giveUp()
	var failed []string
	for n, h := range others {
		if out, err := h.Result(waiting); err != nil {
			failed = append(failed, fmt.Sprintf("run %s: %v", h.ID(), err))
		} else {
			assert.Equal(t, 2*n, out, "output of run %s", h.ID())
		}
	}
	calm := time.Since(began)
	assert.Empty(t, failed, "healthy runs that have failed")
	for i, h := range poisons {
		_, err := h.Result(waiting)
		assert.Equal(t, workflow.CodeCrashed, workflow.ErrorCode(err), "poison %d: %v", i, err)
		assert.True(t, errors.Is(err, engine.ErrFailed))
	}
	t.Logf("%d steps were done again; %d healthy runs were done after %v, %d poisonous ones had failed after %v and %d deaths of processes",
		doneAgain(t, dir, others), len(others), calm.Round(time.Millisecond), len(poisons), time.Since(began).Round(time.Millisecond), deaths.Load())
}

// keepVictims runs worker processes, restarts each that dies, and counts the deaths. Stop ends them
// and returns when they have ended.
func keepVictims(t *testing.T, url, dir string, deaths *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{}, poisonWorkers)
	for range poisonWorkers {
		go func() {
			defer func() { kept <- struct{}{} }()
			for ctx.Err() == nil {
				p := spawn(t, "victim", []string{envURL + "=" + url, envDir + "=" + dir, envLease + "=" + poisonLease.String()}, nil)
				select {
				case <-p.Done:
					deaths.Add(1)
				case <-ctx.Done():
					p.Asked.Store(true)
					_ = p.Cmd.Process.Signal(syscall.SIGTERM)
					<-p.Done
				}
			}
		}()
	}
	return func() {
		cancel()
		for range poisonWorkers {
			<-kept
		}
	}
}

// doneAgain checks that the steps of the runs were done, and counts how often one was done again.
func doneAgain(t *testing.T, dir string, others map[int]workflow.Handle[int]) (again int) {
	text, err := os.ReadFile(filepath.Join(dir, "effects"))
	require.NoError(t, err)
	done := map[string]int{}
	for line := range strings.Lines(string(text)) {
		done[strings.TrimSpace(line)]++
	}
	for _, h := range others {
		for _, name := range []string{"one", "two"} {
			n := done[h.ID().String()+"/"+store.StepKey{Name: name, Occurrence: 1}.String()]
			assert.NotZero(t, n, "step %s of run %s is recorded and was not done", name, h.ID())
			again += n - 1
		}
	}
	return again
}
