package store

import "context"

// Tx is a transaction of the program's own on the store's database. A backend's InTx makes one from
// a driver's transaction.
type Tx interface {
	// Backend is the name of the backend that made it, as in [Features].
	Backend() string
}

// Transactor is implemented by stores that can act inside a transaction of their
// database, together with the program's own writes ([Features].Transactions).
type Transactor interface {
	// Join returns the store inside tx. Its writes become visible and durable when tx commits,
	// together with the program's writes, and are discarded when tx rolls back. Its reads include
	// what tx has written. Steps and Inbox read at one moment only if all of tx does, not if its
	// statements see what others commit in between. Hints are sent at the commit.
	//
	// Calls must be sequential, and the program must not use the transaction during a call. The
	// store repeats nothing by itself, and an error may mean that the transaction can only be
	// rolled back. Closing the store inside tx does nothing. Join fails with ErrInvalid for a
	// transaction of another backend.
	Join(tx Tx) (Store, error)
	// Begin begins a transaction in which a step's own writes and its record become durable
	// together. It stores the transaction in the variable that target points to, which has a type
	// of the driver. A type that the backend does not offer is ErrUnsupported.
	Begin(ctx context.Context, target any) (Transaction, error)
	// Recorded reports whether a commit without a transition was applied. It waits for a
	// transaction that may still apply it. It fails with ErrLeaseLost if the lease is not the run's
	// present one, and if the commit before it is missing ([CommitsMissing]).
	Recorded(ctx context.Context, namespace string, lease Lease, seq int64) (bool, error)
}

// Transaction is a transaction that [Transactor.Begin] has begun.
type Transaction interface {
	// Commit applies c, which has no transition, inside the transaction and ends it. Everything is
	// durable if neither the error nor the result's Err is set. After an error that matches
	// ErrOutcomeUnknown, it may or may not be durable; ask [Transactor.Recorded]. After any other
	// error nothing is. The FinishedAt of c's steps is the time just before the end of the
	// transaction, by the store's clock. Hints are sent once everything is durable, and not before.
	//
	// P2: under a lease that is not the run's present one, for whatever reason, neither the step's
	// own writes nor its record become durable: ErrLeaseLost.
	Commit(ctx context.Context, namespace string, c Commit) (CommitResult, error)
	// Rollback undoes the transaction; after Commit it does nothing.
	Rollback()
}
