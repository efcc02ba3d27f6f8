// Package store is the contract between Pawl's engine and a database.
//
// A backend implements [Store]; the engine and the workers know nothing else of a database. The doc
// comments of this package are the contract. The comment of each method says what the method does, what
// it returns, what it promises, and how it fails; the comments of the params types explain their fields.
// The rules that hold for every method are here and at [Store].
//
// The suite in package conformance tests the contract: a backend conforms if it passes the suite.
// docs/promises.md lists the cases of the suite by promise and by method.
//
// # The one idea
//
// Everything that can be claimed is a run, and everything that a lease holder does to its run is a
// commit. A run has one time that decides when it may be claimed, [Run.VisibleAt]: its start time when
// pending, its wake time when sleeping, its retry time when retrying, its lease's expiry when running.
// Therefore a run whose worker died becomes claimable by itself. The lease decides who may work on a
// run; the epoch, which every claim increases, decides who may commit.
//
// # Optional interfaces
//
// A backend implements [Store] and as many of these as it can. The engine works without the others, as
// their comments say, and [Features].Gaps gives users the reason.
//
//	Hinter      tells at once that something happened; without it, polling finds it
//	Transactor  acts inside a transaction of the program's own
//	Importer    takes over runs of another store
//	Exporter    gives runs to another store
//	Journal     keeps what people did
//	Outboxer    keeps the changes of runs until they were passed on
//	Streamer    keeps streams of runs, which are read while the run goes on
//	Ranker      tells how many runs are ahead of another
//	Diagnoser   looks for faults of the database
//	Counter     counts what the backend asks of its server
//
// # Clock
//
// Every params struct that needs a time has a field Now. Zero means the store's clock: the database's
// where there is a server, Go's time.Now where the database is embedded. If Now is set, it replaces that
// clock for that call only, so that tests can move time without sleeping. Leases, sleeps and delays are
// durations that the store adds to its own clock, so that an application's clock decides nothing.
// Programs leave Now zero. Every backend must support it nevertheless, because most of the conformance
// suite sets it: without it, the suite could not test what a store does at a given time.
//
// Times are stored in microseconds and returned in UTC. Times are truncated to whole microseconds.
// Durations (a delay, a timeout, a lease, a TTL, a lock, an age, a silence) are rounded up to whole
// microseconds, except [StepRecord.Took], which is truncated.
//
// The store's clock is read in each call, between its beginning and its end, and each duration counts
// from that reading. A store that knows its server's time only between two bounds takes the earlier
// bound as the time of the call and for what is due, and counts durations from the later bound, which is
// at most a second later: nothing ends or begins before its time. [Store.Clock], [Claimed.Now] and
// [SchedulePage.Now] return that clock, exact to at least a millisecond.
//
// # Promises
//
// The comments of the methods cite these promises by number.
//
//	P1  Exclusive: no two valid leases for a run; every claim raises the epoch.
//	P2  Fenced: an old epoch changes nothing and gets ErrLeaseLost.
//	P3  Atomic: a commit is applied completely or not at all.
//	P4  Repeatable: a call that is sent again has no second effect and succeeds.
//	P5  No lost wake-up: an event between claim and sleep ends the sleep at once.
//	P6  Crash: a run whose lease expired is claimable by anyone; crashes are counted.
//	P7  Order: by priority, then due time, then first come, first served; limits may let later runs go first.
//	P8  One run holds a namespace's external id and suffix: while active, or for as long as it is kept.
//	P9  Children: a parent wakes when what it awaits is reached, not before, once.
//	P10 Schedules: at most one run for each schedule and fire time.
//	P11 Cancel: a run that is not running and has recorded nothing is final at once; children follow.
//	P12 Payloads are opaque: any bytes, nil, empty; too large stores nothing.
//	P13 Time: nothing is claimed, woken or fired before its time.
//	P14 Pages neither skip nor repeat a row that existed throughout.
//	P15 Namespaces never see each other.
//	P16 Errors are matched by identity, and say whether to try again.
//	P17 Signals are kept in order per run and name, and consumed once.
//	P18 The cost of a claim follows what is claimable, not what is stored.
//	P19 Pinned: only workers of its build claim a pinned run; any worker claims other runs.
//	P20 Given back: giving back a run whose history does not fit changes only its pin.
//	P21 Exact: there are never more leases under a limit and key than its concurrency permits.
//	P22 Rate: in every window of length w, a key gets at most burst + w x rate tokens.
//	P23 Fair: of the keys of a fair limit with work that could run, the least served is next.
//	P24 No leak: a permit ends in the write that ends its lease, whoever ends it and however.
//	P25 Answered: a signal is answered at most once, in a commit of the run that consumed it.
//	P26 Tags: a run has its tags from the write that sets them until it is deleted, and is found by them.
//	P27 Streams: a reader gets each item once, in order, and learns which items a later attempt has superseded.
//	P28 Debounce: a start replaces the run of its key that has not begun; no input is lost or executed twice.
//	P29 Trees: the counts of a run's descendants are exact, and of one moment.
//	P30 Audit: an action is recorded if and only if its effect is stored, in the same transaction, once.
//	P31 Outbox: a change of a run's status is stored with it, and delivered at least once, in order of the run.
//
// P1 to P4 are about what is recorded: nothing is recorded twice, and a worker whose lease has ended
// cannot change a record. They do not stop a process that does not know yet that its lease has ended;
// package workflow says what such a process may still do, under "What may be repeated".
//
// P18 holds for every call: a call reads nothing that does not concern it. What a claim, a start, an
// extension, a commit, a signal, a wake-up, a page of a list, a lookup, a cancel, a firing or a lock
// reads does not depend on whether there are a thousand or a million other runs, except for the height
// of an index. This is so whether the other runs sleep, wait, are final, paused, canceled or leased, or
// belong to other queues, workflows and namespaces, and however large their payloads are. The suite counts
// what is read, in rows, pages or keys, if the backend can report it. Keys at their limits, and the runs that wait behind them, add
// nothing to a claim either, and runs that are under no limit pay nothing for those that are.
//
// # Batches
//
// Methods that take several items return one result per item, in the order of the items. If the method
// itself returns an error, the error concerns the whole call, and there are no results. An item's own
// error is in its result and does not affect the other items.
//
// Cancel, Pause, Unpin and Restart find the runs of a call at one moment: of several runs that one
// create makes meanwhile, such a call finds all or none.
//
// If an item has an error, its other fields are zero, with two exceptions that describe the conflicting
// run: the ID of the run that Create found ([NewRun.Meets]), and the Status that Cancel, Pause and
// Restart found.
//
// # Pages
//
// Every method that lists rows takes a Limit and returns a page: the rows, and Next, which is passed to
// the next call. The listing ends when Next is empty or zero, and not before.
//
// Methods that list rows of a namespace, [Runs.List] and the other List methods, take Next
// as their Cursor. The cursor is opaque, belongs to its query, and works with every handle.
// [EncodeCursor] and [DecodeCursor] make cursors.
//
// Methods that list the parts of one run, [Runs.Steps], [Runs.Children], [Exporter.Sent] and [Streamer.ReadStream], take Next
// as their After: a place that callers may also know from elsewhere, a position or an ordinal. The row
// at that place need not exist any more.
//
// [Coordination.GetState] and [Coordination.Inbox] are not listings: they read several parts of a run at
// one moment, completely unless a limit is set, and their After names the last one seen.
//
// A page ends by count, Limit, and by bytes, [PageBytes] or the MaxBytes of the call. The first row is
// always returned, whatever its size.
//
// # Sizes
//
// A call has up to [MaxBatch] items, and a page up to [MaxPage] rows. There is no limit to the number of
// steps, keys, groups, signals and children of a run, to the generations of its children, or to the
// number of lanes of a namespace. Counts of type int go up to 1<<31-1 (a step or an import with a larger
// one is ErrInvalid), counts of type int64 use all of their bits, and durations go up to 250 years.
//
// # Names
//
// Names, external ids and suffixes are compared byte by byte wherever they are stored and looked up:
// case is not folded, Unicode is not normalized, spaces are not trimmed, and names are never treated as
// patterns. Lists by name are in the order of the names' bytes.
package store
