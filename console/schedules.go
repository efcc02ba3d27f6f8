package console

import (
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

// schedulesData is the page of all schedules.
type schedulesData struct {
	Schedules []scheduleRow
	Next      string
}

func (d *schedulesData) title() string { return "Schedules" }

type scheduleRow struct {
	wire.Schedule
	Late   bool
	NextIn string // in words, in the schedule's time zone
}

func listSchedules(c *call) (any, error) {
	page, err := c.api.ListSchedules(c.ctx, wire.Page{In: c.in, Cursor: c.r.URL.Query().Get("cursor"), Limit: pageSize})
	if err != nil {
		return nil, err
	}
	d := &schedulesData{Next: page.Next}
	for _, s := range page.Schedules {
		d.Schedules = append(d.Schedules, scheduleRow{s, late(&s, c.now), nextWords(&s, c.now)})
	}
	return d, nil
}

func nextWords(s *wire.Schedule, now time.Time) string {
	switch {
	case s.Paused:
		return "paused"
	case s.NextAt == nil:
		return "never again"
	}
	if s.NextAt.Before(now) {
		return "was due " + dayWords(*s.NextAt, now, zoneOf(s))
	}
	return dayWords(*s.NextAt, now, zoneOf(s))
}

func zoneOf(s *wire.Schedule) *time.Location {
	if zone, err := time.LoadLocation(s.TimeZone); err == nil {
		return zone
	}
	return time.UTC
}

// scheduleData is the page of one schedule.
type scheduleData struct {
	Schedule scheduleRow
	Upcoming []upcoming
	Firings  []wire.Firing
	Next     string
	Why      string // what is wrong with it
	Remedy   string
	Deeds    []deed
}

type upcoming struct {
	At    time.Time
	Words string
}

// Pointer is the time for the functions of the templates.
func (u upcoming) Pointer() *time.Time { return &u.At }

func (d *scheduleData) title() string { return "Schedule " + d.Schedule.Name }

func showSchedule(c *call) (any, error) {
	name := c.r.URL.Query().Get("name")
	found, err := c.api.GetSchedule(c.ctx, name, wire.GetSchedule{In: c.in, Times: 5, MaxPayload: shownPayload})
	if err != nil {
		return nil, err
	}
	s := found.Schedule
	d := &scheduleData{Schedule: scheduleRow{s, late(&s, c.now), nextWords(&s, c.now)}}
	for _, at := range found.Upcoming {
		text := dayWords(at, c.now, zoneOf(&s))
		if at.Before(c.now) {
			text = "was due " + text
		}
		d.Upcoming = append(d.Upcoming, upcoming{at, text})
	}
	firings, err := c.api.ListFirings(c.ctx, name, wire.Page{In: c.in, Cursor: c.r.URL.Query().Get("cursor"), Limit: 30})
	if err != nil {
		return nil, err
	}
	d.Firings, d.Next = firings.Firings, firings.Next
	d.explain()
	for _, action := range []string{"schedule-trigger", "schedule-pause", "schedule-resume", "schedule-delete"} {
		it, _ := deedOf(action)
		if c.may(it.needs) && (action != "schedule-pause" || !s.Paused) && (action != "schedule-resume" || s.Paused) {
			d.Deeds = append(d.Deeds, it)
		}
	}
	return d, nil
}

// explain says what is wrong with the schedule, and what helps.
func (d *scheduleData) explain() {
	s := d.Schedule
	switch {
	case s.Late && s.Overlap == "queue":
		d.Why = "The schedule is late: its time has passed and it has not started a run. With the overlap policy queue, it waits until its previous run has ended."
		d.Remedy = "Look at the latest firing's run: when that ends, the schedule goes on. If no worker is online, start one: workers fire schedules."
	case s.Late:
		d.Why = "The schedule is late: its time has passed and it has not started a run."
		d.Remedy = "Workers fire schedules: start a worker in this namespace, or look at the logs of those that are online."
	case s.Paused:
		d.Why = "The schedule is paused: it starts no runs."
		d.Remedy = "Resume it."
	case s.NextAt == nil:
		d.Why = "The schedule has no further time."
		d.Remedy = "Change its expression, or delete it."
	}
}
