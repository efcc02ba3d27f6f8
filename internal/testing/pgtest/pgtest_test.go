package pgtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// envParent makes this binary start a server, report it, and wait to be killed.
const envParent = "PAWL_PGTEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		b, err := postgres()
		if err == nil {
			var s *Server
			if s, err = launch(b, nil); err == nil {
				fmt.Println(s.dir)
				select {}
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Run(m)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query[T any](t *testing.T, conn interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v), sql)
	return v
}

func TestSharedServer(t *testing.T) {
	s := Shared(t)
	require.Same(t, s, Shared(t))
	t.Log(query[string](t, connect(t, s.URL()), "SELECT version()"))
	require.Equal(t, s.Version(), query[int](t, connect(t, s.URL()), "SELECT current_setting('server_version_num')::int / 10000"))
	if want, err := strconv.Atoi(os.Getenv(envPostgres)); err == nil && os.Getenv(envURL) == "" {
		require.Equal(t, want, s.Version(), "not the version that %s asks for", envPostgres)
	}
	for _, stop := range []func() error{s.Stop, s.Kill, func() error { return s.Restart(Fast) }} {
		require.Error(t, stop(), "a test can stop the server of all")
	}
}

func TestSchemaIsOfOneTest(t *testing.T) {
	const count = "SELECT count(*) FROM pg_namespace WHERE nspname = $1"
	conn := connect(t, Shared(t).URL())
	var name string
	t.Run("test", func(t *testing.T) {
		url, schema := Schema(t)
		require.Equal(t, Shared(t).URL(), url)
		_, other := Schema(t)
		require.NotEqual(t, schema, other)
		require.Zero(t, query[int](t, conn, count, schema), "the schema exists already")
		_, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema+" CREATE TABLE t (n int)")
		require.NoError(t, err)
		name = schema
	})
	require.Zero(t, query[int](t, conn, count, name), "the schema was not dropped")
}

func TestDatabaseIsOfOneTest(t *testing.T) {
	conn := connect(t, Shared(t).URL())
	var name string
	t.Run("test", func(t *testing.T) {
		own, err := pgx.Connect(t.Context(), Database(t))
		require.NoError(t, err)
		name = query[string](t, own, "SELECT current_database()")
		require.NotEqual(t, query[string](t, conn, "SELECT current_database()"), name)
		// The connection stays open: the database must be dropped nevertheless.
	})
	require.Zero(t, query[int](t, conn, "SELECT count(*) FROM pg_database WHERE datname = $1", name), "the database was not dropped")
}

func TestRestartKeepsURLAndData(t *testing.T) {
	s := Start(t, Durable(), Setting("max_connections", "17"))
	url, version := s.URL(), s.Version()
	conn := connect(t, url)
	require.Equal(t, "on", query[string](t, conn, "SHOW fsync"))
	require.Equal(t, "17", query[string](t, conn, "SHOW max_connections"))
	_, err := conn.Exec(t.Context(), "CREATE TABLE t (n int)")
	require.NoError(t, err)

	steps := []struct {
		name string
		do   func() error
	}{
		{"fast", func() error { return s.Restart(Fast) }},
		{"immediate", func() error { return s.Restart(Immediate) }},
		{"stopped", func() error {
			require.NoError(t, s.Stop())
			require.NoError(t, s.Stop(), "stopped twice")
			_, err := pgx.Connect(t.Context(), url)
			require.Error(t, err, "a stopped server answers")
			return s.Restart(Fast)
		}},
		{"port taken for a while", func() error {
			require.NoError(t, s.Kill())
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
			require.NoError(t, err)
			begin, released := testserver.Size(s.logFile()), make(chan struct{})
			go func() {
				defer close(released)
				for range 1000 {
					if strings.Contains(testserver.Tail(s.logFile(), begin), "Address already in use") {
						break
					}
					time.Sleep(testserver.Pause)
				}
				_ = l.Close()
			}()
			err = s.Restart(Immediate)
			<-released
			return err
		}},
	}
	for i, step := range steps {
		_, err := connect(t, url).Exec(t.Context(), "INSERT INTO t VALUES ($1)", i)
		require.NoError(t, err)
		require.NoError(t, step.do(), step.name)
		require.Equal(t, url, s.URL(), step.name)
		require.Equal(t, version, s.Version(), step.name)
		require.Equal(t, i+1, query[int](t, connect(t, url), "SELECT count(*) FROM t"), step.name)
	}
}

// A standby has what the primary has committed, except for what was committed after it stopped
// streaming; promoted, it accepts writes.
func TestPromotionLosesWhatDidNotStream(t *testing.T) {
	t.Parallel()
	primary := Start(t)
	require.NoError(t, primary.exec(`CREATE TABLE t (n integer)`))
	standby := primary.Standby(t)
	require.NoError(t, primary.exec(`INSERT INTO t VALUES (1)`))
	require.NoError(t, standby.await(`SELECT count(*)=1 FROM t`))
	require.Error(t, standby.exec(`INSERT INTO t VALUES (2)`), "it is read-only")
	require.NoError(t, standby.StopStreaming())
	require.NoError(t, primary.exec(`INSERT INTO t VALUES (3)`))
	require.NoError(t, primary.Kill())
	require.NoError(t, standby.Promote())
	require.NoError(t, standby.exec(`INSERT INTO t VALUES (4)`))
	require.NoError(t, standby.await(`SELECT array_agg(n ORDER BY n)='{1,4}' FROM t`))
	next := standby.Standby(t)
	require.NoError(t, next.await(`SELECT array_agg(n ORDER BY n)='{1,4}' FROM t`))
}

func TestServerThatEndsByItselfIsReported(t *testing.T) {
	b, err := postgres()
	if err != nil {
		giveUp(t, err)
	}
	s, err := launch(b, nil)
	require.NoError(t, err)
	require.NoError(t, s.proc.Stop(syscall.SIGQUIT))
	require.ErrorContains(t, s.discard(), "ended by itself")
	require.NoDirExists(t, s.dir)
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	b, err := postgres()
	if err != nil {
		giveUp(t, err)
	}
	_, err = launch(b, []Option{Setting("max_connections", "many")})
	require.ErrorContains(t, err, `invalid value for parameter "max_connections"`)
}

func TestPasswordRole(t *testing.T) {
	s := Start(t)
	conn := connect(t, s.URL())
	_, err := conn.Exec(t.Context(), "CREATE ROLE "+PasswordRole+"; CREATE ROLE ann LOGIN PASSWORD 'secret' IN ROLE "+PasswordRole+"; CREATE ROLE bob LOGIN")
	require.NoError(t, err)
	as := func(user *url.Userinfo) error {
		u, err := url.Parse(s.URL())
		require.NoError(t, err)
		u.User = user
		conn, err := pgx.Connect(t.Context(), u.String())
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err
	}
	require.NoError(t, as(url.UserPassword("ann", "secret")))
	require.Error(t, as(url.UserPassword("ann", "wrong")))
	require.NoError(t, as(url.User("bob")))
}

// The signal that kills the parent leaves it no chance to stop anything.
func TestServerDiesWithItsProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent has died")
	}
	if _, err := postgres(); err != nil {
		giveUp(t, err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), envParent+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // "signal: killed"
	require.NoError(t, err, "the parent has not said where its server is")

	dir := strings.TrimSpace(line)
	require.Equal(t, "pawl_postgres_", strings.TrimRight(filepath.Base(dir), "0123456789"))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// The last that a server does is to remove this file.
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid"))
		return errors.Is(err, os.ErrNotExist)
	}, testserver.StopTimeout, testserver.Pause, "the server has outlived the process that started it")
}

func TestBouncerPoolsTransactions(t *testing.T) {
	s := Shared(t)
	url := Bouncer(t, s)
	bin, err := pgbouncer()
	require.NoError(t, err)
	version, err := command(bin.path, bin.libs, "--version").Output()
	require.NoError(t, err)
	t.Log(strings.Join(strings.Fields(string(version)), " "))
	require.NotEqual(t, s.URL(), url)
	// Prepared statements remain in a connection that another client gets.
	url += "&default_query_exec_mode=exec"
	one, two := connect(t, url), connect(t, url)
	const self = "SELECT pg_backend_pid()"
	require.NotEqual(t, query[uint32](t, one, self), one.PgConn().PID(), "the client is connected to the server itself")

	// While the first client's transaction has a connection, the second client gets another one.
	// The connection that was released first is used next.
	tx, err := one.Begin(t.Context())
	require.NoError(t, err)
	first, other := query[int](t, tx, self), query[int](t, two, self)
	require.NotEqual(t, first, other, "two transactions at one time in one connection")
	require.NoError(t, tx.Commit(t.Context()))
	seen := map[int]bool{}
	for range 10 {
		seen[query[int](t, one, self)] = true
	}
	require.Greater(t, len(seen), 1, "all transactions of a client came to one connection of the server")
}

func TestBouncerOutlivesRestart(t *testing.T) {
	s := Start(t)
	url := Bouncer(t, s) + "&default_query_exec_mode=exec" // statements may go to different connections
	require.Equal(t, 1, query[int](t, connect(t, url), "SELECT 1"))
	require.NoError(t, s.Restart(Immediate))
	require.Eventually(t, func() bool { // it has to notice the end of its connections
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "SELECT 1")
		return err == nil
	}, testserver.StartTimeout, testserver.Pause)
}

func TestNPMPackageIsPinned(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	require.NoError(t, json.Unmarshal(npmLock, &lock))
	p := lock.Packages["node_modules/"+npmName]
	require.True(t, strings.HasPrefix(p.Version, strconv.Itoa(npmVersion)+"."), "version %s is not %d", p.Version, npmVersion)
	for name, p := range lock.Packages {
		if name != "" {
			require.NotEmpty(t, p.Integrity, "%s has no hash", name)
		}
		require.Empty(t, p.Resolved, "%s has an address", name)
	}
}

func TestLinksStayInThePackage(t *testing.T) {
	for _, c := range []struct {
		name, source, target string
		ok                   bool
	}{
		{"library", "native/lib/a.so.1.2", "native/lib/a.so.1", true},
		{"source outside", "../secret", "native/lib/a.so.1", false},
		{"source hidden outside", "native/../../secret", "native/lib/a.so.1", false},
		{"absolute source", "/etc/passwd", "native/lib/a.so.1", false},
		{"target outside", "native/lib/a.so.1.2", "../a.so.1", false},
		{"absolute target", "native/lib/a.so.1.2", "/tmp/pawl/a.so.1", false},
		{"by way of another link", "native/lib/out/secret", "native/lib/a.so.1", false},
		{"no source", "native/lib/b.so.1", "native/lib/a.so.1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			pkg := filepath.Join(dir, "pkg")
			require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
			for _, d := range []string{"native/lib", "native/bin"} {
				require.NoError(t, os.MkdirAll(filepath.Join(pkg, d), 0o755))
			}
			require.NoError(t, os.Symlink(dir, filepath.Join(pkg, "native/lib/out")))
			require.NoError(t, os.WriteFile(filepath.Join(pkg, "native/lib/a.so.1.2"), []byte("library"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(pkg, "native/bin/postgres"), nil, 0o600))
			list, err := json.Marshal([]map[string]string{{"source": c.source, "target": c.target}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(pkg, "native/pg-symlinks.json"), list, 0o600))
			err = hydrate(pkg)
			if !c.ok {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(pkg, c.target))
			require.NoError(t, err)
			require.Equal(t, "library", string(got))
			info, err := os.Stat(filepath.Join(pkg, "native/bin/postgres"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
		})
	}
}
