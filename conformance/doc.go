// Package conformance tests whether a backend keeps the contract of package store.
//
// The test of a backend describes how its stores are opened, in a [Harness], and calls the
// tiers of the suite:
//
//	func harness() conformance.Harness {
//		return conformance.Harness{
//			New:    func(t testing.TB) store.Store { return open(t, filepath.Join(t.TempDir(), "pawl.db")) },
//			Reopen: func(t testing.TB, s store.Store) store.Store { return open(t, s.(*mine.Store).Path()) },
//		}
//	}
//
//	func TestConformance(t *testing.T)  { conformance.Run(t, harness()) }
//	func TestEngine(t *testing.T)       { conformance.RunEngine(t, harness()) }
//	func TestRandom(t *testing.T)       { conformance.RunRandom(t, harness()) }
//	func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, harness()) }
//
// # What to use
//
//   - [Harness] describes the backend. New is required. Each further field adds cases: a
//     second process, faults, transactions, restarts, the cost of a call.
//   - [Run] runs the cases of the store: each [Case] checks one sentence of the contract.
//   - [RunEngine] runs the engine and workers on the store.
//   - [RunRandom] compares random sequences of calls with a model, [RunLinearizable]
//     concurrent calls, and [RunSimulation] whole systems with crashes.
//   - [RunDurable] kills processes, and checks that what they had written is still stored.
//   - [FaultProxy] and [HTTPFaults] make network faults, for Harness.Faults.
//   - [Report] is the result of a run of the suite, for authors to publish.
//
// A failure prints the name of the case, the promise that it belongs to (P1 to P31, listed in
// package store), the sentence of the contract, what was expected, and what was seen. To run
// one case, use -run 'TestConformance/commit/repeat$'; to run the cases of one promise, use
// -conformance.promise=P9.
//
// No case sleeps: calls set their own Now, and goroutines wait for each other at barriers. Only
// the cases clock/... do not set Now. They compare the store's answers with readings of its
// clock, and repeat a call for about 20 ms at most.
//
// # Further reading
//
// docs/new-backend.md is a guide to writing a backend and proving it with this package.
package conformance
