package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

type findings map[string]struct{ Level, Seen, Advice string }

// diagnose calls the doctor; what it finds has advice, wherever it is not well.
func diagnose(t *testing.T, s *shell, args ...string) (code int, found findings) {
	t.Helper()
	r := s.run(append([]string{"doctor", "--json"}, args...)...)
	var out struct {
		Worst    string
		Findings []struct{ Name, Level, Seen, Advice string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &out), r.err)
	found = findings{}
	for _, f := range out.Findings {
		require.NotContains(t, found, f.Name, "a name comes once")
		require.NotEmpty(t, f.Seen, f.Name)
		found[f.Name] = struct{ Level, Seen, Advice string }{f.Level, f.Seen, f.Advice}
	}
	if r.code != exitOK {
		require.Equal(t, "fault", out.Worst)
	}
	return r.code, found
}

// only holds that one thing is not well, or none.
func (f findings) only(t *testing.T, level, name string, says ...string) {
	t.Helper()
	for n, v := range f {
		if n == "durability" && strings.Contains(v.Seen, "fsync is off") {
			continue // as the tests' servers are
		}
		if n != name {
			require.Equal(t, "ok", v.Level, "%s: %s", n, v.Seen)
			continue
		}
		require.Equal(t, level, v.Level, "%s: %s", n, v.Seen)
		for _, say := range says {
			require.Contains(t, v.Seen+" -> "+v.Advice, say)
		}
	}
	if name != "" {
		require.Contains(t, f, name)
	}
}

func migrated(t *testing.T, db string) *shell {
	t.Helper()
	s := newShell(t, db)
	s.now = time.Now
	s.must("migrate", "up")
	return s
}

// TestDoctorFindsNothing: a database that is well has no fault and no warning.
func TestDoctorFindsNothing(t *testing.T) {
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			code, found := diagnose(t, migrated(t, db(t)))
			require.Equal(t, exitOK, code)
			found.only(t, "", "")
			require.Contains(t, found, "indexes")
		})
	}
}

func TestDoctorFindsFaultsOfTheWay(t *testing.T) {
	s := newShell(t, "sqlite:"+t.TempDir()+"/none/pawl.db")
	s.now = time.Now
	for db, says := range map[string][]string{
		s.db:                                  {"does not exist", "create it"},
		"mysql://x":                           {"mysql", "correct --db"},
		"postgres://127.0.0.1:1/x":            {"127.0.0.1:1", "cannot reach", "server is running"},
		"postgres://host:99999999/x":          {"PAWL_DB"},
		"http://127.0.0.1:1":                  {"127.0.0.1:1", "server is running"},
		"wss://name.turso.io":                 {"WebSocket"},
		"sqlite:" + t.TempDir() + "/new.db":   {"tables do not exist", "pawl migrate up"},
		"libsql://x.turso.io?timeout=forever": {"timeout=forever", "5s"},
	} {
		code, found := diagnose(t, s, "--db", db)
		require.Equal(t, exitFailed, code, db)
		name := "connection"
		if strings.HasSuffix(db, "new.db") {
			name = "schema"
		}
		found.only(t, "fault", name, says...)
	}
	require.Equal(t, exitUsage, s.run("doctor", "--db", "", "--namespace", " ").code)
}

func TestDoctorFindsFaultsOfSQLite(t *testing.T) {
	s := migrated(t, file(t))
	st := raw(t, s)
	st(`DROP INDEX runs_claim`)
	_, found := diagnose(t, s)
	found.only(t, "fault", "indexes", "runs_claim", "pawl migrate sql")

	s = migrated(t, file(t))
	raw(t, s)(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`)
	code, found := diagnose(t, s)
	require.Equal(t, exitOK, code, "this program may use it")
	require.Contains(t, found["schema"].Seen, "version 99; programs that know version 22 or later can use it")
	require.Equal(t, exitOK, s.run("migrate", "status").code)
	raw(t, s)(`UPDATE compatibility SET minimum=99`)
	_, found = diagnose(t, s)
	found.only(t, "fault", "schema", "version 99", "upgrade")
	r := s.run("migrate", "status")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "unknown to this program")

	// A clock that is wrong.
	s = migrated(t, file(t))
	s.now = func() time.Time { return time.Now().Add(-90 * time.Minute) }
	_, found = diagnose(t, s)
	found.only(t, "warning", "clock", "1h", "ahead of", "NTP")
	require.Equal(t, exitOK, s.run("doctor").code)
	require.Equal(t, exitFailed, s.run("doctor", "--strict").code)
}

// TestDoctorFindsFaultsOfTheWork: what is started and nobody works on.
func TestDoctorFindsFaultsOfTheWork(t *testing.T) {
	s := migrated(t, file(t))
	st, err := backends.Open(t.Context(), s.db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	const ns = "default"
	put := func(w store.Worker) {
		t.Helper()
		w.Status, w.Slots = store.Online, 1
		require.NoError(t, st.PutWorker(t.Context(), store.PutWorkerParams{Namespace: ns, Worker: w}))
	}
	start := func(queue string, at time.Time) {
		t.Helper()
		res, err := st.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{{ID: store.NewID(), Workflow: "mail", Queue: queue}}, Now: at})
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
	}
	start("mail", time.Time{})
	_, found := diagnose(t, s)
	found.only(t, "fault", "workers", "no worker is online", "1 run waits", "start a worker", "--namespace")
	_, found = diagnose(t, s, "--namespace", "other")
	found.only(t, "", "")

	put(store.Worker{ID: "w1", Queues: []string{"other"}, Workflows: []string{"mail"}, TTL: time.Hour})
	_, found = diagnose(t, s)
	found.only(t, "fault", "queues", `workflow "mail"`, "1 run")

	// It serves the queue and the workflow, and does not take the one from the other.
	put(store.Worker{ID: "w1", Queues: []string{"mail", "other"}, Workflows: []string{"import", "mail"}, TTL: time.Hour,
		Takes: map[string][]string{"mail": {"import"}, "other": {"mail"}}})
	_, found = diagnose(t, s)
	found.only(t, "fault", "queues", `workflow "mail"`, "1 run", "worker.Queues")
	require.Contains(t, s.must("queues", "list"), "no worker takes mail")
	require.Contains(t, s.must("workflows", "list"), "no worker takes it from mail")
	require.Contains(t, s.must("queues", "list", "--json"), `"not_taken": [
        "mail"`)
	require.NotContains(t, s.must("workers", "list", "--queue", "mail", "--workflow", "mail"), "w1")
	require.Contains(t, s.must("workers", "list", "--queue", "other", "--workflow", "mail"), "w1")

	s.must("queues", "pause", "mail")
	_, found = diagnose(t, s)
	found.only(t, "warning", "paused", `queue "mail"`, "holding back 1 run", "pawl queues resume mail")
	s.must("queues", "resume", "mail")
	put(store.Worker{ID: "w1", Queues: []string{"mail"}, Workflows: []string{"mail"}, TTL: time.Hour})
	_, found = diagnose(t, s)
	found.only(t, "", "")

	put(store.Worker{ID: "w0", Queues: []string{"mail"}, Workflows: []string{"mail"}, TTL: time.Nanosecond})
	_, found = diagnose(t, s)
	found.only(t, "warning", "workers", "w0", "workers remove")
	s.must("workers", "remove", "w0")

	start("mail", time.Now().Add(-time.Hour))
	_, found = diagnose(t, s)
	found.only(t, "warning", "overdue", "1 pending run is overdue by more than a minute", "runs explain")
	c, err := st.Claim(t.Context(), store.ClaimParams{Namespace: ns, Worker: "w1", LeaseFor: time.Second, Now: time.Now().Add(-time.Hour),
		Demands: []store.Demand{{Queue: "mail", Workflows: []string{"mail"}, Max: 1}}})
	require.NoError(t, err)
	require.Len(t, c.Runs, 1)
	_, found = diagnose(t, s)
	found.only(t, "warning", "overdue", "1 run has a lease that expired")
	s.must("runs", "cancel", "--all", "--yes")

	require.NoError(t, putLate(t, st, ns))
	_, found = diagnose(t, s)
	require.Equal(t, "fault", found["schedules"].Level)
	require.Contains(t, found["schedules"].Seen, "nightly")
}

func putLate(t *testing.T, st store.Store, ns string) error {
	_, err := st.PutSchedule(t.Context(), store.PutScheduleParams{Namespace: ns, Schedule: store.Schedule{
		Name: "nightly", Workflow: "mail", Queue: "mail", Spec: "@daily", NextAt: time.Now().Add(-time.Hour),
	}})
	return err
}

func TestDoctorFindsFaultsOfPostgres(t *testing.T) {
	url := pgtest.Database(t)
	s := migrated(t, url)
	exec := func(sql string) { t.Helper(); pgExec(t, url, sql) }

	exec(`DROP INDEX pawl.runs_parent`)
	_, found := diagnose(t, s)
	found.only(t, "fault", "indexes", "runs_parent")
	exec(`CREATE INDEX runs_parent ON pawl.runs (parent, grp, ordinal) WHERE parent IS NOT NULL; UPDATE pg_index SET indisvalid=false WHERE indexrelid='pawl.runs_parent'::regclass`)
	_, found = diagnose(t, s)
	found.only(t, "fault", "indexes", "not valid: runs_parent", "REINDEX")
	exec(`UPDATE pg_index SET indisvalid=true WHERE indexrelid='pawl.runs_parent'::regclass; ALTER TABLE pawl.runs SET (autovacuum_enabled=false)`)
	_, found = diagnose(t, s)
	found.only(t, "fault", "vacuum", "runs", "autovacuum_enabled")
	exec(`ALTER TABLE pawl.runs RESET (autovacuum_enabled)`)

	exec(`CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA pawl TO clerk; GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO clerk`)
	t.Cleanup(func() { exec(`DROP OWNED BY clerk; DROP ROLE clerk`) })
	clerk := newShell(t, with(url, "user=clerk"))
	clerk.now = time.Now
	_, found = diagnose(t, clerk)
	found.only(t, "fault", "rights", "INSERT", "GRANT", `"clerk"`)

	_, found = diagnose(t, s, "--db", with(url, "default_transaction_read_only=on"))
	found.only(t, "fault", "writable", "default_transaction_read_only")

	// Nobody can be heard: the connection for LISTEN leads nowhere.
	_, found = diagnose(t, s, "--db", with(url, "listen=postgres://127.0.0.1:1/x"))
	require.Equal(t, "warning", found["listen"].Level)

	exec(`INSERT INTO pawl.migrations (version) VALUES (99)`)
	code, found := diagnose(t, s)
	require.Equal(t, exitOK, code, "this program may use it")
	require.Contains(t, found["schema"].Seen, "version 99; programs that know version 9 or later can use it")
	exec(`UPDATE pawl.compatibility SET minimum=99`)
	_, found = diagnose(t, s)
	found.only(t, "fault", "schema", "version 99")
	exec(`DROP SCHEMA pawl CASCADE`)
	_, found = diagnose(t, s)
	found.only(t, "fault", "schema", "tables do not exist", "pawl migrate up")
}

func TestDoctorFindsPooler(t *testing.T) {
	srv := pgtest.Start(t)
	migrated(t, srv.URL())
	s := newShell(t, pgtest.Bouncer(t, srv))
	s.now = time.Now
	_, found := diagnose(t, s)
	require.Contains(t, found["pooler"].Seen, "present")
	require.Equal(t, "warning", found["listen"].Level)
	require.Contains(t, found["listen"].Advice, "listen=")
}

func TestDoctorFindsServerDown(t *testing.T) {
	srv := pgtest.Start(t)
	s := migrated(t, srv.URL())
	require.NoError(t, srv.Stop())
	code, found := diagnose(t, s)
	require.Equal(t, exitFailed, code)
	found.only(t, "fault", "connection", "cannot reach", "server is running")
	require.Equal(t, exitUnavailable, s.run("runs", "list").code)
}

func TestDoctorFindsFaultsOfTurso(t *testing.T) {
	srv := sqldtest.Start(t, sqldtest.Auth())
	srv.NamespaceNamed(t, "127")
	s := newShell(t, "http://"+srv.Addr())
	s.now = time.Now
	_, found := diagnose(t, s)
	found.only(t, "fault", "connection", "authToken")
}
