package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// The life of a run, as the engine and a worker control it: it is created, leased by a claim, and
// ended by a commit under that lease.
func Example() {
	ctx := context.Background()
	var st store.Store
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	id := store.NewID()
	_, err = st.Create(ctx, store.CreateParams{
		Namespace: "shop",
		Runs:      []store.NewRun{{ID: id, Workflow: "ship", Queue: "ship", Input: []byte("a lamp")}},
	})
	if err != nil {
		log.Fatal(err)
	}

	claimed, err := st.Claim(ctx, store.ClaimParams{
		Namespace: "shop",
		Worker:    "worker-1",
		Demands:   []store.Demand{{Queue: "ship", Workflows: []string{"ship"}, Max: 10}},
		LeaseFor:  time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	mine := claimed.Runs[0]
	fmt.Println(mine.Run.Status, string(mine.Run.Input))

	done := store.Commit{
		Lease:      mine.Lease,
		Seq:        1,
		Transition: &store.Transition{Kind: store.CompleteRun, Output: []byte("shipped")},
	}
	for range 2 { // the answer was lost, and the commit is sent again
		res, err := st.Commit(ctx, store.CommitParams{Namespace: "shop", Commits: []store.Commit{done}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res[0].Err)
	}

	runs, err := st.Get(ctx, store.GetParams{Namespace: "shop", IDs: []store.ID{id}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runs[0].Status, string(runs[0].Output))
	// Output:
	// running a lamp
	// <nil>
	// <nil>
	// completed shipped
}

// If an ID is derived from what a request is about, the request can be sent again after a lost
// answer without a second effect.
func ExampleDeriveID() {
	order := store.NewID()
	a, b := store.DeriveID(order, "invoice"), store.DeriveID(order, "invoice")
	fmt.Println(a == b, a == store.DeriveID(order, "reminder"))
	// Output:
	// true false
}

// Errors are matched by identity. Two of them say that the same request may be sent again.
func ExampleRetryable() {
	lost := fmt.Errorf("commit: %w", store.ErrOutcomeUnknown)
	fmt.Println(store.Retryable(lost), store.Retryable(store.ErrConflict))

	var wrong *store.InvalidError
	err := store.ValidateName("queue", "")
	fmt.Println(errors.Is(err, store.ErrInvalid), errors.As(err, &wrong), wrong.Field)
	// Output:
	// true false
	// true true queue
}
