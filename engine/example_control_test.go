package engine_test

import (
	"bytes"
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

// A program has an engine and workflows, whose runs the examples execute step by step.
type program struct {
	eng  *engine.Engine
	st   *sqlite.Store
	defs []workflow.Definition
}

// open makes a program on a new database in memory.
func open(defs ...workflow.Definition) *program { return openWith(nil, defs...) }

// openWith makes a program whose engine has options.
func openWith(opts []engine.Option, defs ...workflow.Definition) *program {
	st, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	p := &program{eng: engine.New(st, append(opts, engine.Logger(slog.New(slog.DiscardHandler)))...), st: st, defs: defs}
	p.worker()
	return p
}

// worker makes a worker that has the workflows.
func (p *program) worker() *worker.Worker {
	w := worker.New(p.eng)
	if err := w.Register(p.defs...); err != nil {
		log.Fatal(err)
	}
	return w
}

// work does what there is to do now, and returns when there will be more.
func (p *program) work() (next time.Time) {
	next, err := p.worker().RunUntilIdle(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	return next
}

func (p *program) status(id store.ID) store.Status {
	run, err := p.eng.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	return run.Status
}

func (p *program) close() {
	p.eng.Close()
	p.st.Close()
}

// charge charges, unless the card is blocked.
func charge(blocked *bool) *workflow.Workflow[int, string] {
	return workflow.New("charge", func(ctx workflow.Context, cents int) (string, error) {
		id, err := workflow.Step(ctx, "reserve", func(ctx context.Context) (string, error) { return "reservation 7", nil })
		if err != nil {
			return "", err
		}
		return workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			if *blocked {
				return "", workflow.Permanent(workflow.Coded("blocked", errors.New("the card is blocked")))
			}
			return fmt.Sprintf("%d cents for %s", cents, id), nil
		})
	})
}

// A start with an external id may be repeated. It makes one run.
func ExampleExternalID() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	for range 2 {
		h, err := wf.Start(ctx, p.eng, 500, engine.ExternalID("order-42"))
		if err != nil {
			log.Fatal(err)
		}
		p.work()
		out, err := h.Result(ctx)
		fmt.Println(h.Existing(), out, err)
	}
	_, err := wf.Start(ctx, p.eng, 700, engine.ExternalID("order-42"))
	fmt.Println("another input:", errors.Is(err, store.ErrConflict))
	// Output:
	// false 500 cents for reservation 7 <nil>
	// true 500 cents for reservation 7 <nil>
	// another input: true
}

// A run that begins later.
func ExampleDelay() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500, engine.Delay(24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	next := p.work()
	fmt.Println(p.status(h.ID()), time.Until(next) > 23*time.Hour)
	// Output:
	// pending true
}

func ExampleEngine_Cancel() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.eng.Cancel(ctx, h.ID(), "ordered by mistake"); err != nil {
		log.Fatal(err)
	}
	_, err = h.Result(ctx)
	fmt.Println(p.status(h.ID()), errors.Is(err, engine.ErrCanceled))
	// Output:
	// canceled true
}

// Every run that a filter selects.
func ExampleEngine_CancelMany() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	for cents := range 5 {
		if _, err := wf.Start(ctx, p.eng, cents, engine.Delay(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}
	done, err := p.eng.CancelMany(ctx, store.RunFilter{Workflow: "charge"}, "the shop is closed")
	fmt.Println(done.Done, err)
	// Output:
	// 5 <nil>
}

func ExampleEngine_Pause() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.eng.Pause(ctx, h.ID()); err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(p.status(h.ID()))

	if err := p.eng.Resume(ctx, h.ID()); err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(p.status(h.ID()))
	// Output:
	// paused
	// completed
}

// Starts go on while a queue is paused; its runs wait.
func ExampleEngine_PauseQueue() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	if err := p.eng.PauseQueue(ctx, "charge"); err != nil { // a workflow's queue has its name
		log.Fatal(err)
	}
	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(p.status(h.ID()))

	if err := p.eng.ResumeQueue(ctx, "charge"); err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(p.status(h.ID()))
	// Output:
	// pending
	// completed
}

// A failed run goes on from what it has completed.
func ExampleEngine_Restart() {
	blocked := true
	wf := charge(&blocked)
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(p.status(h.ID()))

	blocked = false
	if err := p.eng.Restart(ctx, h.ID()); err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println(h.Result(ctx))
	// Output:
	// failed
	// 500 cents for reservation 7 <nil>
}

// A new run takes over what another one had done before a step.
func ExampleEngine_Fork() {
	blocked := true
	wf := charge(&blocked)
	p := open(wf)
	defer p.close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	blocked = false
	f, err := p.eng.Fork(ctx, h.ID(), engine.FromStep("charge"))
	if err != nil {
		log.Fatal(err)
	}
	p.work()
	fmt.Println("kept:", f.Kept, "again:", f.Again)
	fmt.Println(wf.Handle(p.eng, f.ID).Result(ctx))
	// Output:
	// kept: [reserve] again: [charge]
	// 500 cents for reservation 7 <nil>
}

// The runs that failed, newest first, page by page.
func ExampleEngine_List() {
	blocked := true
	wf := charge(&blocked)
	p := open(wf)
	defer p.close()
	ctx := context.Background()
	for i := range 5 {
		if _, err := wf.Start(ctx, p.eng, 100*i, engine.ExternalID(fmt.Sprint("order-", i))); err != nil {
			log.Fatal(err)
		}
	}
	p.work()

	filter := store.RunFilter{Statuses: []store.Status{store.Failed}, FailureCode: "blocked"}
	for cursor := ""; ; {
		page, err := p.eng.List(ctx, filter, cursor, 2)
		if err != nil {
			log.Fatal(err)
		}
		var orders []string
		for _, run := range page.Runs {
			orders = append(orders, run.ExternalID)
		}
		fmt.Println(orders)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	// Output:
	// [order-4 order-3]
	// [order-2 order-1]
	// [order-0]
}

func ExampleEngine_Count() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()
	for i := range 3 {
		if _, err := wf.Start(ctx, p.eng, 100*i); err != nil {
			log.Fatal(err)
		}
	}
	p.work()
	counts, err := p.eng.Count(ctx, store.RunFilter{Workflow: "charge"})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range counts {
		fmt.Println(c.Workflow, c.Status, c.Count)
	}
	// Output:
	// charge completed 3
}

// What is recorded of a run: its steps, in their order.
func ExampleEngine_Steps() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()
	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	steps, err := p.eng.Steps(ctx, h.ID())
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		fmt.Println(s.StepKey, s.Status, string(s.Output))
	}
	// Output:
	// reserve completed "reservation 7"
	// charge completed "500 cents for reservation 7"
}

// Why is a run where it is? The explanation has sentences for people, too.
func ExampleEngine_Explain() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()
	h, err := wf.Start(ctx, p.eng, 500, engine.Delay(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	why, err := p.eng.Explain(ctx, h.ID())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(why.Reason, why.Until.Sub(why.At).Round(time.Hour))
	// Output:
	// scheduled 1h0m0s
}

// A run of one store is looked at, forked or restarted in another: one of production
// on a laptop, say.
func ExampleEngine_Export() {
	wf := charge(new(bool))
	production, laptop := open(wf), open(wf)
	defer production.close()
	defer laptop.close()
	ctx := context.Background()
	h, err := wf.Start(ctx, production.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	production.work()

	var file bytes.Buffer
	if err := production.eng.Export(ctx, &file, h.ID()); err != nil {
		log.Fatal(err)
	}
	if _, err := laptop.eng.Import(ctx, &file); err != nil {
		log.Fatal(err)
	}
	fmt.Println(wf.Handle(laptop.eng, h.ID()).Result(ctx))
	// Output:
	// 500 cents for reservation 7 <nil>
}

// Delete final runs by hand.
func ExampleEngine_Purge() {
	wf := charge(new(bool))
	p := open(wf)
	defer p.close()
	ctx := context.Background()
	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	n, err := p.eng.Purge(ctx, engine.PurgeFilter{Workflow: "charge", OlderThan: 30 * 24 * time.Hour})
	fmt.Println(n, err)
	n, err = p.eng.Purge(ctx, engine.PurgeFilter{Workflow: "charge"})
	fmt.Println(n, err)
	_, err = p.eng.Get(ctx, h.ID())
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// 0 <nil>
	// 1 <nil>
	// true
}

// Workers delete final runs when their time is over. Failed ones are kept for longer here.
func ExampleRetain() {
	retain := engine.Retain(engine.Retention{
		Completed: 7 * 24 * time.Hour,
		Canceled:  7 * 24 * time.Hour,
		Failed:    90 * 24 * time.Hour,
	})
	p := openWith([]engine.Option{retain}, charge(new(bool)))
	defer p.close()
	p.work() // registers the workflow with its retention

	kept, err := p.eng.RetentionOf(context.Background())
	fmt.Println(kept["charge"].Completed, kept["charge"].Failed, err)
	// Output:
	// 168h0m0s 2160h0m0s <nil>
}

// A program puts its schedules each time it starts. What is as described is left alone.
func ExampleEngine_PutSchedule() {
	p := open(charge(new(bool)))
	defer p.close()
	ctx := context.Background()

	for range 2 {
		s, err := p.eng.PutSchedule(ctx, "monthly", "charge", "0 6 1 * *", []byte("900"),
			engine.ScheduleTimeZone("Europe/Berlin"), engine.ScheduleOverlap(engine.OverlapSkip))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Name, s.Spec, s.Overlap)
	}
	if err := p.eng.PauseSchedule(ctx, "monthly"); err != nil {
		log.Fatal(err)
	}
	page, err := p.eng.Schedules(ctx, "", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Schedules), "schedule, paused:", page.Schedules[0].Paused)
	// Output:
	// monthly 0 6 1 * * skip
	// monthly 0 6 1 * * skip
	// 1 schedule, paused: true
}

// What an expression means, before it is put.
func ExampleUpcoming() {
	from := time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)
	times, err := engine.Upcoming("0 9 * * MON-FRI", "UTC", from, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range times {
		fmt.Println(t.Format("Mon 2006-01-02 15:04"))
	}
	// Output:
	// Fri 2026-01-30 09:00
	// Mon 2026-02-02 09:00
	// Tue 2026-02-03 09:00
}

// How far the children of a run have come, from outside.
func ExampleEngine_Progress() {
	item := charge(new(bool))
	all := workflow.New("charge-all", func(ctx workflow.Context, cents []int) ([]string, error) {
		return workflow.Map(ctx, "customers", cents, item)
	})
	p := open(all, item)
	defer p.close()
	ctx := context.Background()
	h, err := all.Start(ctx, p.eng, []int{100, 200, 300})
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	progress, err := p.eng.Progress(ctx, h.ID())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d\n", progress.Completed, progress.Total)
	for _, step := range progress.Steps {
		fmt.Printf("%s: %d of %d\n", step.Step, step.Completed, step.Spawned)
	}
	// Output:
	// 3 of 3
	// customers: 3 of 3
}

// An engine that knows who uses it keeps a record of what it was told to do.
func ExampleActor() {
	wf := charge(new(bool))
	p := openWith([]engine.Option{engine.Actor("ada@laptop")}, wf)
	defer p.close()
	ctx := context.Background()
	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.eng.Cancel(ctx, h.ID(), "ordered by mistake"); err != nil {
		log.Fatal(err)
	}

	page, err := p.eng.Actions(ctx, store.ListActionsParams{Run: h.ID()})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range page.Actions {
		fmt.Println(a.Actor, a.Verb, a.Details)
	}
	// Output:
	// ada@laptop cancel ordered by mistake
}

// Two programs share a database and know nothing of each other's runs.
func ExampleNamespace() {
	wf := charge(new(bool))
	p := openWith([]engine.Option{engine.Namespace("shop")}, wf)
	defer p.close()
	other := engine.New(p.st, engine.Namespace("library"))
	defer other.Close()
	ctx := context.Background()

	h, err := wf.Start(ctx, p.eng, 500)
	if err != nil {
		log.Fatal(err)
	}
	_, err = other.Get(ctx, h.ID())
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// true
}

// A program that starts runs before their worker was ever there says so.
func ExampleRequire() {
	p := open(charge(new(bool)))
	defer p.close()
	ctx := context.Background()

	_, err := p.eng.Start(ctx, "refund", nil)
	fmt.Println(errors.Is(err, engine.ErrUnknownWorkflow))

	early := engine.New(p.st, engine.Require(engine.RequireNothing))
	defer early.Close()
	_, err = early.Start(ctx, "refund", nil)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Fire due schedules and delete old runs without a worker that stays, by a clock of the
// program's own.
func ExampleEngine_Housekeep() {
	p := open(charge(new(bool)))
	defer p.close()
	ctx := context.Background()
	if _, err := p.eng.PutSchedule(ctx, "monthly", "charge", "@monthly", []byte("900")); err != nil {
		log.Fatal(err)
	}

	pass, err := p.eng.Housekeep(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pass.Fired, pass.Purged, pass.Next.IsZero())
	// Output:
	// 0 0 false
}

// The children of a run, with their outputs.
func ExampleEngine_Children() {
	item := charge(new(bool))
	all := workflow.New("charge-all", func(ctx workflow.Context, cents []int) ([]string, error) {
		return workflow.Map(ctx, "customers", cents, item)
	})
	p := open(all, item)
	defer p.close()
	ctx := context.Background()
	h, err := all.Start(ctx, p.eng, []int{100, 200})
	if err != nil {
		log.Fatal(err)
	}
	p.work()

	for child, err := range p.eng.Children(ctx, h.ID(), store.StepKey{Name: "customers", Occurrence: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(child.Status, string(child.Output))
	}
	// Output:
	// completed "100 cents for reservation 7"
	// completed "200 cents for reservation 7"
}
