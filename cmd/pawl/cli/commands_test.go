package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// TestExitCodes holds each way in which a command can end to its code, and its
// message to what a person needs.
func TestExitCodes(t *testing.T) {
	s := fixture(t)
	run := func(n byte) string { return id(n).String() }
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"--help", exitOK, nil},
		{"runs list", exitOK, nil},
		{"nosuch", exitUsage, []string{`unknown command "nosuch"`, "pawl --help"}},
		{"rums", exitUsage, []string{"runs"}},
		{"runs stat", exitUsage, []string{`unknown command "stat"`, "state", "pawl runs --help"}},
		{"runs list --nosuch", exitUsage, []string{"--nosuch", "pawl runs list --help"}},
		{"runs list extra", exitUsage, []string{"extra"}},
		{"runs list --color sometimes", exitUsage, []string{"sometimes", "auto, always or never"}},
		{"runs list --status done", exitUsage, []string{"--status", `"done"`, "completed"}},
		{"runs list --since yesterday", exitUsage, []string{"yesterday", "2h", "2006-01-02"}},
		{"runs list --limit 0", exitUsage, []string{"--limit 0"}},
		{"runs list --limit 5000", exitUsage, []string{"limit", "1000"}},
		{"runs list --after nonsense", exitUsage, []string{"cursor", "start without a cursor"}},
		{"runs list --prefix xyz", exitUsage, []string{"prefix", "xyz"}},
		{"runs list --namespace ~", exitUsage, []string{"namespace"}},
		{"runs show", exitUsage, []string{"no run given", "--external-id"}},
		{"runs show x " + run(1), exitUsage, []string{"unexpected argument"}},
		{"runs show order-42", exitUsage, []string{`"order-42"`, "--external-id"}},
		{"runs show 01", exitUsage, []string{"too short"}},
		{"runs show 0195", exitUsage, nil},
		{"runs show 0195f00", exitUsage, []string{"ambiguous", run(12), "and more"}},
		{"runs show abcdef", exitNotFound, []string{"abcdef", "default"}},
		{"runs show " + run(77), exitNotFound, []string{run(77), "default"}},
		{"runs show " + run(1) + " -n other", exitNotFound, []string{"other"}},
		{"runs show --external-id nosuch", exitNotFound, []string{"nosuch"}},
		{"runs show --suffix x " + run(1), exitUsage, []string{"--suffix requires --external-id"}},
		{"runs watch " + run(1), exitOK, nil},
		{"runs watch " + run(2), exitRunFailed, nil},
		{"runs watch " + run(7), exitRunCanceled, nil},
		{"runs watch " + run(4) + " --timeout 30ms --interval 10ms", exitTimeout, []string{"30ms", "continues"}},
		{"runs watch " + run(4) + " --interval 1ms", exitUsage, []string{"--interval"}},
		{"runs start nosuch", exitNotFound, []string{`"nosuch"`, "workflows list", "--any"}},
		{"runs start mail {bad", exitUsage, []string{"not JSON", "--raw"}},
		{"runs start mail 1 --input-file x", exitUsage, []string{"both"}},
		{"runs start mail --input-file /nosuch/file", exitUsage, []string{"/nosuch/file"}},
		{"runs start mail --priority 500", exitUsage, []string{"priority", "500"}},
		{"runs start mail --run-id x", exitUsage, []string{"x"}},
		{"runs start", exitUsage, []string{"missing argument", "WORKFLOW"}},
		{"runs start mail --delay 3x", exitUsage, []string{"3x", "30d"}},
		{"runs cancel", exitUsage, []string{"no run given", "--all"}},
		{"runs cancel " + run(1), exitConflict, []string{run(1), "finished"}},
		{"runs cancel " + run(1) + " --all", exitUsage, []string{"not both"}},
		{"runs cancel --all", exitUsage, []string{"Cancel 4 active runs", `"default"`, "--yes"}},
		{"runs cancel --workflow nosuch", exitOK, []string{"no active runs", "Nothing was changed"}},
		{"runs restart " + run(1), exitConflict, []string{"only a failed or canceled run restarts"}},
		{"runs fork " + run(1) + " --from nosuch", exitNotFound, []string{"nosuch", "charge#2"}},
		{"runs signal " + run(1) + " hello", exitConflict, []string{"finished"}},
		{"runs signal " + run(1), exitUsage, []string{"missing argument", "NAME"}},
		{"runs state get " + run(3) + " nosuch", exitNotFound, []string{"nosuch"}},
		{"runs state set " + run(3) + " k", exitUsage, []string{"--value-file"}},
		{"runs state set " + run(3) + " offset 5 --if-version 9", exitConflict, nil},
		{"workers list --status busy", exitUsage, []string{"busy", "draining"}},
		{"workers remove nosuch", exitNotFound, []string{"nosuch"}},
		{"workers remove web-2", exitConflict, []string{"online", "--force"}},
		{"queues pause", exitUsage, []string{"missing argument"}},
		{"schedules show nosuch", exitNotFound, []string{"nosuch"}},
		{"schedules preview 0~0~30~2~*", exitUsage, []string{"30"}},
		{"schedules preview nonsense", exitUsage, []string{"nonsense"}},
		{"schedules put s mail @hourly --overlap maybe", exitUsage, []string{"--overlap", "maybe", "skip"}},
		{"schedules put s mail @hourly --zone Mars/Base", exitUsage, []string{"Mars/Base"}},
		{"schedules put s nosuch @hourly", exitNotFound, []string{"nosuch"}},
		{"purge", exitUsage, []string{"--older-than"}},
		{"purge --older-than 30d --status running", exitUsage, []string{"running", "final"}},
		{"purge --older-than 30d", exitUsage, []string{"Delete every final run that ended over 30d ago", "--yes"}},
		{"migrate sql --since 99", exitUsage, []string{"99"}},
		{"migrate sideways", exitUsage, []string{"sideways"}},
		{"top --interval 1ms", exitUsage, []string{"--interval"}},
		{"doctor --db mysql://x", exitFailed, nil},
		{"runs list --db mysql://x", exitUsage, []string{"mysql", "sqlite"}},
		{"runs list --db sqlite:/nosuch/dir/pawl.db", exitUsage, []string{"/nosuch/dir", "does not exist"}},
		{"runs list --db postgres://127.0.0.1:1/x", exitUnavailable, []string{"127.0.0.1:1", "cannot reach"}},
		{"runs list --db http://127.0.0.1:1", exitUnavailable, []string{"127.0.0.1:1"}},
	} {
		t.Run(strings.ReplaceAll(c.args, "/", "|"), func(t *testing.T) {
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			r := s.run(args...)
			require.Equal(t, c.code, r.code, "%s%s", r.out, r.err)
			for _, say := range c.says {
				require.Contains(t, r.err, say)
			}
			if r.code != exitOK {
				require.NotContains(t, r.err, "\x1b", "what is printed is clean")
			}
		})
	}
}

func TestDatabaseIsNamed(t *testing.T) {
	s := newShell(t, "")
	r := s.run("runs", "list")
	require.Equal(t, exitUsage, r.code)
	for _, say := range []string{"--db", "PAWL_DB", "sqlite:pawl.db", "postgres://", "libsql://"} {
		require.Contains(t, r.err, say)
	}
	// What needs none, works.
	require.Contains(t, s.must("schedules", "preview", "@daily", "--times", "1"), "2026-03-02 00:00:00 UTC")
	require.Contains(t, s.must("completion", "bash"), "pawl")
}

// TestSchemaIsLeftAlone: no command but migrate up makes or changes a database.
func TestSchemaIsLeftAlone(t *testing.T) {
	s := newShell(t, file(t))
	path := strings.TrimPrefix(s.db, "sqlite:")
	r := s.run("runs", "list")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "pawl migrate up")
	require.NoFileExists(t, path)
	r = s.run("migrate", "status")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "00001_init.sql")
	require.Contains(t, r.err, "version 0")
	require.NoFileExists(t, path)

	s.db += "?migrate=false"
	require.Contains(t, s.must("migrate", "up"), "from version 0 to")
	require.Contains(t, s.must("migrate", "up"), "up to date")
	require.NotContains(t, s.must("migrate", "status"), "unknown")
	require.Contains(t, s.must("migrate", "sql"), "CREATE TABLE runs")
	require.Contains(t, s.must("migrate", "sql", "--db", "postgres:///?schema=jobs"), `CREATE TABLE "jobs".runs`)
}

// TestMigrateSQL: what is printed makes a database that a store opens.
func TestMigrateSQL(t *testing.T) {
	url, schema := pgtest.Schema(t)
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	s := newShell(t, url+sep+"schema="+schema)
	sql := s.must("migrate", "sql")
	pgExec(t, url, sql)
	require.Contains(t, s.must("migrate", "status"), "00001_init.sql")
	require.Contains(t, s.must("migrate", "up"), "up to date")
	require.Equal(t, exitOK, s.run("runs", "list").code)
}

type steps struct{ eng *engine.Engine }

var order = workflow.New("order", func(ctx workflow.Context, in string) (string, error) {
	out, err := workflow.Step(ctx, "charge", func(context.Context) (string, error) {
		if in == "bad" {
			return "", errors.New("declined")
		}
		return "charged " + in, nil
	}, workflow.Attempts(1))
	if err != nil || in == "quick" {
		return out, err
	}
	by, err := approval.Receive(ctx)
	return out + " for " + by, err
})

var approval = workflow.NewSignal[string]("approval")

// work runs a worker on the database until the test ends.
func work(t *testing.T, db string, opts ...engine.Option) *steps {
	t.Helper()
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	eng := engine.New(st, opts...)
	w := worker.New(eng, worker.ID("w1"))
	require.NoError(t, w.Register(order))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		eng.Close()
		require.NoError(t, st.Close())
	})
	require.Eventually(t, func() bool { l, err := eng.Workflows(ctx); return err == nil && len(l) == 1 }, 30*time.Second, 5*time.Millisecond)
	return &steps{eng}
}

// TestLife takes runs through their lives by the command line, on every backend.
func TestLife(t *testing.T) {
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, db(t))
			s.now = time.Now
			s.must("migrate", "up")
			work(t, s.db)

			lamp := startAndSignal(t, s)
			pauseAndCancel(t, s)
			exportAndFork(t, s, lamp)
			manage(t, s)
		})
	}
}

// startAndSignal starts runs, sets their state and signals them. It returns the run of order-1.
func startAndSignal(t *testing.T, s *shell) string {
	r := s.run("runs", "start", "order", `"quick"`, "--wait", "--timeout", "1m")
	require.Equal(t, exitOK, r.code, r.err)
	require.JSONEq(t, `"charged quick"`, r.out)
	r = s.run("runs", "start", "order", `"bad"`, "--wait")
	require.Equal(t, exitRunFailed, r.code)
	require.Contains(t, r.err, "declined")

	s.in = `"lamp"`
	lamp := strings.TrimSpace(s.must("runs", "start", "order", "--input-file", "-", "--external-id", "order-1"))
	var again struct {
		ID       string
		Existing bool
	}
	require.NoError(t, json.Unmarshal([]byte(s.must("runs", "start", "order", `"lamp"`, "--external-id", "order-1", "--json")), &again))
	require.Equal(t, lamp, again.ID)
	require.True(t, again.Existing)
	require.Equal(t, exitConflict, s.run("runs", "start", "order", `"other"`, "--external-id", "order-1").code, "another input")

	s.must("runs", "state", "set", lamp, "limit", "100")
	require.Equal(t, "100\n", s.must("runs", "state", "get", "--external-id", "order-1", "limit", "--value"))
	require.Equal(t, exitConflict, s.run("runs", "state", "set", lamp, "limit", "5", "--if-version", "77").code)
	s.must("runs", "state", "delete", lamp, "limit")
	require.Empty(t, s.must("runs", "state", "get", lamp))

	s.must("runs", "signal", "--external-id", "order-1", "approval", `"ada"`)
	r = s.run("runs", "watch", lamp, "--timeout", "1m")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "charge completed")
	require.Contains(t, r.out, "run completed")
	require.Contains(t, r.out, `"charged lamp for ada"`)
	r = s.run("runs", "start", "order", `"vase"`, "--external-id", "order-9", "--signal", `approval="bob"`, "--wait", "--timeout", "1m")
	require.Equal(t, exitOK, r.code, r.err)
	require.JSONEq(t, `"charged vase for bob"`, r.out)
	require.Equal(t, exitUsage, s.run("runs", "start", "order", `"vase"`, "--external-id", "order-9", "--signal", "approval=bob").code, "not JSON")
	require.Equal(t, exitUsage, s.run("runs", "start", "order", `"vase"`, "--signal-id", store.NewID().String()).code, "no signal")
	shown := s.must("runs", "show", lamp)
	require.Contains(t, shown, "└─ approval")
	require.Contains(t, s.must("runs", "explain", lamp), "completed")
	return lamp
}

// pauseAndCancel controls a run that is not due.
func pauseAndCancel(t *testing.T, s *shell) {
	vase := strings.TrimSpace(s.must("runs", "start", "order", `"vase"`, "--delay", "1h"))
	require.Contains(t, s.must("runs", "pause", vase), "paused")
	require.Contains(t, s.must("runs", "list", "--status", "paused"), vase)
	require.Contains(t, s.must("runs", "resume", "--status", "paused", "--all=false", "--yes"), "1 run resumed")
	s.in, s.asks = "n\n", true
	r := s.run("runs", "cancel", "--workflow", "order", "--status", "pending")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, `Cancel 1 pending run of workflow "order"`)
	s.in = "y\n"
	require.Contains(t, s.must("runs", "cancel", "--workflow", "order", "--status", "pending", "--reason", "late"), "1 run canceled")
	require.Contains(t, s.must("runs", "show", vase), "late")
}

// exportAndFork opens a run in another database, forks it, and restarts one that failed.
func exportAndFork(t *testing.T, s *shell, lamp string) {
	there := newShell(t, file(t))
	there.now = time.Now
	there.must("migrate", "up")
	there.in = s.must("runs", "export", lamp, "--children")
	require.Contains(t, there.must("runs", "import"), "completed")
	require.Contains(t, there.must("runs", "import", "-"), "not changed")
	require.Contains(t, there.must("runs", "show", "--external-id", "order-1"), "└─ approval")
	there.must("runs", "fork", lamp, "--from", "approval")
	var fork struct {
		ID   string
		Kept []string
	}
	require.NoError(t, json.Unmarshal([]byte(s.must("runs", "fork", lamp, "--from", "approval", "--json")), &fork))
	require.Equal(t, []string{"charge"}, fork.Kept)
	s.must("runs", "signal", fork.ID, "approval", `"bob"`)
	require.Contains(t, s.must("runs", "watch", fork.ID, "--timeout", "1m"), "charged lamp for bob")
	bad := s.must("runs", "list", "--status", "failed", "--json")
	var failed struct{ Runs []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(bad), &failed))
	require.Len(t, failed.Runs, 1)
	s.must("runs", "restart", failed.Runs[0].ID)
	require.Equal(t, exitRunFailed, s.run("runs", "watch", failed.Runs[0].ID, "--timeout", "1m").code)
}

// manage pauses queues and workflows, keeps a schedule, and looks at what is there before and after
// a purge.
func manage(t *testing.T, s *shell) {
	require.Contains(t, s.must("queues", "pause", "order"), "paused")
	require.Contains(t, s.must("queues", "list"), "paused")
	s.must("queues", "resume", "order")
	s.must("workflows", "pause", "order", "more")
	s.must("workflows", "resume", "order", "more")
	require.Contains(t, s.must("workers", "list"), "w1")
	require.Contains(t, s.must("schedules", "put", "nightly", "order", "0 3 * * *", `"quick"`, "--zone", "Europe/Berlin"), "fires next")
	require.Contains(t, s.must("schedules", "list"), "Europe/Berlin")
	s.must("schedules", "pause", "nightly")
	triggered := strings.TrimSpace(s.must("schedules", "trigger", "nightly"))
	require.Contains(t, s.must("runs", "watch", triggered, "--timeout", "1m"), "completed")
	s.must("schedules", "resume", "nightly")
	require.Contains(t, s.must("schedules", "show", "nightly"), "03:00:00")
	s.must("schedules", "delete", "nightly", "--yes")
	require.Contains(t, s.must("top", "--once"), "completed")
	_, found := diagnose(t, s)
	found.only(t, "warning", "failures", "order 1 of 7")
	require.Contains(t, s.must("purge", "--older-than", "0s", "--yes"), "deleted")
	require.Empty(t, s.must("runs", "list"))
}

func TestManyByPages(t *testing.T) {
	s := fixture(t)
	var ids []string
	cursor := ""
	for range 20 {
		args := []string{"runs", "list", "--limit", "2", "--json"}
		if cursor != "" {
			args = append(args, "--after", cursor)
		}
		var page struct {
			Runs []struct{ ID string }
			Next string
		}
		require.NoError(t, json.Unmarshal([]byte(s.must(args...)), &page))
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var all struct{ Runs []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(s.must("runs", "list", "--all", "--json")), &all))
	require.Len(t, ids, 9)
	for i := range ids {
		require.Equal(t, all.Runs[i].ID, ids[i])
	}
	r := s.run("runs", "list", "--limit", "2", "--status", "failed", "--after", cursor)
	require.Equal(t, exitOK, r.code)
}

func TestInterrupted(t *testing.T) {
	s := fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.ctx = ctx
	s.open = func(ctx context.Context, url string) (store.Store, error) {
		st, err := backends.Open(ctx, url)
		time.AfterFunc(50*time.Millisecond, cancel)
		return st, err
	}
	r := s.run("runs", "watch", id(4).String())
	require.Equal(t, exitInterrupted, r.code)
	require.Empty(t, r.err)
}

// TestSlowDatabase: one that does not answer is given up.
func TestSlowDatabase(t *testing.T) {
	s := fixture(t)
	s.open = func(ctx context.Context, _ string) (store.Store, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := s.run("runs", "list", "--connect-timeout", "20ms")
	require.Equal(t, exitUnavailable, r.code)
	require.Contains(t, r.err, "--connect-timeout")
}

func TestColors(t *testing.T) {
	s := fixture(t)
	for name, c := range map[string]struct {
		width int
		env   map[string]string
		args  []string
		color bool
	}{
		"a terminal":          {80, nil, nil, true},
		"a pipe":              {0, nil, nil, false},
		"NO_COLOR":            {80, map[string]string{"NO_COLOR": "1"}, nil, false},
		"a dumb terminal":     {80, map[string]string{"TERM": "dumb"}, nil, false},
		"never, on one":       {80, nil, []string{"--color", "never"}, false},
		"always, into a pipe": {0, map[string]string{"NO_COLOR": "1"}, []string{"--color", "always"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s.width, s.env = c.width, c.env
			if s.env == nil {
				s.env = map[string]string{}
			}
			require.Equal(t, c.color, strings.Contains(s.must(append([]string{"runs", "list"}, c.args...)...), "\x1b["))
		})
	}
}

func TestCompletion(t *testing.T) {
	s := fixture(t)
	for _, c := range []struct {
		args string
		has  []string
		not  string
	}{
		{"runs show 0195f00c", []string{id(12).String(), "mail, running"}, id(1).String()},
		{"runs start f", []string{"fulfil-order"}, "mail"},
		{"runs list --status c", []string{"completed", "canceled"}, "running"},
		{"queues pause o", []string{"orders"}, "mail"},
		{"workers remove web-", []string{"web-1", "offline"}, ""},
		{"runs list --color a", []string{"auto", "always"}, "never"},
	} {
		out := s.must(append([]string{"__complete"}, strings.Fields(c.args)...)...)
		for _, h := range c.has {
			require.Contains(t, out, h, c.args)
		}
		if c.not != "" {
			require.NotContains(t, out, c.not, c.args)
		}
	}
	s.db = "sqlite:/nosuch/dir/pawl.db"
	require.NotContains(t, s.must("__complete", "runs", "show", ""), "nosuch", "a database that is away is no reason to write into the command line")
}
