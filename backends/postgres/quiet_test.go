package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// What is expected to happen leaves no errors in the server's log: those that are there are
// worth reading.
func TestOrdinaryWorkLeavesNoErrors(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Setting("log_error_verbosity", "verbose"), pgtest.Setting("log_min_error_statement", "error"))
	started, err := server.Log()
	require.NoError(t, err)
	require.Contains(t, started, "starting PostgreSQL", "the log is not the server's")
	s := open(t, server.URL(), "quiet")
	everything(t, s)
	endStirred(t, s)
	log, err := server.Log()
	require.NoError(t, err)
	counts := map[string]int{}
	for _, line := range strings.Split(log[len(started):], "\n") {
		if said := errorLine.FindString(line); said != "" {
			counts[said]++
		}
	}
	require.Empty(t, counts)
}

var errorLine = regexp.MustCompile(`(ERROR|FATAL|PANIC): .*`)

// everything has a worker do what workflows can do, the repeats of clients among it.
func everything(t *testing.T, s store.Store) {
	ctx := t.Context()
	eng := engine.New(s, engine.Logger(slog.New(slog.DiscardHandler)))
	t.Cleanup(eng.Close)
	word := workflow.NewSignal[string]("word")
	note := workflow.NewState[int]("note")
	leaf := workflow.New("leaf", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	main := workflow.New("main", func(ctx workflow.Context, n int) (string, error) {
		tries := 0
		err := workflow.Do(ctx, "flaky", func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}, workflow.Backoff(time.Millisecond, 1, 0))
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "nap", 20*time.Millisecond); err != nil {
			return "", err
		}
		if err := note.Set(ctx, n); err != nil {
			return "", err
		}
		if _, err := workflow.Map(ctx, "leaves", []int{1, 2, 3, 4, 5}, leaf); err != nil {
			return "", err
		}
		if err := note.Set(ctx, n+1); err != nil {
			return "", err
		}
		return word.Receive(ctx)
	})
	w := worker.New(eng)
	require.NoError(t, w.Register(main, leaf))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	for n := range 20 {
		id, name := store.NewID(), engine.ID(fmt.Sprint("order ", n))
		for range 2 { // the second one is a repeat
			var h workflow.Handle[string]
			var err error
			if n%2 == 0 {
				h, err = main.Start(ctx, eng, n, engine.RunID(id))
			} else {
				h, err = main.Start(ctx, eng, n, name)
			}
			require.NoError(t, err)
			id = h.ID()
		}
		for range 2 {
			require.NoError(t, word.Send(ctx, eng, id, "go", workflow.SendKey("once")))
		}
	}
	page, err := eng.List(ctx, store.RunFilter{Workflow: "main"}, "", 100)
	require.NoError(t, err)
	require.Len(t, page.Runs, 20)
	for _, r := range page.Runs {
		_, err := eng.Wait(ctx, r.ID)
		require.NoError(t, err)
	}
	stop()
	require.NoError(t, <-ended)
}

// endStirred ends runs in one call that have had an event which their holder has not seen.
func endStirred(t *testing.T, s store.Store) {
	ctx := t.Context()
	runs := []store.NewRun{{ID: store.NewID(), Workflow: "wf", Queue: "stirred"}, {ID: store.NewID(), Workflow: "wf", Queue: "stirred"}}
	_, err := s.Create(ctx, store.CreateParams{Namespace: "quiet", Runs: runs})
	require.NoError(t, err)
	got, err := s.Claim(ctx, store.ClaimParams{
		Namespace: "quiet", Worker: "w", Demands: []store.Demand{{Queue: "stirred", Workflows: []string{"wf"}, Max: 2}}, LeaseFor: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, got.Runs, 2)
	var ends []store.Commit
	for _, r := range got.Runs {
		_, err := s.Signal(ctx, store.SignalParams{Namespace: "quiet", Signals: []store.NewSignal{{ID: store.SignalID(store.NewID()), Run: r.Run.ID, Name: "word"}}})
		require.NoError(t, err)
		ends = append(ends, store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.Complete}})
	}
	results, err := s.Commit(ctx, store.CommitParams{Namespace: "quiet", Commits: ends})
	require.NoError(t, err)
	for _, res := range results {
		require.NoError(t, res.Err)
		require.Equal(t, store.Completed, res.Status)
	}
}
