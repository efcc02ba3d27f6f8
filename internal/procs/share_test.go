package procs

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// envWorker names the database that a process started by a test works on.
const envWorker = "PAWL_TEST_WORKER"

func TestMain(m *testing.M) {
	if db := os.Getenv(envWorker); db != "" {
		if err := work(db); err != nil {
			slog.Error("worker", "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// whoami is a short run: one step that records the process that executed it.
var whoami = workflow.New("whoami", func(ctx workflow.Context, in int) (int, error) {
	return workflow.Step(ctx, "work", func(context.Context) (int, error) { return os.Getpid(), nil })
})

// work is a worker process: it runs until it gets SIGTERM.
func work(db string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := sqlite.Open(ctx, db)
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

// startWorker starts a worker process and waits until it is about to work.
func startWorker(t *testing.T, db string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envWorker+"="+db)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}

// Two worker processes on one file share 10,000 runs: each is executed and
// recorded once, both processes do a fair share, and both shut down gracefully.
func TestTwoProcessesShare(t *testing.T) {
	const runs = 10_000
	db := filepath.Join(t.TempDir(), "pawl.db")
	st, err := sqlite.Open(t.Context(), db)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	eng.Know("whoami", "whoami")

	var workers []*exec.Cmd
	for range 2 {
		workers = append(workers, startWorker(t, db))
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
	for _, cmd := range workers {
		got := share[strconv.Itoa(cmd.Process.Pid)]
		assert.Greater(t, got, runs/5, "process %d did not get a fair share", cmd.Process.Pid)
	}
	for _, h := range handles {
		run, err := eng.Get(t.Context(), h.ID())
		require.NoError(t, err)
		require.Equal(t, int64(1), run.Epoch, "run %s was claimed more than once", h.ID())
	}
	for _, cmd := range workers {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	}
}
