// Package exec runs one claimed run: it replays what is recorded, executes what
// is not, and ends the lease with the run's transition. It knows nothing of Go
// types (package workflow does) and nothing of claiming (package worker does).
//
// An [Invocation] is one lease's execution of a run. It ties together small types, each with
// one responsibility:
//
//	history   what is recorded, and what the code has not come to yet    history.go
//	outbox    what the next commit carries, and the commits' numbers     outbox.go
//	inbox     signals, flow state and counts of children that were read  inbox.go
//	presence  what the goroutines wait for: may the run leave memory?    presence.go
//	ending    why and how the execution ends                             ending.go
//
// They take no lock and make no calls. The invocation has the lock (lock.go) and does what
// they decide: it commits (commit.go), looks at the inbox (look.go), waits (wait.go), reads
// the history (replay.go) and ends the lease (conclude.go).
//
// Every durable operation is written with the function durable (operation.go), which owns the
// lock and the replay. The shortest one is [Branch.Sleep]. docs/architecture.md has "The
// walk of a step"; operation_test.go shows what a run executes and commits, in order.
package exec
