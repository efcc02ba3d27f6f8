package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// process is a process as other processes see it: a separate store that receives hints.
type process struct {
	*postgres.Store
	hints <-chan []store.Hint
}

// newProcess opens a store on the schema and subscribes to the topics. It is a worker of the queue
// unless queue is empty.
func newProcess(t *testing.T, url, schema, queue string, topics ...store.HintTopic) *process {
	t.Helper()
	s := open(t, url, schema).(*postgres.Store)
	p := &process{Store: s}
	if len(topics) > 0 {
		hints, err := s.Hints(t.Context(), topics...)
		require.NoError(t, err)
		p.hints = hints
	}
	if queue != "" {
		p.serve(t, store.Worker{Queues: []string{queue}})
	}
	return p
}

// serve registers a worker.
func (p *process) serve(t *testing.T, w store.Worker) {
	t.Helper()
	w.ID, w.Slots, w.Status, w.TTL = store.NewID().String(), 10, store.Online, time.Hour
	require.NoError(t, p.PutWorker(t.Context(), store.PutWorkerParams{Namespace: "n", Worker: w}))
}

// start creates one run of the queue.
func (p *process) start(t *testing.T, queue string) {
	t.Helper()
	run := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: queue}
	res, err := p.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
}

// everybody sends a hint to all processes.
func (p *process) everybody(t *testing.T) {
	t.Helper()
	_, err := p.PutSchedule(t.Context(), store.PutScheduleParams{Namespace: "n", Schedule: store.Schedule{Name: "s", Workflow: "w", Queue: "q", Spec: "@daily"}})
	require.NoError(t, err)
}

// until returns the kinds of the hints that arrive, up to the first one of the given kind.
func (p *process) until(t *testing.T, kind store.HintKind) (kinds []store.HintKind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		select {
		case batch, ok := <-p.hints:
			require.True(t, ok, "the subscription ended")
			for _, h := range batch {
				if kinds = append(kinds, h.Kind); h.Kind == kind {
					return kinds
				}
			}
		case <-ctx.Done():
			require.FailNow(t, "the hint did not come", "kind %v; came: %v", kind, kinds)
		}
	}
}

// One start wakes one of the processes that serve the queue.
func TestWorkIsToldToAsManyAsItNeeds(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	starter.TakeYourTime(time.Hour) // nobody takes the runs
	workers := []*process{
		newProcess(t, url, schema, "q", store.HintsOfWork),
		newProcess(t, url, schema, "q", store.HintsOfWork),
		newProcess(t, url, schema, "q", store.HintsOfWork),
		newProcess(t, url, schema, "other", store.HintsOfWork),
	}
	heard := 0
	const starts = 20
	for n := range starts {
		starter.start(t, "q")
		starter.everybody(t)
		for i, w := range workers {
			for _, kind := range w.until(t, store.HintRescan) {
				if kind == store.HintQueue {
					heard++
					require.Less(t, i, 3, "the process serves another queue")
				}
			}
		}
		// A notice to one process may arrive after the next one to all.
		require.LessOrEqual(t, heard, n+1, "processes that were told, one for each run")
	}
	// A hint that is sent together with "look again" is omitted.
	require.Positive(t, heard)
}

// If many runs are created at a time, all processes that are needed are told.
func TestWorkOfManyIsToldToMany(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	starter.TakeYourTime(time.Hour)
	var workers []*process
	for range 3 {
		workers = append(workers, newProcess(t, url, schema, "q", store.HintsOfWork))
	}
	runs := make([]store.NewRun, 25) // ten slots each
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	}
	_, err := starter.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: runs})
	require.NoError(t, err)
	for _, w := range workers {
		w.until(t, store.HintQueue)
	}
}

// Runs may be pinned to a build, so if workers of two builds serve a queue, all processes are told of
// its work.
func TestWorkOfTwoBuildsIsToldToAll(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	starter.TakeYourTime(time.Hour)
	workers := []*process{newProcess(t, url, schema, "", store.HintsOfWork), newProcess(t, url, schema, "", store.HintsOfWork)}
	for i, w := range workers {
		w.serve(t, store.Worker{Queues: []string{"q"}, Build: []string{"v1", "v2"}[i]})
	}
	starter.start(t, "q")
	for _, w := range workers {
		w.until(t, store.HintQueue)
	}
}

// A process that was told of work may be dead. Then all processes are told.
func TestWorkThatIsNotTakenIsToldToAll(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	dead := newProcess(t, url, schema, "q", store.HintsOfWork)
	require.NoError(t, dead.Close()) // its worker counts as online for an hour
	alive := newProcess(t, url, schema, "other", store.HintsOfWork)
	starter.start(t, "q")
	alive.until(t, store.HintQueue)
}

// A store that is closed tells all processes of work that only some were told of.
func TestCloseTellsAllOfWork(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	starter.TakeYourTime(time.Hour)
	dead := newProcess(t, url, schema, "q", store.HintsOfWork)
	require.NoError(t, dead.Close())
	alive := newProcess(t, url, schema, "other", store.HintsOfWork)
	starter.start(t, "q")
	require.NoError(t, starter.Close())
	alive.until(t, store.HintQueue)
}

// A process that does not wait for runs is not told when they end.
func TestEndsAreToldToThoseWhoWait(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	writer := newProcess(t, url, schema, "")
	worker := newProcess(t, url, schema, "q", store.HintsOfWork)
	waiter := newProcess(t, url, schema, "", store.HintsOfRuns)
	run := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	_, err := writer.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}})
	require.NoError(t, err)
	_, err = writer.Cancel(t.Context(), store.CancelParams{Namespace: "n", IDs: []store.ID{run.ID}})
	require.NoError(t, err)
	require.NotContains(t, waiter.until(t, store.HintFinal), store.HintQueue)
	writer.everybody(t)
	require.NotContains(t, worker.until(t, store.HintRescan), store.HintFinal)
}

// The hints of the program's own transaction are sent once it has committed, and never if it does
// not.
func TestHintsOfTheProgramsTransaction(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	starter := newProcess(t, url, schema, "")
	other := newProcess(t, url, schema, "", store.HintsOfWork)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	start := func() pgx.Tx {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		in, err := starter.Join(postgres.InTx(tx))
		require.NoError(t, err)
		run := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
		res, err := in.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}})
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
		return tx
	}
	tx := start()
	require.NoError(t, tx.Rollback(t.Context()))
	starter.everybody(t)
	require.NotContains(t, other.until(t, store.HintRescan), store.HintQueue, "of a transaction that was rolled back")

	tx = start()
	starter.everybody(t)
	require.NotContains(t, other.until(t, store.HintRescan), store.HintQueue, "before COMMIT")
	require.NoError(t, tx.Commit(t.Context()))
	other.until(t, store.HintQueue)
}
