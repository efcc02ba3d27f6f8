// Package browsertest gives tests a real browser: Chromium, headless.
//
// Open opens a page in the one browser that all tests of a process share. Each page has its own
// cookies and storage. A package that uses it has
//
//	func TestMain(m *testing.M) { browsertest.Run(m) }
//
// The environment selects the Chromium:
//
//   - PAWL_TEST_CHROMIUM: the path of the program. Without it, one in PATH is used. If there is none
//     and this process is root, Debian's package chromium is installed with apt-get.
//   - PAWL_TEST_REQUIRE=1: a test fails if no Chromium or no axe-core is available. Without it, the
//     test is skipped, unless PAWL_TEST_CHROMIUM asks for the missing one.
//
// axe-core, which checks accessibility, is pinned and fetched with npm. Fetched files are kept in the
// user's cache directory. All other files are in the directory for temporary files and removed at the
// end. The browser listens only on 127.0.0.1. On Linux it ends with the process that has started it.
package browsertest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/parallel"
	"github.com/pawlhq/pawl/internal/testing/testserver"
)

const (
	envChromium = "PAWL_TEST_CHROMIUM"
	envRequire  = "PAWL_TEST_REQUIRE"
)

var (
	underRun bool                          // Run is running
	atEnd    = func() error { return nil } // set to what Run has to end
)

// Run runs the tests, many at a time, stops the browser, and exits. A package that also shares
// servers gives their ends, which Run calls after the tests.
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

// A missingError says that something is not there and cannot be fetched.
type missingError struct {
	what  string
	asked bool // it, and nothing else, was asked for
	err   error
}

func (e *missingError) Error() string { return fmt.Sprintf("browsertest: %s: %v", e.what, e.err) }
func (e *missingError) Unwrap() error { return e.err }

// giveUp skips the test if the only problem is that the browser is optional and not available here;
// otherwise it fails the test.
func giveUp(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	if errors.As(err, &missing) && !missing.asked && !errors.Is(err, testserver.ErrUntrusted) && os.Getenv(envRequire) != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}
