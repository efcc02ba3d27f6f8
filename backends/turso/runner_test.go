package turso

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func openOn(t *testing.T, srv *sqldtest.Server, url string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, append([]Option{WithDialer(srv.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openNew(t *testing.T, opts ...Option) *Store {
	t.Helper()
	return openOn(t, sqldtest.Shared(t), sqldtest.Namespace(t), opts...)
}

func createParams(n int) store.CreateParams {
	p := store.CreateParams{Namespace: "ns", Runs: make([]store.NewRun, n)}
	for i := range p.Runs {
		p.Runs[i] = store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	}
	return p
}

func get(t *testing.T, s *Store, id store.ID) []store.Run {
	t.Helper()
	runs, err := s.Get(t.Context(), store.GetParams{Namespace: "ns", IDs: []store.ID{id}})
	require.NoError(t, err)
	return runs
}

func column[T any](t *testing.T, s *Store, sql string) (list []T) {
	t.Helper()
	require.NoError(t, s.runner.Read(t.Context(), []sqlitecore.Stmt{{SQL: sql, Rows: func(scan func(...any) error) error {
		var v T
		err := scan(&v)
		list = append(list, v)
		return err
	}}}))
	return list
}

// TestErrors classifies the errors of a real server.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	const insert = `INSERT INTO paused (namespace, queue, workflow, since) VALUES `
	sentinels := []error{store.ErrUnavailable, store.ErrOutcomeUnknown, store.ErrTooLarge, store.ErrInvalid}
	for name, c := range map[string]struct {
		stmts []string
		arg   any
		says  string
		is    error // nil: a mistake in this package
	}{
		"unique":      {stmts: []string{insert + `('n','q','',1)`, insert + `('n','q','',1)`}, says: "UNIQUE constraint failed"},
		"not null":    {stmts: []string{insert + `('n','q','',NULL)`}, says: "NOT NULL constraint failed"},
		"type":        {stmts: []string{insert + `('n','q','','soon')`}, says: "cannot store TEXT value in INTEGER column"},
		"syntax":      {stmts: []string{`SELEKT 1`}, says: "SELEKT"},
		"no table":    {stmts: []string{`DELETE FROM nowhere`}, says: "no such table: nowhere"},
		"parameters":  {stmts: []string{`SELECT 1`}, arg: "surplus", says: "too many parameters"},
		"too big":     {stmts: []string{`SELECT length(?)`}, arg: make([]byte, maxRow+1), is: store.ErrTooLarge, says: "over the limit"},
		"too big row": {stmts: []string{`SELECT zeroblob(6000000)`}, is: store.ErrTooLarge, says: "over the limit"},
		"too much": {stmts: []string{`WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<4) SELECT zeroblob(4000000) FROM c`},
			is: store.ErrUnavailable, says: "larger than the server allows"},
	} {
		for _, write := range []bool{true, false} {
			stmts := []sqlitecore.Stmt{{SQL: `DELETE FROM locks`}}
			if !write {
				stmts = []sqlitecore.Stmt{{SQL: `SELECT 1`}}
			}
			for _, sql := range c.stmts {
				stmt := sqlitecore.Stmt{SQL: sql, Rows: func(func(...any) error) error { return nil }}
				if c.arg != nil {
					stmt.Args = []any{c.arg}
				}
				stmts = append(stmts, stmt)
			}
			run := s.runner.Read
			if write {
				run = s.runner.Write
			}
			err := run(t.Context(), stmts)
			require.ErrorContains(t, err, c.says, name)
			for _, e := range sentinels {
				require.Equal(t, e == c.is, matches(err, e), "%s: saw %v, which matches %v", name, err, e)
			}
			// The transaction is over and has left nothing behind.
			require.Equal(t, []int64{0}, column[int64](t, s, `SELECT count(*) FROM paused`), name)
			_, err = s.Create(t.Context(), createParams(1))
			require.NoError(t, err, name)
		}
	}
}

func matches(err, target error) bool { return errors.Is(err, target) }

// holder is a client that keeps its stream open between its requests.
type holder struct {
	t     *testing.T
	s     *Store
	baton *string
}

func (c *holder) exec(sql string) *serverError {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"baton": c.baton, "requests": []any{map[string]any{"type": "execute", "stmt": map[string]any{"sql": sql}}}})
	require.NoError(c.t, err)
	res, err := c.s.runner.(*runner).client.http.Post(c.s.runner.(*runner).client.url+"/v3/pipeline", "application/json", bytes.NewReader(body))
	require.NoError(c.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, res.StatusCode, string(text))
	var a struct {
		Baton   *string
		Results []result
	}
	require.NoError(c.t, json.Unmarshal(text, &a))
	c.baton = a.Baton
	return a.Results[0].Error
}

// TestStolenLock: the server takes the lock from a holder that keeps it for five seconds.
func TestStolenLock(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := &holder{t: t, s: s}
	require.Nil(t, other.exec("BEGIN IMMEDIATE"))
	_, err := s.Create(t.Context(), createParams(1))
	require.NoError(t, err)
	said := other.exec("DELETE FROM runs")
	require.NotNil(t, said)
	require.ErrorIs(t, classify(said), store.ErrUnavailable)
	require.ErrorContains(t, classify(said), "longer than the server allows")
}

func TestTenStartersMigrateOnce(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	var all sync.WaitGroup
	stores, errs := make([]*Store, 10), make([]error, 10)
	for i := range stores {
		all.Go(func() { stores[i], errs[i] = Open(t.Context(), url, WithDialer(srv.Dial)) })
	}
	all.Wait()
	for i, s := range stores {
		require.NoError(t, errs[i])
		defer func() { require.NoError(t, s.Close()) }()
	}
	s := stores[0]
	list, err := sqlitecore.Migrations()
	require.NoError(t, err)
	want := []int64{0}
	for _, m := range list {
		want = append(want, m.Version)
	}
	require.Equal(t, want, column[int64](t, s, `SELECT version_id FROM goose_db_version ORDER BY id`), "each migration once")

	// Everything that the files create, and do not drop, exists.
	var made []string
	for _, m := range list {
		for _, sql := range sqlkit.Split(m.SQL) {
			if m := regexp.MustCompile(`^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW) (\w+)`).FindStringSubmatch(sql); m != nil {
				made = append(made, m[1])
			}
			if m := regexp.MustCompile(`^DROP (?:TABLE|INDEX|VIEW) (\w+)`).FindStringSubmatch(sql); m != nil {
				made = slices.DeleteFunc(made, func(name string) bool { return name == m[1] })
			}
		}
	}
	require.Subset(t, column[string](t, s, `SELECT name FROM sqlite_schema`), made)
}

func TestSchemaVersions(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	_, err := Open(t.Context(), url, WithDialer(srv.Dial), WithoutMigration())
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "has version 0")
	s := openOn(t, srv, url)
	openOn(t, srv, url, WithoutMigration())
	known, err := sqlitecore.Migrations()
	require.NoError(t, err)
	newest := known[len(known)-1].Version
	require.NoError(t, s.runner.Write(t.Context(), []sqlitecore.Stmt{{SQL: nowAt, Args: []any{int64(99)}}}))
	needs := func(version int64) {
		require.NoError(t, s.runner.Write(t.Context(), []sqlitecore.Stmt{{SQL: `UPDATE compatibility SET minimum=?`, Args: []any{version}}}))
	}
	needs(newest)
	openOn(t, srv, url)
	openOn(t, srv, url, WithoutMigration())
	needs(newest + 1)
	_, err = Open(t.Context(), url, WithDialer(srv.Dial))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, fmt.Sprintf("know version %d or later", newest+1))
	require.ErrorContains(t, err, "run a newer program")
}

// TestCounters checks that any number of statements and rows needs one round trip, and that the
// store counts the rows that the server reports.
func TestCounters(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	ctx := t.Context()
	last := s.Counters()
	since := func() Counters {
		now := s.Counters()
		d := Counters{now.RoundTrips - last.RoundTrips, now.RowsRead - last.RowsRead, now.RowsWritten - last.RowsWritten}
		last = now
		return d
	}
	demand := store.ClaimParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 100}}}
	_, err := s.Create(ctx, createParams(100))
	require.NoError(t, err)
	require.Equal(t, int64(1), since().RoundTrips, "a start of 100 runs")
	var counts []int64
	for _, c := range s.Counts() {
		counts = append(counts, c.Value)
	}
	require.Equal(t, []int64{last.RoundTrips, last.RowsRead, last.RowsWritten}, counts, "what metrics tell")
	got, err := s.Claim(ctx, demand)
	require.NoError(t, err)
	require.Len(t, got.Runs, 100)
	require.Equal(t, int64(1), since().RoundTrips, "a claim of 100 runs")
	p := store.CommitParams{Namespace: "ns"}
	for _, r := range got.Runs {
		step := store.StepRecord{StepKey: store.StepKey{Name: "s", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1}
		p.Commits = append(p.Commits, store.Commit{Lease: r.Lease, Seq: 1, Steps: []store.StepRecord{step}, Transition: &store.Transition{Kind: store.CompleteRun}})
	}
	_, err = s.Commit(ctx, p)
	require.NoError(t, err)
	d := since()
	require.Equal(t, int64(1), d.RoundTrips, "a commit of 100 runs")
	require.GreaterOrEqual(t, d.RowsWritten, int64(200), "a run and a step each")

	// The first look finds nothing; later looks read no row.
	for range 2 {
		_, err = s.Claim(ctx, demand)
		require.NoError(t, err)
	}
	since()
	for range 3 {
		got, err = s.Claim(ctx, demand)
		require.NoError(t, err)
		require.Empty(t, got.Runs)
		require.Equal(t, Counters{RoundTrips: 1}, since(), "an idle look")
	}
	// Writes of another process are noticed nevertheless.
	other := openOn(t, sqldtest.Shared(t), s.config.url.String())
	_, err = other.Create(ctx, createParams(1))
	require.NoError(t, err)
	got, err = s.Claim(ctx, demand)
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
}

// TestCountersMatchStatistics checks that a store counts the same as the server's statistics, by
// which its owner is billed.
func TestCountersMatchStatistics(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	s := openOn(t, srv, url)
	ctx := t.Context()
	demand := store.ClaimParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 7}}}
	var seen Counters
	same := func(what string) {
		t.Helper()
		now := s.Counters()
		t.Logf("%-22s %4d read %4d written", what, now.RowsRead-seen.RowsRead, now.RowsWritten-seen.RowsWritten)
		seen = now
		require.Eventually(t, func() bool {
			have := srv.Stats(t, url)
			return have.RowsRead == now.RowsRead && have.RowsWritten == now.RowsWritten
		}, 10*time.Second, 5*time.Millisecond, "%s: counted %+v, the server %+v", what, now, srv.Stats(t, url))
	}
	same("open")
	_, err := s.Clock(ctx)
	require.NoError(t, err)
	same("clock")
	_, err = s.Create(ctx, createParams(10))
	require.NoError(t, err)
	same("start of ten")
	for _, what := range []string{"claim of seven", "claim of three", "claim of none", "look for none", "look again"} {
		got, err := s.Claim(ctx, demand)
		require.NoError(t, err)
		same(what)
		p := store.CommitParams{Namespace: "ns"}
		for _, r := range got.Runs {
			step := store.StepRecord{StepKey: store.StepKey{Name: "s", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1}
			p.Commits = append(p.Commits, store.Commit{Lease: r.Lease, Seq: 1, Steps: []store.StepRecord{step}, Transition: &store.Transition{Kind: store.CompleteRun}})
		}
		if len(p.Commits) > 0 {
			_, err = s.Commit(ctx, p)
			require.NoError(t, err)
			same("their commit")
		}
	}
	// A worker whose online status nobody asks for reads and writes no row for it.
	ask := func(want int) {
		t.Helper()
		n, err := s.AskWorkers(ctx, store.AskWorkersParams{Namespace: "ns", Silent: time.Minute})
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	look := func(asked bool) int64 {
		t.Helper()
		got, err := s.Claim(ctx, demand)
		require.NoError(t, err)
		require.Equal(t, asked, got.Asked)
		return s.Counters().RowsRead - seen.RowsRead
	}
	require.NoError(t, s.PutWorker(ctx, store.PutWorkerParams{Namespace: "ns", Worker: store.Worker{ID: "w", Status: store.Online, TTL: time.Hour, Answers: time.Minute}, Now: time.Now().Add(-2 * time.Minute)}))
	same("registration")
	require.Equal(t, int64(4), look(false), "rows of a look")
	same("look of one registered")
	ask(1)
	same("question to one")
	ask(0)
	same("question to nobody")
	look(true)
	same("look of one asked")
	_, err = s.Extend(ctx, store.ExtendParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute})
	require.NoError(t, err)
	same("sign of life")
	look(false)
	same("look behind it")
	_, err = s.List(ctx, store.ListParams{Namespace: "ns"})
	require.NoError(t, err)
	same("list of ten")
	require.NoError(t, s.look(ctx))
	same("look at the changes")
	_, err = s.Signal(ctx, store.SignalParams{Namespace: "ns", Signals: []store.NewSignal{{Run: store.NewID(), ID: store.SignalID(store.NewID()), Name: "s"}}})
	require.NoError(t, err)
	same("signal to nobody")
}

// TestPatience checks that a call which the server was too busy for is repeated for a while, and at
// least twice: the server ends a transaction after five seconds.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		takes time.Duration // each attempt
		busy  int           // attempts that find the server busy
		sent  int           // attempts in all
		fails bool
	}{
		{"busy once", time.Millisecond, 1, 2, false},
		{"two transactions ended for their time", 5*time.Second + time.Millisecond, 2, 3, false},
		{"three transactions ended for their time", 5*time.Second + time.Millisecond, 3, 3, true},
		{"busy for long, six seconds each", 6 * time.Second, 10, busyTries, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				err := patiently(t.Context(), time.Minute, func() error {
					time.Sleep(tt.takes) // the bubble's clock, not the machine's
					if sent++; sent <= tt.busy {
						return errBusy
					}
					return nil
				})
				require.Equal(t, tt.sent, sent)
				require.Equal(t, tt.fails, errors.Is(err, errBusy), "%v", err)
			})
		})
	}
}
