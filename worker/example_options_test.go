package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// open returns an engine on a new database in memory, and what closes it.
func open() (eng *engine.Engine, closeAll func()) {
	st, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	eng = engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	return eng, func() {
		eng.Close()
		st.Close()
	}
}

// mail sends a mail.
var mail = workflow.New("mail", func(ctx workflow.Context, to string) (string, error) {
	return workflow.Step(ctx, "send", func(ctx context.Context) (string, error) { return "sent to " + to, nil })
})

// A program that runs by the request or by the clock does what there is to do and ends.
// It learns when it is to be started again.
func ExampleWorker_RunUntilIdle() {
	eng, closeAll := open()
	defer closeAll()
	ctx := context.Background()
	remind := workflow.New("remind", func(ctx workflow.Context, _ struct{}) (string, error) {
		return "reminded", workflow.Sleep(ctx, "a day", 24*time.Hour)
	})
	w := worker.New(eng)
	if err := w.Register(remind); err != nil {
		log.Fatal(err)
	}
	h, err := remind.Start(ctx, eng, struct{}{})
	if err != nil {
		log.Fatal(err)
	}

	next, err := w.RunUntilIdle(ctx)
	if err != nil {
		log.Fatal(err)
	}
	status, err := h.Status(ctx)
	fmt.Println(status, err)
	fmt.Println("again in a day:", time.Until(next).Round(time.Hour) == 24*time.Hour)
	// Output:
	// sleeping <nil>
	// again in a day: true
}

// A worker takes its workflows from their own queues. Urgent runs go to another queue,
// which some workers serve as well.
func ExampleQueues() {
	eng, closeAll := open()
	defer closeAll()
	ctx := context.Background()
	w := worker.New(eng, worker.Queues("urgent"))
	if err := w.Register(mail); err != nil {
		log.Fatal(err)
	}
	h, err := mail.Start(ctx, eng, "ann", engine.Queue("urgent"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// sent to ann <nil>
}

// At most one run of a heavy workflow at a time in this worker. Others go on beside it.
func ExampleLimit() {
	eng, closeAll := open()
	defer closeAll()
	ctx := context.Background()
	var mu sync.Mutex
	var now, most int
	scan := workflow.New("scan", func(ctx workflow.Context, disk int) (int, error) {
		return workflow.Step(ctx, "scan", func(ctx context.Context) (int, error) {
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now += n
				most = max(most, now)
			}
			count(1)
			defer count(-1)
			return disk, nil
		})
	})
	w := worker.New(eng, worker.Concurrency(100), worker.Limit("scan", 1))
	if err := w.Register(scan); err != nil {
		log.Fatal(err)
	}
	for disk := range 5 {
		if _, err := scan.Start(ctx, eng, disk); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("at the same time:", most)
	// Output:
	// at the same time: 1
}

// A function around every attempt of every step: for measurements, or for stubs in tests.
func ExampleWrapSteps() {
	eng, closeAll := open()
	defer closeAll()
	ctx := context.Background()
	w := worker.New(eng, worker.WrapSteps(func(ctx context.Context, call worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
		out, err := next(ctx)
		fmt.Println(call.Workflow, call.Key, call.Attempt, string(out), err)
		return out, err
	}))
	if err := w.Register(mail); err != nil {
		log.Fatal(err)
	}
	if _, err := mail.Start(ctx, eng, "ann"); err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// mail send 1 "sent to ann" <nil>
}

// A new build takes a tenth of the new runs, and leaves the others to workers of other builds.
func ExampleShare() {
	eng, closeAll := open()
	defer closeAll()
	ctx := context.Background()
	w := worker.New(eng, worker.Build("v1.4.2"), worker.Share(0.1))
	if err := w.Register(mail); err != nil {
		log.Fatal(err)
	}
	h, err := mail.Start(ctx, eng, "ann")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil { // no other build is online, so it takes all
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// sent to ann <nil>
}

// For a readiness probe.
func ExampleWorker_Healthy() {
	eng, closeAll := open()
	defer closeAll()
	w := worker.New(eng)
	fmt.Println(errors.Is(w.Healthy(), worker.ErrNotRunning))
	// Output:
	// true
}

// What operators see of a worker.
func ExampleLabel() {
	eng, closeAll := open()
	defer closeAll()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w := worker.New(eng, worker.ID("mailer-1"), worker.Label("zone", "eu"))
	if err := w.Register(mail); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	h, err := mail.Start(ctx, eng, "ann")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Result(ctx); err != nil { // it has registered by now
		log.Fatal(err)
	}

	workers, err := eng.Workers(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(workers[0].ID, workers[0].Labels)
	stop()
	<-stopped
	// Output:
	// mailer-1 map[zone:eu]
}
