package conformance_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// harness opens stores of the backend under test, which here is SQLite in files.
func harness() conformance.Harness {
	open := func(t testing.TB, path string) store.Store {
		st, err := sqlite.Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return &placed{st, path}
	}
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			return open(t, filepath.Join(t.TempDir(), "pawl.db"))
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			return open(t, s.(*placed).path)
		},
	}
}

// placed is a store that knows where it is.
type placed struct {
	*sqlite.Store
	path string
}

// A backend's test calls the tiers of the suite. Each is a test of its own, so that it can
// be run alone: go test -run TestConformance/commit/repeat.
func ExampleRun() {
	TestConformance := func(t *testing.T) { conformance.Run(t, harness()) }
	TestEngine := func(t *testing.T) { conformance.RunEngine(t, harness()) }
	TestRandom := func(t *testing.T) { conformance.RunRandom(t, harness()) }
	TestLinearizable := func(t *testing.T) { conformance.RunLinearizable(t, harness()) }
	_, _, _, _ = TestConformance, TestEngine, TestRandom, TestLinearizable
}

// A backend that has no transactions of programs, say, declares it, with the reason. The
// cases that need them are left out; the report says so.
func ExampleHarness() {
	h := harness()
	h.Lacks = map[store.Ability]string{store.Transactions: "the server has no sessions"}
	TestConformance := func(t *testing.T) { conformance.Run(t, h) }
	_ = TestConformance
}

// Each case proves one sentence of the contract.
func ExampleCases() {
	for _, c := range conformance.Cases() {
		if c.Name == "commit/complete" {
			fmt.Println(c.Name, c.Rule != "")
		}
	}
	// Output:
	// commit/complete true
}
