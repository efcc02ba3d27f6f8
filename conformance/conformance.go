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

// Case describes one proof of the store tier or of the engine tier.
type Case struct {
	Name    string          // noun/what: "commit/repeat"
	Promise string          // "P4"; empty: of the method's own description alone
	Rule    string          // the sentence that a failure prints
	Needs   []store.Ability // a backend that lacks one of them is not put to the case
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

// Run puts a backend through the store tier. One case is run alone by
// -run 'TestName/commit/repeat$', and the cases of one promise by -conformance.promise=P9.
func Run(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	storetier.Run(t, h.inner())
}

// RunEngine puts a backend through the engine tier: workflows with crashes,
// outages and lost answers. With h.Bubble every case runs in a synctest bubble, in
// which hours pass in no time; otherwise times are scaled down to a twentieth and
// really pass.
func RunEngine(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	enginetier.Run(t, h.inner())
}

// RunRandom sends random sequences of operations to a backend and to the model
// store, in lockstep, and compares every result, every error by its sentinel,
// and in the end all that is stored. A sequence that tells the two apart is
// shrunk to a minimal one and printed, one line for each operation with its
// result, beneath the command that repeats it.
//
// It runs three rounds of rapid's usual 100 sequences, of 60 operations on the
// average. The flags -rapid.checks and -rapid.steps (pairs of operations) raise
// that. Under the race detector, which slows some drivers by ten times, and with
// -short, one round may do. Every branch that the layer knows must have been
// reached; while one was not, further rounds follow, up to twelve.
func RunRandom(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	random.Run(t, h.inner())
}

// RunLinearizable records histories of concurrent clients, over both handles of
// the harness, and checks for each run of a history that there is an order of
// the operations, agreeing with the order in which they were seen to be done,
// in which a sequential store would have given the same answers. What was
// canceled under way may have been applied at any later time or not at all. A
// check that finds no answer in time fails.
func RunLinearizable(t *testing.T, h Harness) {
	t.Helper()
	storetier.CheckPromise(t)
	linearizable.Run(t, h.inner())
}

// RunSimulation runs engine and worker, unchanged, on a backend with h.Bubble in
// 200 simulated worlds: processes that are killed, stopped and woken again, calls
// that fail, hang or come through late, answers and hints that are lost. Each world
// follows from one number, its seed, and everything that reaches the store is
// checked. A failure names its seed; with that number in PAWL_SIM_SEED the test
// runs it alone and writes down all that happened.
func RunSimulation(t *testing.T, h Harness) {
	storetier.CheckPromise(t)
	sim.RunBackend(t, h.inner())
}

// DurableHarness tells [RunDurable] how several processes reach a backend's data.
type DurableHarness struct {
	// New makes fresh, empty data, cleans it up with t, and says where it is, in words that
	// Open understands in another process: a path, a URL.
	New func(t testing.TB) (place string)
	// Open opens the store at the place. It is what the package's TestMain gives to
	// [DurableChild].
	Open func(ctx context.Context, place string) (store.Store, error)
	// Crash, when set, ends the database's server as a crash would, and starts it again on the
	// same data. Set it for a backend that has a server which tests may kill; the place stays.
	// Nil: processes alone are killed.
	Crash func(t testing.TB, place string)
	// Seed draws the moments of the kills; 0 draws a new one, which a failure prints.
	Seed uint64
}

// RunDurable kills processes, and says whether what the store had acknowledged to them is there,
// whole, and whether of what they had begun nothing is half there. It starts the test's own binary
// again, as a process that opens the store by the harness, writes, and says
// through a pipe what it is about to write and what was acknowledged. At moments drawn
// from a seed that process is killed (kill -9), or the database's server if the harness can
// do that; another one follows on the same data. It takes some seconds.
//
// The package's TestMain must call [DurableChild].
func RunDurable(t testing.TB, h DurableHarness) {
	t.Helper()
	durable.Run(t, durable.Harness(h))
}

// DurableChild does the work of a process that [RunDurable] has started, until it is killed. In
// any other process it returns at once. A package that calls RunDurable calls it first of all in its
// TestMain, with the Open of its harness:
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
	Name string
	// Begin brings the fault about in a store of the harness's Meter; what it returns
	// ends it. Nil: it stays, and is the last one.
	Begin func(s store.Store) (end func())
}

// CostOfFaults shows that the cost cases find what they are for: it returns the names of
// the cases that fail under each fault, and under "" those that fail without any.
func CostOfFaults(t testing.TB, h Harness, faults []CostFault) map[string][]string {
	t.Helper()
	inner := make([]storetier.CostFault, len(faults))
	for i, f := range faults {
		inner[i] = storetier.CostFault(f)
	}
	return storetier.CostOfFaults(t, h.inner(), inner)
}
