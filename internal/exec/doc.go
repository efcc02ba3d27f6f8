// Package exec runs one claimed run: it replays what is recorded, executes what
// is not, and ends the lease with the run's transition. It knows nothing of Go
// types (package workflow does) and nothing of claiming (package worker does).
package exec
