package api

import (
	"context"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
)

func scheduleOperations() []*operation {
	return []*operation{
		read("listSchedules", "/v1/schedules", ReadSchedules, "List a page of schedules by name.", listSchedules),
		read("getSchedule", "/v1/schedules/{name}", ReadSchedules, "Get a schedule with its next fire times.", getSchedule),
		write(http.MethodPut, "putSchedule", "/v1/schedules/{name}", "", http.StatusOK, "Create or change a schedule.", putSchedule),
		write(http.MethodDelete, "deleteSchedule", "/v1/schedules/{name}", WriteSchedules, http.StatusNoContent, "Delete a schedule and the record of its firings.", deleteSchedule),
		post("pauseSchedule", "/v1/schedules/{name}/pause", PauseSchedules, http.StatusOK, "Pause a schedule.", hold(true, (*engine.Engine).PauseSchedule)),
		post("resumeSchedule", "/v1/schedules/{name}/resume", PauseSchedules, http.StatusOK, "Resume a schedule.", hold(false, (*engine.Engine).ResumeSchedule)),
		post("triggerSchedule", "/v1/schedules/{name}/trigger", TriggerSchedule, http.StatusCreated, "Start a run of a schedule now.", triggerSchedule),
		read("listFirings", "/v1/schedules/{name}/firings", ReadSchedules, "List a page of the past firings of a schedule, newest first.", listFirings),
		read("previewSchedule", "/v1/schedule-preview", ReadSchedules, "List the fire times of a rule.", previewSchedule),
	}
}

func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (c *call) schedule(s *engine.Schedule, most int) wire.Schedule {
	return wire.Schedule{
		Name: s.Name, Workflow: s.Workflow, Queue: s.Queue, Spec: s.Spec, TimeZone: s.TimeZone, CatchUp: s.CatchUp.String(), MaxCatchUp: s.MaxCatchUp,
		Overlap: s.Overlap.String(), Priority: s.Priority, Delay: text(s.Delay), Deadline: text(s.Timeout), Paused: s.Paused, NextAt: asTime(s.NextAt),
		LastAt: asTime(s.LastAt), CreatedAt: asTime(s.CreatedAt), UpdatedAt: asTime(s.UpdatedAt), Input: c.payload(s.Input, most),
	}
}

func listSchedules(c *call, q *wire.Page) (out wire.SchedulePage, err error) {
	page, err := c.eng.Schedules(c.ctx, q.Cursor, q.Limit)
	if err != nil {
		return out, err
	}
	out.Next = page.Next
	out.Schedules = each(page.Schedules, func(s *engine.Schedule) wire.Schedule { return c.schedule(s, 1<<10) })
	return out, nil
}

func getSchedule(c *call, q *wire.GetSchedule) (out wire.ScheduleView, err error) {
	s, err := c.eng.Schedule(c.ctx, c.r.PathValue("name"))
	if err != nil {
		return out, err
	}
	n := q.Times
	if n == 0 {
		n = 5
	}
	times, err := s.Upcoming(n)
	if err != nil {
		return out, err
	}
	return wire.ScheduleView{Schedule: c.schedule(&s, q.MaxPayload), Upcoming: utc(times)}, nil
}

func utc(times []time.Time) []time.Time {
	return each(times, func(t *time.Time) time.Time { return t.UTC() })
}

func putSchedule(c *call, _ *wire.In, b *wire.PutSchedule) (out wire.Schedule, err error) {
	t := c.target()
	t.Workflow, t.Queue = b.Workflow, b.Queue
	if err := c.allow(WriteSchedules, t); err != nil {
		return out, err
	}
	input, err := c.encode("input", b.Input, b.InputBase64)
	if err != nil {
		return out, err
	}
	delay, err := duration("delay", b.Delay)
	if err != nil {
		return out, err
	}
	deadline, err := duration("deadline", b.Deadline)
	if err != nil {
		return out, err
	}
	var catchUp engine.CatchUp
	var overlap engine.Overlap
	if b.CatchUp != "" {
		if err := catchUp.UnmarshalText([]byte(b.CatchUp)); err != nil {
			return out, err
		}
	}
	if b.Overlap != "" {
		if err := overlap.UnmarshalText([]byte(b.Overlap)); err != nil {
			return out, err
		}
	}
	opts := []engine.ScheduleOption{
		engine.ScheduleTimeZone(b.TimeZone), engine.ScheduleCatchUp(catchUp), engine.ScheduleOverlap(overlap),
		engine.ScheduleRuns(engine.Queue(b.Queue), engine.Priority(b.Priority), engine.Delay(delay), engine.Timeout(deadline)),
	}
	if b.MaxCatchUp != 0 {
		opts = append(opts, engine.MaxCatchUp(b.MaxCatchUp))
	}
	if b.Paused {
		opts = append(opts, engine.SchedulePaused())
	}
	s, err := c.eng.PutSchedule(c.ctx, c.r.PathValue("name"), b.Workflow, b.Spec, input, opts...)
	if err != nil {
		return out, err
	}
	return c.schedule(&s, 0), nil
}

func deleteSchedule(c *call, _ *wire.In, _ *none) (none, error) {
	return none{}, c.eng.DeleteSchedule(c.ctx, c.r.PathValue("name"))
}

// hold makes a handler that pauses or resumes what the path names.
func hold(paused bool, do func(*engine.Engine, context.Context, string) error) func(*call, *none) (wire.Held, error) {
	return func(c *call, _ *none) (wire.Held, error) {
		name := c.r.PathValue("name")
		return wire.Held{Name: name, Paused: paused}, do(c.eng, c.ctx, name)
	}
}

func triggerSchedule(c *call, _ *none) (out wire.Started, err error) {
	started, err := c.eng.TriggerSchedule(c.ctx, c.r.PathValue("name"))
	if err != nil {
		return out, err
	}
	return wire.Started{ID: started.ID.String(), Existing: started.Existing}, nil
}

func listFirings(c *call, q *wire.Page) (out wire.FiringPage, err error) {
	page, err := c.eng.Firings(c.ctx, c.r.PathValue("name"), q.Cursor, q.Limit)
	if err != nil {
		return out, err
	}
	out.Next = page.Next
	out.Firings = each(page.Firings, func(f *engine.Firing) wire.Firing {
		return wire.Firing{At: asTime(f.At), FiredAt: asTime(f.FiredAt), Outcome: f.Outcome.String(), Run: asID(f.Run)}
	})
	return out, nil
}

func previewSchedule(_ *call, q *wire.PreviewSchedule) (out wire.Preview, err error) {
	from, n := timeOf(q.From), q.Times
	if from.IsZero() {
		from = time.Now()
	}
	if n == 0 {
		n = 10
	}
	times, err := engine.Upcoming(q.Spec, q.Zone, from, n)
	if err != nil {
		return out, err
	}
	return wire.Preview{Upcoming: utc(times)}, nil
}
