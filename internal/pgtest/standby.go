package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testserver"
)

// Standby starts an asynchronous streaming standby of the server, which Start has made,
// on a port of its own. It returns when the standby streams. It is thrown away after the test. The
// binaries must have pg_basebackup.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	b, err := s.standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of the standby on %s:\n%s", b.URL(), testserver.Tail(b.logFile(), 0))
		}
		if err := b.discard(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (s *Server) standby() (_ *Server, err error) {
	b := &Server{bin: s.bin, who: s.who, settings: s.settings}
	if b.dir, err = testserver.MakeDir(b.who, "pawl_postgres_"); err != nil {
		return nil, err
	}
	b.name = filepath.Base(b.dir)
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	s.mu.Lock()
	port := s.port
	s.mu.Unlock()
	cmd := b.bin.command("pg_basebackup", "-D", b.dataDir(), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres",
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	cmd.Dir = b.dir
	cmd.SysProcAttr = testserver.SysProcAttr(b.who, 0)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pgtest: %s: %w\n%s", cmd, err, out)
	}
	b.mu.Lock()
	err = b.start()
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := b.await(`SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status='streaming')`); err != nil {
		return nil, errors.Join(err, b.discard())
	}
	return b, nil
}

// StopStreaming ends the standby's connection to its primary, for good: what the primary
// commits from now on does not arrive. It returns when the connection has ended.
func (s *Server) StopStreaming() error {
	if err := s.exec(`ALTER SYSTEM SET primary_conninfo=''`); err != nil {
		return err
	}
	if err := s.exec(`SELECT pg_reload_conf()`); err != nil {
		return err
	}
	return s.await(`SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`)
}

// Promote makes the standby a primary. It returns when it takes writes.
func (s *Server) Promote() error {
	if err := s.exec(`SELECT pg_promote(true, 60)`); err != nil {
		return err
	}
	return s.await(`SELECT NOT pg_is_in_recovery()`)
}

// await waits until a query says true.
func (s *Server) await(query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testserver.StartTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for {
		var yes bool
		if err := conn.QueryRow(ctx, query).Scan(&yes); err != nil {
			return fmt.Errorf("pgtest: %s: %w", query, err)
		}
		if yes {
			return nil
		}
		time.Sleep(testserver.Pause)
	}
}
