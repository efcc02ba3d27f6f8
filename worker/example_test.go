package worker_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Greet is the workflow that the worker serves.
var Greet = workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
	return "Hello, " + name, nil
})

// A worker runs until its context ends, here at a signal of the operating system. Then it
// lets running steps finish, for as long as Grace allows, and gives back the rest.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()

	w := worker.New(eng,
		worker.Concurrency(50),       // runs at the same time
		worker.Lease(30*time.Second), // a run of a dead worker goes on elsewhere after that
		worker.Grace(10*time.Second))
	if err := w.Register(Greet); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	h, err := Greet.Start(ctx, eng, "Ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	stop() // as the signal does
	fmt.Println("stopped:", <-stopped)
	// Output:
	// Hello, Ann <nil>
	// stopped: <nil>
}
