package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// serve runs a worker for the workflows on a new database in memory. It returns an engine
// on that database, and a function that stops both.
func serve(defs ...workflow.Definition) (eng *engine.Engine, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	eng = engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	w := worker.New(eng)
	if err := w.Register(defs...); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	return eng, func() {
		cancel()
		<-stopped
		eng.Close()
		st.Close()
	}
}

type Decision struct {
	Yes bool
	By  string
}

// Decided is sent by the program that shows the buttons.
var Decided = workflow.NewSignal[Decision]("decided")

// Approval waits for a decision, for months if necessary.
var Approval = workflow.New("approval", func(ctx workflow.Context, what string) (string, error) {
	d, err := Decided.Receive(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %t, says %s", what, d.Yes, d.By), nil
})

// A signal is a message to a run, with a payload of a type.
func ExampleSignal() {
	eng, stop := serve(Approval)
	defer stop()
	ctx := context.Background()

	h, err := Approval.Start(ctx, eng, "holidays")
	if err != nil {
		log.Fatal(err)
	}
	if err := Decided.Send(ctx, eng, h.ID(), Decision{Yes: true, By: "Ann"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// holidays: true, says Ann <nil>
}

// The sender of the signal knows the order, and need not know the run.
func ExampleSignal_SendTo() {
	eng, stop := serve(Approval)
	defer stop()
	ctx := context.Background()

	h, err := Approval.Start(ctx, eng, "order 42", engine.ExternalID("order-42"))
	if err != nil {
		log.Fatal(err)
	}
	if err := Decided.SendTo(ctx, eng, "order-42", Decision{Yes: false, By: "Bob"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// order 42: false, says Bob <nil>
}

// One order has several runs, which differ by their suffix.
func ExampleSendSuffix() {
	eng, stop := serve(Approval)
	defer stop()
	ctx := context.Background()

	if _, err := Approval.Start(ctx, eng, "order 42 in Rome", engine.ExternalID("order-42"), engine.Suffix("rome")); err != nil {
		log.Fatal(err)
	}
	if err := Decided.SendTo(ctx, eng, "order-42", Decision{Yes: true, By: "Bob"}, workflow.SendSuffix("rome")); err != nil {
		log.Fatal(err)
	}
	_, err := Approval.Find(ctx, eng, "order-42")
	fmt.Println("without the suffix there is none:", errors.Is(err, store.ErrNotFound))
	h, err := Approval.Find(ctx, eng, "order-42", engine.FindSuffix("rome"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// without the suffix there is none: true
	// order 42 in Rome: true, says Bob <nil>
}

// A program that has a run's handle signals the run, reads its state and cancels it without the
// engine and the run's ID.
func ExampleHandle() {
	visits := workflow.NewState[int]("visits")
	visit := workflow.NewSignal[string]("visit")
	museum := workflow.New("museum", func(ctx workflow.Context, _ string) (int, error) {
		for n := 1; ; n++ {
			if _, err := visit.Receive(ctx); err != nil {
				return n, err
			}
			if err := visits.Set(ctx, n); err != nil {
				return n, err
			}
		}
	})
	eng, stop := serve(museum)
	defer stop()
	ctx := context.Background()

	run, err := museum.Start(ctx, eng, "")
	if err != nil {
		log.Fatal(err)
	}
	for _, who := range []string{"Ann", "Bob"} {
		if err := run.Signal(ctx, visit.With(who), workflow.SendKey(who)); err != nil {
			log.Fatal(err)
		}
	}
	if err := workflow.WaitForState(run.State(ctx), "two visits", func(r workflow.FlowStateReader) (bool, error) {
		n, _, err := visits.Read(r)
		return n == 2, err
	}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(visits.Get(run.State(ctx)))
	if err := run.Cancel(ctx, "the museum closes"); err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	fmt.Println("canceled:", errors.Is(err, engine.ErrCanceled))
	// Output:
	// 2 true <nil>
	// canceled: true
}

// A wait that ends if nothing has arrived in time.
func ExampleSignal_ReceiveTimeout() {
	patient := workflow.New("patient", func(ctx workflow.Context, limit time.Duration) (string, error) {
		d, err := Decided.ReceiveTimeout(ctx, limit)
		if errors.Is(err, workflow.ErrTimeout) {
			return "nobody has answered", nil
		}
		return d.By, err
	})
	eng, stop := serve(patient)
	defer stop()
	ctx := context.Background()

	h, err := patient.Start(ctx, eng, 5*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// nobody has answered <nil>
}

// A button that is pressed twice sends one signal.
func ExampleSendKey() {
	poll := workflow.New("poll", func(ctx workflow.Context, votes int) (by []string, err error) {
		for range votes {
			d, err := Decided.Receive(ctx)
			if err != nil {
				return nil, err
			}
			by = append(by, d.By)
		}
		return by, nil
	})
	eng, stop := serve(poll)
	defer stop()
	ctx := context.Background()

	h, err := poll.Start(ctx, eng, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, by := range []string{"Ann", "Ann", "Bob"} {
		if err := Decided.Send(ctx, eng, h.ID(), Decision{By: by}, workflow.SendKey("vote of "+by)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// [Ann Bob] <nil>
}

// The first of several signals, or a time that has passed.
func ExampleSelect() {
	withdrawn := workflow.NewSignal[string]("withdrawn")
	request := workflow.New("request", func(ctx workflow.Context, limit time.Duration) (string, error) {
		var decision Decision
		var why string
		chosen, err := workflow.Select(ctx, "answer", Decided.Into(&decision), withdrawn.Into(&why), workflow.Timer(limit))
		if err != nil {
			return "", err
		}
		switch chosen {
		case 0:
			return "decided by " + decision.By, nil
		case 1:
			return "withdrawn: " + why, nil
		default:
			return "nobody has answered", nil
		}
	})
	eng, stop := serve(request)
	defer stop()
	ctx := context.Background()

	h, err := request.Start(ctx, eng, 24*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	if err := withdrawn.Send(ctx, eng, h.ID(), "too expensive"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))

	h, err = request.Start(ctx, eng, time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// withdrawn: too expensive <nil>
	// nobody has answered <nil>
}

// A step reports its progress, and a program outside reads it.
func ExampleState() {
	copied := workflow.NewState[int]("copied")
	backup := workflow.New("backup", func(ctx workflow.Context, files int) (string, error) {
		return workflow.Step(ctx, "copy", func(ctx context.Context) (string, error) {
			for i := range files {
				if err := copied.Set(workflow.InStep(ctx), i+1); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	})
	eng, stop := serve(backup)
	defer stop()
	ctx := context.Background()

	h, err := backup.Start(ctx, eng, 7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	fmt.Println(copied.Get(workflow.OfRun(ctx, eng, h.ID())))
	// Output:
	// done <nil>
	// 7 true <nil>
}

// Two writers of the same key do not overwrite each other: the second one reads again.
func ExampleState_CompareAndSet() {
	eng, stop := serve(Approval)
	defer stop()
	ctx := context.Background()
	h, err := Approval.Start(ctx, eng, "budget")
	if err != nil {
		log.Fatal(err)
	}
	votes := workflow.NewState[int]("votes")
	state := workflow.OfRun(ctx, eng, h.ID())

	n, version, err := votes.GetVersion(state)
	if err != nil {
		log.Fatal(err)
	}
	_, err = votes.CompareAndSet(state, version, n+1)
	fmt.Println(err)
	_, err = votes.CompareAndSet(state, version, n+1) // by somebody who has read the same version
	fmt.Println(errors.Is(err, store.ErrConflict))
	// Output:
	// <nil>
	// true
}

// A run waits until its flow state satisfies a condition. It sleeps meanwhile.
func ExampleWaitForState() {
	offset := workflow.NewState[int]("offset")
	follower := workflow.New("follower", func(ctx workflow.Context, target int) (string, error) {
		err := workflow.WaitForState(ctx, "caught up", func(r workflow.FlowStateReader) (bool, error) {
			at, _, err := offset.Read(r)
			return at >= target, err
		})
		return "caught up", err
	})
	eng, stop := serve(follower)
	defer stop()
	ctx := context.Background()

	h, err := follower.Start(ctx, eng, 3)
	if err != nil {
		log.Fatal(err)
	}
	for at := range 3 {
		if err := offset.Set(workflow.OfRun(ctx, eng, h.ID()), at+1); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// caught up <nil>
}

// A run that is canceled releases what it has acquired.
func ExampleCleanup() {
	booked := workflow.NewState[bool]("booked")
	trip := workflow.New("trip", func(ctx workflow.Context, city string) (string, error) {
		if err := workflow.Do(ctx, "book", func(context.Context) error {
			fmt.Println("booked a room in", city)
			return nil
		}); err != nil {
			return "", err
		}
		err := booked.Set(ctx, true)
		if err == nil {
			_, err = Decided.Receive(ctx)
		}
		if err != nil {
			return "", errors.Join(err, workflow.Cleanup(ctx, time.Minute, func(ctx workflow.Context) error {
				return workflow.Do(ctx, "cancel booking", func(context.Context) error {
					fmt.Println("canceled the room in", city)
					return nil
				})
			}))
		}
		return "on the way to " + city, nil
	})
	eng, stop := serve(trip)
	defer stop()
	ctx := context.Background()

	h, err := trip.Start(ctx, eng, "Bergen")
	if err != nil {
		log.Fatal(err)
	}
	state := workflow.OfRun(ctx, eng, h.ID())
	err = workflow.WaitForState(state, "booked", func(r workflow.FlowStateReader) (bool, error) {
		is, _, err := booked.Read(r)
		return is, err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := eng.Cancel(ctx, h.ID(), "the traveler is ill"); err != nil {
		log.Fatal(err)
	}
	_, err = h.Result(ctx)
	fmt.Println("the run is canceled:", errors.Is(err, engine.ErrCanceled))
	// Output:
	// booked a room in Bergen
	// canceled the room in Bergen
	// the run is canceled: true
}

// A program that starts runs needs the workflow's name and types, and not its function.
func ExampleRef() {
	eng, stop := serve(Approval) // elsewhere
	defer stop()
	ctx := context.Background()

	approval := workflow.Ref[string, string]("approval")
	h, err := approval.Start(ctx, eng, "a new desk")
	if err != nil {
		log.Fatal(err)
	}
	if err := Decided.Send(ctx, eng, h.ID(), Decision{Yes: true, By: "Ann"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// a new desk: true, says Ann <nil>
}

// The start uses an external id. Another program finds the run by it.
func ExampleReference_Find() {
	eng, stop := serve(Approval)
	defer stop()
	ctx := context.Background()

	approval := workflow.Ref[string, string]("approval")
	started, err := approval.Start(ctx, eng, "a new desk", engine.ExternalID("desk-7"))
	if err != nil {
		log.Fatal(err)
	}
	found, err := approval.Find(ctx, eng, "desk-7")
	fmt.Println(found.ID() == started.ID(), err)
	// Output:
	// true <nil>
}

// A program without the workflow's function puts the schedule; a worker elsewhere runs the reports.
func ExampleReference_Schedule() {
	eng, stop := serve(workflow.New("report", func(workflow.Context, string) (string, error) { return "done", nil }))
	defer stop()

	report := workflow.Ref[string, string]("report")
	s, err := report.Schedule(context.Background(), eng, "nightly", "30 2 * * *", "full", engine.ScheduleTimeZone("Europe/Berlin"))
	fmt.Println(s.Workflow, string(s.Input), err)
	// Output:
	// report "full" <nil>
}

// Many runs with few writes, and all of their results.
func ExampleWorkflow_StartMany() {
	double := workflow.New("double", func(ctx workflow.Context, n int) (int, error) { return 2 * n, nil })
	eng, stop := serve(double)
	defer stop()
	ctx := context.Background()

	handles, err := double.StartMany(ctx, eng, []workflow.Each[int]{
		{In: 1},
		{In: 2, Options: []engine.StartOption{engine.Priority(10)}},
		{In: 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(workflow.Results(ctx, handles))
	// Output:
	// [2 4 6] <nil>
}

// A new version gets new runs. Runs of the old version end with the code that they began with.
func ExampleVersion() {
	one := workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	two := workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
		return "Welcome back, " + name, nil
	}, workflow.Version("2"))
	eng, stop := serve(one, two)
	defer stop()
	ctx := context.Background()

	h, err := two.Start(ctx, eng, "Ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.Name(), two.Name())
	fmt.Println(h.Result(ctx))
	// Output:
	// greet greet@2
	// Welcome back, Ann <nil>
}

// Inputs are collected until there are three of them, or until a time is over.
func ExampleSignal_ReceiveMany() {
	clicks := workflow.NewSignal[string]("click")
	collect := workflow.New("collect", func(ctx workflow.Context, within time.Duration) ([]string, error) {
		return clicks.ReceiveMany(ctx, 3, within)
	})
	eng, stop := serve(collect)
	defer stop()
	ctx := context.Background()

	h, err := collect.Start(ctx, eng, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	for _, page := range []string{"home", "prices", "order"} {
		if err := clicks.Send(ctx, eng, h.ID(), page); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// [home prices order] <nil>
}
