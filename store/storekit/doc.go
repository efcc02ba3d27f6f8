// Package storekit holds the rules that every backend of Pawl follows, as code
// without I/O, so that the author of a backend does not write them again.
//
// A backend loads a run, applies a rule, and stores the run, in one transaction:
//
//	r, err := load(tx, c.Lease.Run)
//	if err != nil {
//		return err
//	}
//	before := *r
//	if repeated, err := r.Fence(&c); err != nil || repeated {
//		return err
//	}
//	unseen := r.Begin(&c)
//	r.Transition(c.Transition, unseen, groups, now)
//	if err := save(tx, r); err != nil {
//		return err
//	}
//	publish(storekit.Hints(&before, r, true)) // once the transaction has committed
//
// # What to use
//
// [Run] is a run as a store keeps it. Each verb of the contract that changes a run is a
// method: [Run.Lease], [Run.Extend], [Run.Fence], [Run.Transition], [Run.Cancel],
// [Run.Pause], [Run.Restart] and so on. A method reads and changes the struct and nothing
// else. Its result says what the verb changes beside the run's own record, such as steps
// or children.
//
// The backend derives its indexes from the run: [Run.Claimable] says whether the run has an
// entry in the index of claims, [Run.Leased] whether a worker holds it, and
// [Run.HoldsExternalID] whether it holds its external id. [Hints] compares a run before
// and after a write and returns the hints to publish.
//
// [NewClaim] and [CompareClaims] decide which runs a claim takes.
//
// Registry, schedules and the journal are small records with names. The package
// implements them whole over the interface [Records]: [PutWorker],
// [ListSchedules], [Fire], [RecordActions] and so on.
//
// For listings there are [Bound] and [Collect], which end a page by count and by
// bytes, and [Matches], which applies a filter to a run. [OrderedKey] builds the keys of
// a database that orders them by their bytes.
//
// A backend on SQL may express some of these rules as statements that change many rows at once. A
// backend that reads and writes single records, such as one over ordered keys, needs little besides
// this package.
//
// Nothing here is safe for concurrent use. Runs and records share slices with the
// params they were made from, so a store that keeps them in memory copies them.
//
// # Further reading
//
// docs/new-backend.md is a guide to writing a backend, and examples/backend is one that uses this
// package throughout. Package conformance tests the result.
package storekit
