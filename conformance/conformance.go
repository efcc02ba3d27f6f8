package conformance

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/durable"
	"github.com/pawlhq/pawl/conformance/internal/enginetier"
	"github.com/pawlhq/pawl/conformance/internal/linearizable"
	"github.com/pawlhq/pawl/conformance/internal/random"
	"github.com/pawlhq/pawl/conformance/internal/sim"
	"github.com/pawlhq/pawl/conformance/internal/storetier"
	"github.com/pawlhq/pawl/store"
)

// Case describes one test case of the store tier or of the engine tier.
type Case struct {
	Name    string          // noun/what: "commit/repeat"
	Promise string          // "P4"; empty: the rule is in the method's own comment only
	Rule    string          // the sentence that a failure prints
	Needs   []store.Ability // the case does not run for a backend that lacks one of them
}

// Cases lists the cases of the store tier, in the order in which [Run] runs them.
func Cases() []Case {
	var all []Case
	for _, cs := range storetier.Cases() {
		all = append(all, Case{Name: cs.Name, Promise: cs.Promise, Rule: cs.Rule, Needs: cs.Needs()})
	}
	return all
}

// EngineCases lists the cases of the engine tier, in the order in which [RunEngine] runs them.
func EngineCases() []Case {
	var all []Case
	for _, cs := range enginetier.Cases() {
		all = append(all, Case{Name: cs.Name, Promise: cs.Promise, Rule: cs.Rule, Needs: cs.Needs()})
	}
	return all
}

// Run runs the cases of the store tier, each as a subtest of t. To run one case, use
// -run 'TestName/commit/repeat$'; to run the cases of one promise, use
// -conformance.promise=P9.
func Run(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	storetier.Run(t, h.inner())
}

// RunEngine runs the cases of the engine tier, each as a subtest of t: workflows with
// crashes, outages and lost answers. With h.Bubble every case runs in a testing/synctest
// bubble, where hours pass at once. Without it, times are divided by twenty and pass on the
// real clock.
func RunEngine(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	enginetier.Run(t, h.inner())
}

// RunRandom sends random sequences of operations to a backend and to a model store, one
// operation at a time. It compares each result, each error by the error of package store that
// it matches, and at the end everything that is stored. If the two differ, RunRandom shrinks
// the sequence to a minimal one. It prints the command that repeats it, and one line for each
// operation with its result.
//
// By default it runs three rounds of 100 sequences (the default of package rapid), of 60
// operations on average. The flags -rapid.checks and -rapid.steps (pairs of operations) set
// other numbers. With -short, and under the race detector, one round may be enough. The
// sequences must reach every kind of operation and outcome that RunRandom knows. While one is
// missing, RunRandom runs further rounds, up to twelve.
func RunRandom(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	random.Run(t, h.inner())
}

// RunLinearizable records what concurrent clients do, through both handles of the harness. For
// each run of a workflow it then checks that the store is linearizable: there is an order of the
// operations in which a sequential store gives the same answers, and in which an operation that
// ended before another one began comes first. An operation that was canceled before its answer
// may have been applied at any later time, or not at all. A check that takes too long fails.
func RunLinearizable(t *testing.T, h Harness) {
	t.Helper()
	storetier.CheckPromise(t)
	linearizable.Run(t, h.inner())
}

// RunSimulation runs the engine and the worker, unchanged, on a backend in 200 simulations.
// Processes are killed, or stopped and continued; calls fail, hang or arrive late; answers and
// hints are lost. A number, the seed, determines a whole simulation, and everything that reaches
// the store is checked. A failure names its seed. With that number in the environment variable
// PAWL_SIM_SEED, the test runs only that simulation and prints everything that happens. The
// harness must set Bubble; otherwise the test fails.
func RunSimulation(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	sim.RunBackend(t, h.inner())
}

// DurableHarness tells [RunDurable] how several processes reach a backend's data.
type DurableHarness struct {
	// New creates new, empty data, registers its removal with t.Cleanup, and returns the place
	// of the data, such as a path or a URL. Open gets the place in another process. Required.
	New func(t testing.TB) (place string)
	// Open opens the store at the place. Give the same function to [DurableChild]. Required.
	Open func(ctx context.Context, place string) (store.Store, error)
	// Crash ends the database's server as a crash would, and starts it again on the same data
	// and at the same place. Set it for a backend whose server tests may kill. Nil: only
	// processes are killed.
	Crash func(t testing.TB, place string)
	// Seed determines the moments of the kills. 0 means a new, random seed. A failure prints
	// the seed.
	Seed uint64
}

// RunDurable kills processes that write to a store, and then reads the data. It fails if a write
// that the store had acknowledged is missing or incomplete, or if any other write is stored in
// part.
//
// It starts the test's own binary again, as a process that opens the store by h.Open and writes.
// The process reports through a pipe what it is about to write and what was acknowledged. At random
// moments, which the seed determines, RunDurable kills that process (kill -9), or the database's
// server if h.Crash is set. Another process then continues on the same data. The test takes some
// seconds. The package's TestMain must call [DurableChild].
func RunDurable(t testing.TB, h DurableHarness) {
	t.Helper()
	durable.Run(t, durable.Harness(h))
}

// DurableChild does the work of a process that [RunDurable] has started, until the process is
// killed: it does not return. In any other process it returns at once. A package that calls
// RunDurable calls DurableChild first in its TestMain, with the Open of its harness:
//
//	func TestMain(m *testing.M) {
//		conformance.DurableChild(open)
//		os.Exit(m.Run())
//	}
func DurableChild(open func(ctx context.Context, place string) (store.Store, error)) {
	durable.Child(open)
}

// CostFault is something that makes calls read more, such as an index that is dropped.
type CostFault struct {
	Name string // the key in the result of [CostOfFaults]
	// Begin causes the fault in a store that the harness's Meter has opened. It returns a
	// function that ends the fault. If that function is nil, the fault stays; such a fault must
	// be the last of the list.
	Begin func(s store.Store) (end func())
}

// CostOfFaults tests the cost cases themselves: a fault that makes calls read more must make
// cases fail. It returns the names of the cases that fail, by the name of the fault, and under ""
// the names of those that fail without a fault. It needs h.Meter.
func CostOfFaults(t testing.TB, h Harness, faults []CostFault) map[string][]string {
	t.Helper()
	inner := make([]storetier.CostFault, len(faults))
	for i, f := range faults {
		inner[i] = storetier.CostFault(f)
	}
	return storetier.CostOfFaults(t, h.inner(), inner)
}
