// Package store is the contract between Pawl's engine and a database.
//
// A backend implements [Store]; the engine and the workers know nothing else
// of a database. The doc comments of this package are the contract, and the
// suite in package conformance is its proof: a backend conforms when the suite
// passes, whoever wrote it.
//
// # The one idea
//
// Everything that can be claimed is a run, and everything that a lease holder
// does to its run is a commit. A run has one time that decides when it may be
// claimed, [Run.VisibleAt]: its start time when pending, its wake time when
// sleeping, its retry time when retrying, its lease's expiry when running.
// So a run whose worker died becomes claimable by itself. The expired lease
// decides who may try; the epoch, which every claim raises, decides who may
// commit.
//
// # Clock
//
// Every params struct that needs a time has a field Now. Zero means the
// store's clock: the database's where there is a server, Go's time.Now where
// the database is embedded. A set Now is taken as that clock, which is how
// tests move time without sleeping. Leases, sleeps and delays are durations
// that the store adds to its own clock, so that an application's clock decides
// nothing. Times are kept in microseconds and come back in UTC; of a time, what is
// finer is cut off, and a duration is rounded up.
// Cases: time/microseconds, time/far-and-long-ago, time/each-call-its-own,
// time/store-clock.
//
// # Promises
//
// The comments below cite these promises by number, with the conformance cases
// that hold a backend to them.
//
//	P1  Exclusive: no two valid leases for a run; every claim raises the epoch.
//	P2  Fenced: an old epoch changes nothing and gets ErrLeaseLost.
//	P3  Atomic: of one commit, all or nothing.
//	P4  Repeatable: what is sent again has no second effect and succeeds.
//	P5  No lost wake-up: an event between claim and sleep ends the sleep at once.
//	P6  Crash: a run whose lease ran out is claimable by anyone; crashes are counted.
//	P7  Order: by priority, then due time; equals first come, first served.
//	P8  One run holds a namespace's external id and suffix: while active, or for as long as it is kept.
//	P9  Children: a parent wakes when what it awaits is reached, not before, once.
//	P10 Schedules: one run at most for each schedule and fire time.
//	P11 Cancel: what is not running is final at once; children follow.
//	P12 Payloads are opaque: any bytes, nil, empty; too large stores nothing.
//	P13 Time: nothing is claimed, woken or fired before its time.
//	P14 Pages neither skip nor repeat a row that existed throughout.
//	P15 Namespaces never see each other.
//	P16 Errors are matched by identity, and say whether to try again.
//	P17 Signals are kept in order per run and name, and consumed once.
//	P18 The cost of a claim follows what is claimable, not what is stored.
//
// P1 to P4 are about what is recorded: nothing is recorded twice, and no record is changed by
// one whose lease is over. They do not stop a process that does not know of the end of its lease yet;
// what it may still do is in package workflow, under "What may be repeated".
//
// # Batches
//
// What comes in numbers is a batch with a result for each item, in the order
// of the items. A returned error of the method itself concerns the whole call;
// an item's own error stands in its result and leaves the other items alone.
package store
