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
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Expected events leave no errors in the server's log, so that the errors in it are worth reading.
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

// everything makes a worker do everything that workflows can do, including repeated calls of
// clients.
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
		id, name := store.NewID(), engine.ExternalID(fmt.Sprint("order ", n))
		for range 2 { // the second call is a repeat
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

// endStirred ends, in one call, runs that have an event that their holder has not seen.
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
		ends = append(ends, store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}})
	}
	results, err := s.Commit(ctx, store.CommitParams{Namespace: "quiet", Commits: ends})
	require.NoError(t, err)
	for _, res := range results {
		require.NoError(t, res.Err)
		require.Equal(t, store.Completed, res.Status)
	}
}

// A start costs one statement: the statement that is prepared for an existing run is sent only if
// there is one.
func TestFreshRunsAreInsertedOnce(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Setting("log_statement", "all"))
	s := open(t, server.URL(), "once")
	inserts := func(runs ...store.NewRun) int {
		before, err := server.Log()
		require.NoError(t, err)
		results, err := s.Create(t.Context(), store.CreateParams{Namespace: "ns", Runs: runs})
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
		after, err := server.Log()
		require.NoError(t, err)
		return strings.Count(after[len(before):], `INSERT INTO "once".runs`)
	}
	leased := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Worker: "here", LeaseFor: time.Minute}
	pending := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	require.Equal(t, 1, inserts(leased), "taken at once by its starter")
	require.Equal(t, 1, inserts(pending), "left to workers")
	require.Equal(t, 2, inserts(leased), "made before: one look, then the statement that is ready for it")
	require.Equal(t, 2, inserts(pending), "made before")
}
