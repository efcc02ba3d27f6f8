package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// bouncerConfig pools transactions. As far as possible, it gives consecutive transactions of a
// client different connections to the server, so that code that relies on a session fails.
const bouncerConfig = `[databases]
%[1]s = %[2]s dbname=%[3]s
* = %[2]s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[4]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
min_pool_size = 3
server_round_robin = 1
max_client_conn = 500
; a server that was down is tried again soon
server_login_retry = 1
`

var pgbouncer = sync.OnceValues(func() (binary struct {
	path string
	libs []string
}, err error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if binary.path, err = exec.LookPath(name); err == nil {
			return binary, nil
		}
	}
	root, libs, err := fetchDebian("pgbouncer")
	if err != nil {
		return binary, &missingError{"PgBouncer", false, fmt.Errorf("not installed; install Debian's package pgbouncer: %w", err)}
	}
	binary.path, binary.libs = filepath.Join(root, "usr/sbin/pgbouncer"), libs
	return binary, nil
})

// Bouncer starts a PgBouncer in front of the server, in transaction pooling mode, for this test,
// and returns the URL of the server's database through it. The server's other databases are
// reachable in the same way.
func Bouncer(t testing.TB, s *Server) string {
	t.Helper()
	bin, err := pgbouncer()
	if err != nil {
		giveUp(t, err)
	}
	b := &bouncer{path: bin.path, libs: bin.libs}
	if b.who, err = testserver.Unprivileged(); err != nil {
		t.Fatal(err)
	}
	if b.dir, err = testserver.MakeDir(b.who, "pawl_pgbouncer_"); err != nil {
		t.Fatal("pgtest:", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of PgBouncer's log:\n%s", testserver.Tail(b.logFile(), 0))
		}
		var err error
		if b.proc != nil {
			err = b.proc.Stop(syscall.SIGTERM) // does not wait for clients
		}
		if err := errors.Join(err, os.RemoveAll(b.dir)); err != nil {
			t.Error(err)
		}
	})
	url, err := b.start(s)
	if err != nil {
		t.Fatalf("pgtest: PgBouncer: %v; its log ends:\n%s", err, testserver.Tail(b.logFile(), 0))
	}
	return url
}

type bouncer struct {
	path string
	libs []string
	who  *testserver.Account
	dir  string
	proc *testserver.Process
}

func (b *bouncer) logFile() string { return filepath.Join(b.dir, "log") }

func (b *bouncer) start(s *Server) (string, error) {
	server, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return "", err
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	target := fmt.Sprintf("host=%s port=%d user=%s", quote(server.Host), server.Port, quote(server.User))
	if server.Password != "" {
		target += " password=" + quote(server.Password)
	}
	own := filepath.Base(b.dir) // a database name that no other server on the port has
	deadline := time.Now().Add(testserver.StartTimeout)
	for {
		port, err := testserver.FreePort()
		if err != nil {
			return "", err
		}
		config := filepath.Join(b.dir, "pgbouncer.ini")
		text := fmt.Sprintf(bouncerConfig, own, target, quote(server.Database), port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil { // it may hold a password
			return "", err
		}
		if b.who != nil {
			if err := os.Chown(config, b.who.UID, b.who.GID); err != nil {
				return "", err
			}
		}
		cmd := command(b.path, b.libs, config)
		cmd.Dir = b.dir
		begin := testserver.Size(b.logFile())
		p, err := testserver.Spawn(cmd, b.who, syscall.SIGTERM, b.logFile())
		if err != nil {
			return "", err
		}
		u := url.URL{Scheme: "postgres", User: url.User(server.User), Host: fmt.Sprintf("127.0.0.1:%d", port), RawQuery: "sslmode=disable"}
		err = p.AwaitReady(deadline, func() error {
			u.Path = "/" + own
			ctx, cancel := context.WithDeadline(context.Background(), deadline)
			defer cancel()
			conn, err := pgx.Connect(ctx, u.String())
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
		if err == nil {
			b.proc = p
			u.Path = "/" + server.Database
			return u.String(), nil
		}
		p.Kill()
		if !strings.Contains(testserver.Tail(b.logFile(), begin), "Address already in use") || time.Now().After(deadline) {
			return "", err
		}
	}
}
