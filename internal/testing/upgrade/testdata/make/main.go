// This program makes a fixture. It is built with commit 5e1c7c8 (see ../README.md), makes
// runs of every status in the database that the first argument names, and dies while it
// holds leases.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"

	"github.com/pawlhq/pawl/internal/flows"
)

func main() {
	ctx := context.Background()
	st, err := backends.Open(ctx, os.Args[1])
	must(err)
	eng := engine.New(st)
	f := flows.New(10 * time.Second)
	f.Hang = make(chan struct{})
	w := worker.New(eng, worker.Lease(2*time.Second), worker.Name("old"))
	must(w.Register(f.All()...))
	go func() { _ = w.Run(ctx) }()

	approved, err := f.Approval.Start(ctx, eng, "approved", engine.ID("completed"))
	must(err)
	must(flows.Go.Send(ctx, eng, approved.ID(), "anne"))
	_, err = approved.Result(ctx)
	must(err)
	faulty, err := f.Faulty.Start(ctx, eng, "faulty", engine.ID("failed"))
	must(err)
	_, _ = faulty.Result(ctx)

	_, err = f.Blocked.Start(ctx, eng, "running", engine.ID("running"))
	must(err)
	canceling, err := f.Blocked.Start(ctx, eng, "canceling", engine.ID("canceling"))
	must(err)
	until(func() bool { return f.Made.Of("blocked/running/hang")+f.Made.Of("blocked/canceling/hang") == 2 })
	must(eng.Cancel(ctx, canceling.ID(), "not wanted"))

	_, err = f.Order.Start(ctx, eng, "sleeping", engine.ID("sleeping"))
	must(err)
	_, err = f.Parent.Start(ctx, eng, []string{"a", "b", "c"}, engine.ID("parent"))
	must(err)
	_, err = f.Approval.Start(ctx, eng, "waiting", engine.ID("waiting"))
	must(err)
	paused, err := f.Approval.Start(ctx, eng, "paused", engine.ID("paused"))
	must(err)
	for _, step := range []string{"order/sleeping/charged", "item/a/made", "item/b/made", "item/c/made", "approval/waiting/asked", "approval/paused/asked"} {
		until(func() bool { return f.Made.Of(step) == 1 })
	}
	until(func() bool {
		counts, err := eng.Count(ctx, store.RunFilter{Statuses: []store.Status{store.Sleeping}})
		must(err)
		n := int64(0)
		for _, c := range counts {
			n += c.Count
		}
		return n == 7
	})
	must(eng.Pause(ctx, paused.ID()))
	must(flows.Go.Send(ctx, eng, paused.ID(), "bert"))

	// The worker does not take these: its workflow is paused.
	must(eng.PauseWorkflow(ctx, "order"))
	_, err = f.Order.Start(ctx, eng, "pending", engine.ID("pending"))
	must(err)
	canceled, err := f.Order.Start(ctx, eng, "canceled", engine.ID("canceled"))
	must(err)
	must(eng.Cancel(ctx, canceled.ID(), "not wanted either"))
	_, err = f.Order.Schedule(ctx, eng, "nightly", "0 3 * * *", "scheduled")
	must(err)
	os.Exit(0) // as a crash: leases stay
}

func until(held func() bool) {
	for !held() {
		time.Sleep(10 * time.Millisecond)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
