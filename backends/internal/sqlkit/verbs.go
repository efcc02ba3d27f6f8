package sqlkit

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// DB is what the shared verbs need from a backend.
type DB interface {
	Dialect() Dialect
	// Read runs the list on one snapshot. It checks the context even if the list is empty.
	Read(ctx context.Context, stmts ...Stmt) error
	// Write runs the list as one atomic write. An attempt that is repeated reads its rows
	// again.
	Write(ctx context.Context, stmts ...Stmt) error
	// Moment returns the arguments "now" and "late" of a call: the time that the caller has set, or
	// the present, and a time that is not before the present. Durations are counted from late.
	Moment(ctx context.Context, set time.Time) (now, late any, err error)
	// Publish sends hints after the write that caused them.
	Publish(ctx context.Context, hints ...store.Hint)
	// ID returns the argument for an ID, which may be zero.
	ID(id store.ID) any
	// Blob returns a destination for bytes that distinguishes NULL and empty.
	Blob(dst *[]byte) any
	Limits() store.Limits
}

// Verbs are the verbs of the contract that work the same way on each SQL database. Each backend
// implements the hot verbs, and those in which the databases differ, itself.
type Verbs struct{ db DB }

// NewVerbs returns the verbs on a database.
func NewVerbs(db DB) Verbs { return Verbs{db} }

// read runs one statement on a snapshot of its own.
func (v Verbs) read(ctx context.Context, q *Query, args Args, rows func(Scan) error) error {
	return v.db.Read(ctx, q.stmt(v.db, args, rows))
}

// write runs one statement without rows, and returns how many rows it has changed.
func (v Verbs) write(ctx context.Context, q *Query, args Args) (changed int64, err error) {
	st := q.stmt(v.db, args, nil)
	st.Affected = &changed
	err = v.db.Write(ctx, st)
	return changed, err
}

// moment returns the moment of a call, if its parameters are valid.
func (v Verbs) moment(ctx context.Context, invalid error, set time.Time) (now, late any, err error) {
	if invalid != nil {
		return nil, nil, invalid
	}
	return v.db.Moment(ctx, set)
}

var findRow = NewQuery("find run", `SELECT 1 FROM pawl.runs r WHERE r.id=:run AND r.namespace=:namespace`)

// exists returns a statement that asks whether the namespace has the run.
func (v Verbs) exists(namespace string, run store.ID, found *bool) Stmt {
	return findRow.stmt(v.db, Args{{"run", run}, {"namespace", namespace}}, func(Scan) error { *found = true; return nil })
}
