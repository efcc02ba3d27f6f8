package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// Mode is a way to stop a server.
type Mode int

const (
	Fast      Mode = iota // transactions are rolled back, clients are disconnected, everything is written
	Immediate             // everything is aborted; the next start recovers
)

func (m Mode) signal() syscall.Signal {
	if m == Immediate {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// Server is a PostgreSQL server. Its methods may be called concurrently.
type Server struct {
	url     string
	version int
	shared  bool // no test may stop it

	// Of servers that this process has started:
	bin      binaries
	who      *testserver.Account
	name     string // its cluster_name, which distinguishes it from another server on its port
	dir      string // the directory of everything that it writes
	settings map[string]string

	mu    sync.Mutex
	port  int // 0 before the first start
	proc  *testserver.Process
	asked bool // the end of proc was requested
}

// An Option changes a server that Start makes.
type Option func(settings map[string]string)

// Durable makes the server wait for the disk, as a production server does. Without it, commits
// survive every end of the server, but not of the machine.
func Durable() Option { return Setting("fsync", "on") }

// Setting sets a parameter of the server's configuration.
func Setting(name, value string) Option {
	return func(settings map[string]string) { settings[name] = value }
}

// Start makes a new server for this test only. The server is discarded after the test. If the
// server has ended by itself by then, the test fails.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	b, err := postgres()
	if err != nil {
		giveUp(t, err)
	}
	s, err := launch(b, opts)
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the PostgreSQL server's log:\n%s", testserver.Tail(s.logFile(), 0))
		}
		if err := s.discard(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// URL returns the URL of the server's database "postgres", for a superuser; for a server that was
// not started here, the given URL. It stays the same when the server is restarted.
func (s *Server) URL() string { return s.url }

// Log returns what the server has written into its log since it was made.
func (s *Server) Log() (string, error) {
	b, err := os.ReadFile(s.logFile())
	return string(b), err
}

// Version returns the server's major version, such as 15.
func (s *Server) Version() int { return s.version }

// Stop stops the server and returns when it has ended. If the server is already stopped, Stop does
// nothing.
func (s *Server) Stop() error { return s.stop(Fast) }

// Kill stops the server at once, as a crash would.
func (s *Server) Kill() error { return s.stop(Immediate) }

// Restart stops the server and starts it again, with the same port and data. If it is stopped, it
// is only started. Restart returns when clients can connect.
func (s *Server) Restart(mode Mode) error {
	if err := s.stop(mode); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// external returns the server of a URL.
func external(url string) (*Server, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, fmt.Errorf("pgtest: %s does not begin with postgres://", envURL)
	}
	s := &Server{url: url, shared: true}
	if err := s.ping(time.Now().Add(testserver.StartTimeout)); err != nil {
		return nil, fmt.Errorf("pgtest: %s: %w", envURL, err)
	}
	return s, nil
}

// launch makes a new server and starts it.
func launch(b binaries, opts []Option) (_ *Server, err error) {
	s := &Server{bin: b, settings: map[string]string{
		"autovacuum":              "on",
		"fsync":                   "off",
		"listen_addresses":        "127.0.0.1",
		"max_connections":         "600",
		"shared_buffers":          "128MB",
		"synchronous_commit":      "on",
		"unix_socket_directories": "",
	}}
	for _, opt := range opts {
		opt(s.settings)
	}
	if s.who, err = testserver.Unprivileged(); err != nil {
		return nil, err
	}
	if s.dir, err = testserver.MakeDir(s.who, "pawl_postgres_"); err != nil {
		return nil, err
	}
	s.name = filepath.Base(s.dir)
	if err := s.init(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// init makes the data directory.
func (s *Server) init() error {
	var failed error
	for _, locale := range []string{"C.UTF-8", "C"} { // not every system knows the former
		cmd := s.bin.command("initdb", "-D", s.dataDir(), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale="+locale, "--no-sync")
		cmd.Dir = s.dir
		cmd.SysProcAttr = testserver.SysProcAttr(s.who, 0)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return s.guard()
		}
		failed = fmt.Errorf("pgtest: %s: %w\n%s", cmd, err, out)
	}
	return failed
}

// PasswordRole is a role that a test may create on a server of Start. Its members have to give
// their passwords; all other users need none.
const PasswordRole = "pawl_password"

// guard puts the rule for PasswordRole before those that accept everybody.
func (s *Server) guard() error {
	file := filepath.Join(s.dataDir(), "pg_hba.conf")
	rules, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rule := "host all +" + PasswordRole + " 127.0.0.1/32 scram-sha-256\n"
	return os.WriteFile(file, append([]byte(rule), rules...), 0o600) // it stays its owner's
}

// start starts the server, which is stopped, and waits until it can be used. The
// first start chooses the port. The caller holds mu.
func (s *Server) start() error {
	deadline := time.Now().Add(testserver.StartTimeout)
	choose := s.port == 0
	for {
		if choose {
			port, err := testserver.FreePort()
			if err != nil {
				return err
			}
			s.port = port
			s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		}
		begin := testserver.Size(s.logFile())
		err := s.try(deadline)
		if err == nil {
			return nil
		}
		said := testserver.Tail(s.logFile(), begin)
		if !strings.Contains(said, "Address already in use") || time.Now().After(deadline) {
			return fmt.Errorf("pgtest: PostgreSQL on port %d: %w; its log ends:\n%s", s.port, err, said)
		}
		if !choose {
			time.Sleep(testserver.Pause) // until the port's owner is gone
		}
	}
}

// try starts the server once. When it returns an error, nothing runs.
func (s *Server) try(deadline time.Time) error {
	args := []string{"-D", s.dataDir(), "-p", strconv.Itoa(s.port), "-c", "cluster_name=" + s.name}
	for name, value := range s.settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd := s.bin.command("postgres", args...)
	cmd.Dir = s.dir
	p, err := testserver.Spawn(cmd, s.who, syscall.SIGQUIT, s.logFile())
	if err != nil {
		return err
	}
	err = p.AwaitReady(deadline, func() error { return s.ping(deadline) })
	if err != nil {
		p.Kill()
		return err
	}
	s.proc, s.asked = p, false
	return nil
}

// ping connects and records the version. A server that answers with another name is a different
// one.
func (s *Server) ping(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var name string
	var version int
	err = conn.QueryRow(ctx, "SELECT current_setting('cluster_name'), current_setting('server_version_num')::int / 10000").Scan(&name, &version)
	if err != nil {
		return err
	}
	if s.name != "" && name != s.name {
		return fmt.Errorf("another server (cluster_name %q) answers", name)
	}
	if s.version == 0 {
		s.version = version
	}
	return nil
}

func (s *Server) stop(mode Mode) error {
	if s.shared {
		return errors.New("pgtest: the shared server cannot be stopped; use Start")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	return s.proc.Stop(mode.signal())
}

// discard ends the server and removes what it has written.
func (s *Server) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.proc.Ended() && !s.asked {
		errs = append(errs, fmt.Errorf("pgtest: PostgreSQL ended by itself (%v); its log ends:\n%s", s.proc.Cmd.ProcessState, testserver.Tail(s.logFile(), 0)))
	}
	s.asked = true
	return errors.Join(append(errs, s.proc.Stop(syscall.SIGQUIT), os.RemoveAll(s.dir))...)
}
