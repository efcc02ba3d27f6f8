package storekit_test

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// A backend loads a run, applies the rules, and saves the run with its indexes, in one
// transaction.
func Example() {
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	r := storekit.New("shop", &store.NewRun{ID: store.NewID(), Workflow: "order", Queue: "mail"}, now)
	fmt.Println(r.Status, r.Claimable())

	lease := r.Lease("worker-1", "", time.Minute, 0, now)
	fmt.Println(r.Status, r.VisibleAt.Sub(now))

	c := store.Commit{Lease: lease, Seq: 1, Transition: &store.Transition{Kind: store.Sleep, After: time.Hour}}
	if _, err := r.Fence(&c); err != nil {
		panic(err)
	}
	unseen := r.Begin(&c)
	r.Transition(c.Transition, unseen, func(string) store.Group { return store.Group{} }, now)
	fmt.Println(r.Status, r.VisibleAt.Sub(now))

	repeated, err := r.Fence(&c) // the answer was lost, and the commit is sent again
	fmt.Println(repeated, err)
	// Output:
	// pending true
	// running 1m0s
	// sleeping 1h0m0s
	// true <nil>
}
