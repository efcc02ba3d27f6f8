package store

import "context"

// Tx is a transaction of the program's own on the database that holds the store.
// A backend's InTx makes one of a driver's transaction.
type Tx interface {
	// Backend is the name of the backend that made it, as in [Features].
	Backend() string
}

// Transactor is implemented by stores that can act inside a transaction of their
// database, together with the program's own writes ([Features].Transactions).
type Transactor interface {
	// Join returns the store inside tx: what it writes becomes visible and
	// durable when tx commits, with the program's writes, and is gone when it
	// rolls back; what it reads includes what tx has written. Hints go out at the
	// commit. Calls come one at a time, with none of the program's between; they
	// repeat nothing by themselves, and an error may mean that the transaction
	// can only be rolled back. Closing it does nothing. It fails with ErrInvalid
	// for a transaction of another backend.
	Join(tx Tx) (Store, error)
	// Begin begins a transaction in which a step's own writes and its record
	// become durable together, and leaves it in the variable that target points
	// to, of a type of the driver's. A type that the backend does not offer is
	// ErrUnsupported.
	Begin(ctx context.Context, target any) (Transaction, error)
	// Recorded reports whether a commit without a transition was applied. A
	// transaction that may still apply it is waited for. It fails with
	// ErrLeaseLost when the lease is not the run's present one, and when the commit
	// before it is missing ([CommitsMissing]).
	Recorded(ctx context.Context, namespace string, lease Lease, seq int64) (bool, error)
}

// Transaction is one that [Transactor.Begin] has begun.
type Transaction interface {
	// Commit applies c, which has no transition, inside the transaction and ends
	// it. All is durable when neither the error nor the result's Err is set. An
	// error that matches ErrOutcomeUnknown leaves open whether it is, which
	// [Transactor.Recorded] tells; after any other one nothing is. The FinishedAt of
	// c's steps is the time just before the end of the transaction, by the store's clock.
	Commit(ctx context.Context, namespace string, c Commit) (CommitResult, error)
	// Rollback undoes the transaction; after Commit it does nothing.
	Rollback()
}
