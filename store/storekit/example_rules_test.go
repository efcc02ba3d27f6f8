package storekit_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// pending makes a run that waits for a worker.
func pending(id string, priority int, visible time.Time) *storekit.Run {
	return storekit.New("shop", &store.NewRun{ID: store.NewID(), Workflow: "order", Queue: "order", Priority: priority, ExternalID: id}, visible)
}

// Claims take runs by priority, and then by the time from which they wait.
func ExampleCompareClaims() {
	noon := time.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC)
	runs := []*storekit.Run{
		pending("later", 0, noon.Add(time.Minute)),
		pending("urgent", 10, noon.Add(time.Hour)),
		pending("first", 0, noon),
	}
	slices.SortFunc(runs, storekit.CompareClaims)
	for _, r := range runs {
		fmt.Println(r.ExternalID)
	}
	// Output:
	// urgent
	// first
	// later
}

// A claim takes as many runs as each demand has room for.
func ExampleClaim() {
	c := storekit.NewClaim(&store.ClaimParams{
		Demands: []store.Demand{
			{Queue: "mail", Workflows: []string{"mail"}, Max: 2},
			{Queue: "scan", Workflows: []string{"scan"}, Max: 1},
		},
	})
	mail, scan := storekit.Lane{Queue: "mail", Workflow: "mail"}, storekit.Lane{Queue: "scan", Workflow: "scan"}
	for _, lane := range []storekit.Lane{mail, mail, mail, scan} {
		fmt.Println(lane.Workflow, c.Take(lane, 100))
	}
	fmt.Println("full:", c.Full())
	// Output:
	// mail true
	// mail true
	// mail false
	// scan true
	// full: true
}

// A page ends at a number of items, or of bytes.
func ExampleCollect() {
	items := []string{"one", "two", "three", "four"}
	size := func(s *string) int { return len(*s) }
	fmt.Println(storekit.Collect(slices.Values(items), 3, storekit.UpTo(1000), size))
	fmt.Println(storekit.Collect(slices.Values(items), 3, storekit.UpTo(8), size))
	fmt.Println(storekit.Collect(slices.Values(items), 10, storekit.UpTo(1000), size))
	// Output:
	// [one two three] true
	// [one two] true
	// [one two three four] false
}

// Keys of a database that orders them by their bytes, for example the index of claims.
func ExampleOrderedKey() {
	index := storekit.OrderedKey{'c'}.Name("shop").Name("order")
	noon := time.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC)
	keys := []string{
		string(index.Priority(0).Time(noon)),
		string(index.Priority(10).Time(noon.Add(time.Hour))),
		string(index.Priority(0).Time(noon.Add(-time.Hour))),
	}
	first := slices.Min(keys)
	fmt.Println(slices.Index(keys, first), first > string(index), first < string(index.End()))
	// Output:
	// 1 true true
}

// A lease that ran out counts as a crash of the run, and an old lease changes nothing.
func ExampleRun_Lease() {
	now := time.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC)
	r := pending("order-42", 0, now)
	old := r.Lease("worker-1", "", time.Minute, 0, now)
	now = now.Add(2 * time.Minute)
	r.Lease("worker-2", "", time.Minute, 0, now)
	fmt.Println(r.Crashes, r.Worker)
	fmt.Println("lost:", r.Extend(old, time.Minute, now).Lost)
	// Output:
	// 1 worker-2
	// lost: true
}
