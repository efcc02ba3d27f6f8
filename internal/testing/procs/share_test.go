package procs

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// envDB names the database that a process in the role "share" works on.
const envDB = "PAWL_PROCS_DB"

// whoami is a short run: one step that records the process that executed it.
var whoami = workflow.New("whoami", func(ctx workflow.Context, in int) (int, error) {
	return workflow.Step(ctx, "work", func(context.Context) (int, error) { return os.Getpid(), nil })
})

// share is a worker process: it runs until it gets SIGTERM.
func share(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	st, err := sqlite.Open(ctx, os.Getenv(envDB))
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	defer eng.Close()
	w := worker.New(eng, worker.Concurrency(50))
	if err := w.Register(whoami); err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	return w.Run(ctx)
}

// Two worker processes on one file share 10,000 runs: each is executed and
// recorded once, both processes do a fair share, and both shut down gracefully.
//
// Under the race detector there are a thousand, and no share is required: the process that has the
// write lock then holds it nearly all the time, and all of the few runs may be done before the
// other process gets it.
func TestTwoProcessesShare(t *testing.T) {
	runs := 10_000
	if raced {
		runs = 1_000
	}
	db := filepath.Join(t.TempDir(), "pawl.db")
	st, err := sqlite.Open(t.Context(), db)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	bridge.Of(eng).Know("whoami", "whoami")

	var workers []*process
	for range 2 {
		p := spawn(t, "share", []string{envDB + "=" + db}, nil)
		p.AwaitReady(t)
		workers = append(workers, p)
	}
	handles, err := whoami.StartMany(t.Context(), eng, make([]workflow.Each[int], runs))
	require.NoError(t, err)
	pids, err := workflow.Results(t.Context(), handles)
	require.NoError(t, err)
	share := map[string]int{}
	for _, pid := range pids {
		share[strconv.Itoa(pid)]++
	}
	t.Log("runs by process:", share)
	for _, p := range workers {
		if got := share[strconv.Itoa(p.PID())]; !raced {
			assert.Greater(t, got, runs/10, "process %d did not get a fair share", p.PID())
		}
	}
	for _, h := range handles {
		run, err := eng.Get(t.Context(), h.ID())
		require.NoError(t, err)
		require.Equal(t, int64(1), run.Epoch, "run %s was claimed more than once", h.ID())
	}
	for _, p := range workers {
		p.Asked.Store(true)
		require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.AwaitEnd(t))
	}
}
