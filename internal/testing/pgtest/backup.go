package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// Archived makes the server archive its log, so that it can be restored to a point in time.
func Archived() Option {
	return func(settings map[string]string) {
		settings["archive_mode"] = "on"
		settings["archive_command"] = `mkdir -p ../archive && cp "%p" ../archive/"%f"`
	}
}

// Dump writes all of the server's database with pg_dump and returns the file, which is deleted
// after the test.
func (s *Server) Dump(t testing.TB) string {
	t.Helper()
	f, err := os.CreateTemp(s.dir, "dump_") // the server's directory is removed after the test
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := s.bin.command("pg_dump", "--format=custom", "--dbname="+s.url)
	cmd.Stdout = f
	if err := run(cmd); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// RestoreDump restores a file of Dump in one transaction, as docs/operations.md describes. After a
// deadlock with other users of the database it tries again.
func (s *Server) RestoreDump(file string) error {
	var err error
	for range 20 {
		err = run(s.bin.command("pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+s.url, file))
		if err == nil || !strings.Contains(err.Error(), "deadlock detected") {
			return err
		}
	}
	return err
}

// Base is a base backup of a server, to be restored to a later point in time.
type Base struct {
	of   *Server
	next *Server // its directory contains the backup
}

// Backup makes a base backup of the server, which must be Archived.
func (s *Server) Backup(t testing.TB) *Base {
	t.Helper()
	next, err := s.copied("--wal-method=none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if next.proc == nil { // it was not restored
			_ = os.RemoveAll(next.dir)
		}
	})
	return &Base{of: s, next: next}
}

// Now is the server's clock.
func (b *Base) Now(t testing.TB) time.Time {
	t.Helper()
	var now time.Time
	if err := b.of.row(`SELECT clock_timestamp()`, &now); err != nil {
		t.Fatal(err)
	}
	return now
}

// Restore kills the server and returns another, on a port of its own, that has what the server had
// committed by the time until. The server must have committed something later.
func (b *Base) Restore(t testing.TB, until time.Time) *Server {
	t.Helper()
	s, err := b.restore(until)
	if err != nil {
		t.Fatal(err)
	}
	s.discardAfter(t, "the restored server")
	return s
}

func (b *Base) restore(until time.Time) (*Server, error) {
	var file string
	if err := b.of.row(`SELECT pg_walfile_name(pg_switch_wal())`, &file); err != nil {
		return nil, err
	}
	if err := b.of.await(fmt.Sprintf(`SELECT coalesce(last_archived_wal>='%s', false) FROM pg_stat_archiver`, file)); err != nil {
		return nil, err
	}
	if err := b.of.Kill(); err != nil {
		return nil, err
	}
	s := b.next
	conf := fmt.Sprintf("restore_command='cp \"%s\"/\"%%f\" \"%%p\"'\nrecovery_target_time='%s'\nrecovery_target_action='promote'\n",
		filepath.Join(b.of.dir, "archive"), until.UTC().Format("2006-01-02 15:04:05.999999-07"))
	for name, text := range map[string]string{"postgresql.auto.conf": conf, "recovery.signal": ""} {
		if err := os.WriteFile(filepath.Join(s.dataDir(), name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	err := s.start()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s, s.await(`SELECT NOT pg_is_in_recovery()`)
}

// copied makes a server whose data directory is a base backup of this one.
func (s *Server) copied(args ...string) (_ *Server, err error) {
	c := &Server{bin: s.bin, who: s.who, settings: s.settings}
	if c.dir, err = testserver.MakeDir(c.who, "pawl_postgres_"); err != nil {
		return nil, err
	}
	c.name = filepath.Base(c.dir)
	s.mu.Lock()
	port := s.port
	s.mu.Unlock()
	cmd := c.bin.command("pg_basebackup", append([]string{"-D", c.dataDir(), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres",
		"--checkpoint=fast", "--no-sync"}, args...)...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = testserver.SysProcAttr(c.who, 0)
	if err := run(cmd); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

// discardAfter discards the server after the test.
func (s *Server) discardAfter(t testing.TB, what string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s on %s:\n%s", what, s.URL(), testserver.Tail(s.logFile(), 0))
		}
		if err := s.discard(); err != nil {
			t.Error(err)
		}
	})
}

// run runs a command; its error contains what the command has written to standard error.
func run(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", cmd, err, &said)
	}
	return nil
}

// row reads one row of one column.
func (s *Server) row(query string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), testserver.StartTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(ctx, query).Scan(into); err != nil {
		return fmt.Errorf("pgtest: %s: %w", query, err)
	}
	return nil
}
