package workflow

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/engine"
)

// Schedule creates a schedule that starts runs of the workflow with an input, or changes
// the schedule of that name:
//
//	_, err := Report.Schedule(ctx, eng, "nightly", "30 3 * * *", ReportArgs{Full: true},
//		engine.ScheduleTimeZone("Europe/Berlin"), engine.ScheduleOverlap(engine.OverlapSkip))
//
// A program may do so each time it starts: a schedule that already matches is not changed. The
// expression and the errors are those of [engine.Engine.PutSchedule]. Any worker of the namespace
// fires it.
func (w *Workflow[In, Out]) Schedule(ctx context.Context, eng *engine.Engine, name, spec string, in In, opts ...engine.ScheduleOption) (engine.Schedule, error) {
	data, start, err := w.encode(eng, in, nil)
	if err != nil {
		return engine.Schedule{}, err
	}
	// The definition's own queue goes first, so that an option can override it.
	return eng.PutSchedule(ctx, name, w.name, spec, data, append([]engine.ScheduleOption{engine.ScheduleRuns(start...)}, opts...)...)
}

// Schedule creates or changes a schedule of the workflow, as [Workflow.Schedule] does. Its runs go to
// the queue with which workers have registered the workflow when the schedule is put.
func (r Reference[In, Out]) Schedule(ctx context.Context, eng *engine.Engine, name, spec string, in In, opts ...engine.ScheduleOption) (engine.Schedule, error) {
	data, start, err := r.encode(eng, in, nil)
	if err != nil {
		return engine.Schedule{}, err
	}
	return eng.PutSchedule(ctx, name, r.name, spec, data, append([]engine.ScheduleOption{engine.ScheduleRuns(start...)}, opts...)...)
}

// ScheduledBy returns the schedule that has started the run, and the fire time: the time for which
// the work is to be done, which may be a while ago. The time is zero if the schedule was triggered
// by hand. The name is empty if the run was not started by a schedule.
func ScheduledBy(ctx Context) (schedule string, at time.Time) {
	return engine.ScheduledBy(*ctx.branch.Invocation().Run())
}
