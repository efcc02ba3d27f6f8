package workflow_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// A report every night at half past two, by the clocks of Berlin.
func ExampleWorkflow_Schedule() {
	report := workflow.New("report", func(ctx workflow.Context, kind string) (string, error) {
		schedule, _ := workflow.ScheduledBy(ctx)
		return fmt.Sprintf("a %s report, for schedule %q", kind, schedule), nil
	})

	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))), engine.Retain(engine.KeepFor(30*24*time.Hour)))
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(report); err != nil {
		fmt.Println(err)
		return
	}

	// A program may do this each time that it starts.
	s, err := report.Schedule(ctx, eng, "nightly", "30 2 * * *", "full",
		engine.ScheduleTimeZone("Europe/Berlin"),
		engine.ScheduleCatchUp(engine.CatchUpOne),
		engine.ScheduleOverlap(engine.OverlapSkip),
		engine.ScheduleRuns(engine.Timeout(6*time.Hour)))
	if err != nil {
		fmt.Println(err)
		return
	}

	// The fire times around the night when clocks are set forward.
	times, err := engine.Upcoming(s.Spec, s.TimeZone, time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	berlin, _ := time.LoadLocation(s.TimeZone)
	for _, t := range times {
		fmt.Println(t.In(berlin).Format("2006-01-02 15:04 MST"))
	}

	// One now, whatever the clock says.
	started, err := eng.TriggerSchedule(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Handle(eng, started.ID).Result(ctx))
	// Output:
	// 2026-03-28 02:30 CET
	// 2026-03-29 03:00 CEST
	// 2026-03-30 02:30 CEST
	// a full report, for schedule "nightly" <nil>
}
