package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// Standby starts an asynchronous streaming standby of the server, which Start has made, on a port
// of its own. It returns when the standby streams. The standby is discarded after the test. The
// binaries must include pg_basebackup.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	b, err := s.standby()
	if err != nil {
		t.Fatal(err)
	}
	b.discardAfter(t, "the standby")
	return b
}

func (s *Server) standby() (*Server, error) {
	b, err := s.copied("--wal-method=stream", "--write-recovery-conf")
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	err = b.start()
	b.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
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

// Promote makes the standby a primary. It returns when the server accepts writes.
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
