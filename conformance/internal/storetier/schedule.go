package storetier

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// schedule returns a schedule that is due at the case's time.
func (c *C) schedule(name string) store.Schedule {
	return store.Schedule{Name: name, Workflow: aWorkflow, Queue: aQueue, Spec: "@hourly", Input: []byte("in"), Meta: []byte("m"), NextAt: c.now}
}

func (c *C) putSchedule(s store.Schedule) store.Schedule {
	c.Helper()
	got, err := c.s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: s, Now: c.now})
	c.ok("PutSchedule", err)
	return got
}

func (c *C) schedules(p store.ListSchedulesParams) store.SchedulePage {
	c.Helper()
	p.Namespace, p.Now = c.ns, c.now
	page, err := c.s.ListSchedules(c.ctx, p)
	c.ok("ListSchedules", err)
	return page
}

func (c *C) theSchedule(name string) store.Schedule {
	c.Helper()
	page := c.schedules(store.ListSchedulesParams{Names: []string{name}})
	if len(page.Schedules) != 1 {
		c.Fatalf("ListSchedules of %q: saw %d, expected one", name, len(page.Schedules))
	}
	return page.Schedules[0]
}

func scheduleNames(page store.SchedulePage) []string {
	names := []string{}
	for _, s := range page.Schedules {
		names = append(names, s.Name)
	}
	return names
}

var scheduleCases = []Case{
	{"schedules/put-and-list", "P10", "a schedule is stored as it was put, with the store's times, and listed by name", func(c *C) {
		want := c.schedule("b")
		want.Paused = true
		got := c.putSchedule(want)
		want.CreatedAt, want.UpdatedAt = c.now, c.now
		c.eq("PutSchedule", got, want)
		c.eq("ListSchedules", c.theSchedule("b"), want)
		c.putSchedule(c.schedule("c"))
		c.putSchedule(c.schedule("a"))
		c.putSchedule(c.schedule("B"))
		c.eq("names", scheduleNames(c.schedules(store.ListSchedulesParams{})), []string{"B", "a", "b", "c"})
		c.eq("names asked for", scheduleNames(c.schedules(store.ListSchedulesParams{Names: []string{"c", "none", "a"}})), []string{"a", "c"})
	}},
	{"schedules/replace", "P4", "a schedule put again has its new rule; LastAt, CreatedAt and its firings stay", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour)})
		c.advance(time.Minute)
		next := store.Schedule{Name: "s", Workflow: "other", Queue: "q2", Spec: "@daily", NextAt: c.now.Add(24 * time.Hour), LastAt: c.now, CreatedAt: c.now}
		got := c.putSchedule(next)
		next.LastAt, next.CreatedAt, next.UpdatedAt = at, at, c.now
		c.eq("PutSchedule", got, next)
		c.eq("ListSchedules", c.theSchedule("s"), next)
		c.eq("firings", len(c.firings("s")), 1)
	}},
	{"schedules/delete", "P10", "a deleted schedule is gone with its firings; its runs stay", func(c *C) {
		c.putSchedule(c.schedule("s"))
		run := fill(store.NewRun{})
		c.mustFire(store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &run})
		del := store.DeleteScheduleParams{Namespace: c.ns, Name: "s"}
		c.ok("DeleteSchedule", c.s.DeleteSchedule(c.ctx, del))
		c.eq("schedules", len(c.schedules(store.ListSchedulesParams{}).Schedules), 0)
		c.fails("DeleteSchedule again", c.s.DeleteSchedule(c.ctx, del), store.ErrNotFound)
		c.status(run.ID, store.Pending)
		_, err := c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: "s"})
		c.fails("ListFirings", err, store.ErrNotFound)
		_, err = c.fire(store.FireParams{Schedule: "s", At: c.now})
		c.fails("Fire", err, store.ErrNotFound)
		c.advance(time.Second)
		c.eq("CreatedAt of one put anew", c.putSchedule(c.schedule("s")).CreatedAt, c.now)
		c.eq("its LastAt", c.theSchedule("s").LastAt, time.Time{})
		c.eq("its firings", len(c.firings("s")), 0)
	}},
	{"schedules/due-except", "P13", "Except excludes the names that it lists from the due schedules, and nothing else", func(c *C) {
		for _, name := range []string{"a", "b", "c", "d"} {
			s := c.schedule(name)
			s.NextAt = c.now
			c.putSchedule(s)
		}
		see := func(except []string, limit int, want ...string) {
			c.Helper()
			page := c.schedules(store.ListSchedulesParams{Due: true, Except: except, Limit: limit})
			c.eq(fmt.Sprintf("due but for %v", except), scheduleNames(page), want)
			c.eq("NextDue", page.NextDue, c.now)
		}
		see(nil, 0, "a", "b", "c", "d")
		see([]string{"a", "c", "x"}, 0, "b", "d")
		see([]string{"a", "b"}, 1, "c")
		see([]string{"a", "b", "c"}, 1, "d")
		_, err := c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.ns, Except: []string{"a"}})
		c.fails("ListSchedules by name, with exceptions", err, store.ErrInvalid)
	}},
	{"schedules/due", "P13", "Due lists the schedules that are not paused and whose time is not after the store's, by that time; NextDue is the earliest of all that are not paused, Later of those that are not due", func(c *C) {
		put := func(name string, in time.Duration, paused bool) {
			s := c.schedule(name)
			s.NextAt, s.Paused = c.now.Add(in), paused
			c.putSchedule(s)
		}
		c.eq("NextDue of none", c.schedules(store.ListSchedulesParams{}).NextDue, time.Time{})
		put("c", 2*time.Hour, false)
		put("a", 3*time.Hour, false)
		put("b", time.Hour, false)
		put("paused", time.Minute, true)
		never := c.schedule("never")
		never.NextAt = time.Time{}
		c.putSchedule(never)
		see := func(later time.Time, want ...string) {
			c.Helper()
			page := c.schedules(store.ListSchedulesParams{Due: true})
			c.eq("due", scheduleNames(page), append([]string{}, want...))
			c.eq("NextDue", page.NextDue, began.Add(time.Hour))
			c.eq("Later", page.Later, later)
			c.eq("Now", page.Now, c.now)
		}
		c.advance(time.Hour - time.Microsecond)
		see(began.Add(time.Hour))
		c.advance(time.Microsecond)
		see(began.Add(2*time.Hour), "b")
		c.advance(3 * time.Hour)
		see(time.Time{}, "b", "c", "a")
		c.eq("the first one due", scheduleNames(c.schedules(store.ListSchedulesParams{Due: true, Limit: 1})), []string{"b"})
	}},
	{"schedules/pages", "P14", "the pages of schedules contain each once, by name, whatever is put in the meantime; cursors of another query are refused", func(c *C) {
		var want []string
		for i := range 11 {
			name := fmt.Sprintf("s%02d", i)
			want = append(want, name)
			c.putSchedule(c.schedule(name))
		}
		var got []string
		p := store.ListSchedulesParams{Limit: 4}
		for range 10 {
			page := c.schedules(p)
			for _, name := range scheduleNames(page) {
				if name[0] == 's' {
					got = append(got, name)
				}
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
			c.putSchedule(c.schedule(fmt.Sprint("a", len(got))))
			c.putSchedule(c.schedule(got[0]))
		}
		c.eq("names", got, want)
		next := c.schedules(store.ListSchedulesParams{Limit: 4}).Next
		for _, p := range []store.ListSchedulesParams{{Cursor: next, Names: []string{"s01"}}, {Cursor: "garbage"}} {
			p.Namespace, p.Now = c.ns, c.now
			_, err := c.s.ListSchedules(c.ctx, p)
			c.fails("ListSchedules with a foreign cursor", err, store.ErrInvalid)
		}
	}},
}

func (c *C) fire(p store.FireParams) (store.FireResult, error) {
	p.Namespace, p.Now = c.ns, c.now
	return c.s.Fire(c.ctx, p)
}

func (c *C) mustFire(p store.FireParams) store.FireResult {
	c.Helper()
	res, err := c.fire(p)
	c.ok("Fire", err)
	if !res.Fired {
		c.Fatalf("Fire at %s: saw %+v, expected it fired", show(p.At), res)
	}
	return res
}

func (c *C) firings(name string) []store.Firing {
	c.Helper()
	page, err := c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: name})
	c.ok("ListFirings", err)
	return page.Firings
}

var fireCases = []Case{
	{"fire/once", "P10", "of the calls for one schedule and fire time, one fires; the others report that firing, without an error", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		c.advance(time.Second)
		run := fill(store.NewRun{Input: []byte("in")})
		p := store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run}
		c.eq("the first", c.mustFire(p), store.FireResult{Fired: true, Made: true, Run: run.ID})
		got := c.get(run.ID)
		c.eq("Status of the run", got.Status, store.Pending)
		c.eq("CreatedAt of the run", got.CreatedAt, c.now)
		c.bytes("Input of the run", got.Input, []byte("in"))
		c.advance(2 * time.Hour)
		other := fill(store.NewRun{})
		for _, again := range []*store.NewRun{&run, &other, nil} {
			p.Run = again
			res, err := c.fire(p)
			c.ok("Fire again", err)
			c.eq("the result again", res, store.FireResult{Run: run.ID})
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(1))
		c.eq("NextAt", c.theSchedule("s").NextAt, at.Add(time.Hour))
	}},
	{"fire/race", "P10", "any number of schedulers create one run for one fire time", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		for n := range 10 {
			results := make([]store.FireResult, 6)
			c.race(len(results), func(i int, s store.Store) (err error) {
				run := fill(store.NewRun{})
				results[i], err = patient(c.ctx, func() (store.FireResult, error) {
					return s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run, Now: c.now})
				})
				return err
			})
			fired := 0
			for _, res := range results {
				if res.Fired {
					fired++
				}
				c.eq("the run of an answer", res.Run, results[0].Run)
			}
			c.eq("answers that fired", fired, 1)
			c.eq("runs", c.count(store.RunFilter{}), int64(n+1))
			c.eq("firings", len(c.firings("s")), n+1)
			at = at.Add(time.Hour)
			c.now = at
		}
	}},
	{"fire/advances", "P10", "a firing moves the schedule to its next time and records the last", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		c.advance(time.Minute)
		c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour)})
		s := c.theSchedule("s")
		c.eq("NextAt", s.NextAt, at.Add(time.Hour))
		c.eq("LastAt", s.LastAt, at)
		c.eq("CreatedAt", s.CreatedAt, at)
		c.advance(time.Hour)
		c.mustFire(store.FireParams{Schedule: "s", At: at.Add(time.Hour)})
		s = c.theSchedule("s")
		c.eq("NextAt when there is none", s.NextAt, time.Time{})
		c.eq("LastAt", s.LastAt, at.Add(time.Hour))
		c.eq("due schedules", len(c.schedules(store.ListSchedulesParams{Due: true}).Schedules), 0)
	}},
	{"fire/not-early", "P13", "nothing fires before its time: ErrInvalid", func(c *C) {
		s := c.schedule("s")
		s.NextAt = c.now.Add(time.Hour)
		c.putSchedule(s)
		run := fill(store.NewRun{})
		p := store.FireParams{Schedule: "s", At: s.NextAt, Next: s.NextAt.Add(time.Hour), Run: &run}
		c.advance(time.Hour - time.Microsecond)
		_, err := c.fire(p)
		c.fails("Fire a microsecond early", err, store.ErrInvalid)
		c.eq("runs", len(c.gets(run.ID)), 0)
		c.eq("NextAt", c.theSchedule("s").NextAt, s.NextAt)
		c.advance(time.Microsecond)
		c.mustFire(p)
	}},
	{"fire/edited-meanwhile", "P16", "a fire time that the schedule no longer has is ErrConflict, and one of no schedule ErrNotFound", func(c *C) {
		s := c.schedule("s")
		c.putSchedule(s)
		at := c.now
		s.NextAt = at.Add(time.Minute)
		c.putSchedule(s)
		c.advance(time.Hour)
		run := fill(store.NewRun{})
		_, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run})
		c.fails("Fire at the old time", err, store.ErrConflict)
		c.eq("runs", len(c.gets(run.ID)), 0)
		c.eq("firings", len(c.firings("s")), 0)
		c.eq("NextAt", c.theSchedule("s").NextAt, s.NextAt)
		_, err = c.fire(store.FireParams{Schedule: "none", At: at})
		c.fails("Fire of no schedule", err, store.ErrNotFound)
	}},
	{"fire/put-meanwhile", "P13", "a fire with a schedule from before it was put again is ErrConflict and does nothing, even if it is still due at the same time", func(c *C) {
		before := c.putSchedule(c.schedule("s"))
		at := c.now
		s := c.schedule("s")
		s.Input = []byte("new")
		after := c.putSchedule(s) // at the same moment
		c.check(after.UpdatedAt.After(before.UpdatedAt), "UpdatedAt was %v and is %v", before.UpdatedAt, after.UpdatedAt)
		c.eq("CreatedAt", after.CreatedAt, before.CreatedAt)
		run := fill(store.NewRun{})
		old := store.FireParams{Schedule: "s", At: at, Seen: before.UpdatedAt, Next: at.Add(time.Minute), Run: &run}
		_, err := c.fire(old)
		c.fails("Fire by the old rule", err, store.ErrConflict)
		c.eq("runs", len(c.gets(run.ID)), 0)
		c.eq("firings", len(c.firings("s")), 0)
		c.eq("the schedule", c.theSchedule("s"), after)
		by := old
		by.Seen, by.Next = after.UpdatedAt, at.Add(time.Hour)
		c.mustFire(by)
		fired := after
		fired.LastAt, fired.NextAt = at, by.Next
		c.eq("the schedule, fired", c.theSchedule("s"), fired) // UpdatedAt stays

		// Put back to the time that has fired: the old rule does not advance it.
		after = c.putSchedule(s)
		res, err := c.fire(old)
		c.ok("Fire by the old rule once it has fired", err)
		c.eq("the result", res, store.FireResult{Run: run.ID})
		c.eq("NextAt", c.theSchedule("s").NextAt, at)
		by.Seen = after.UpdatedAt
		_, err = c.fire(by)
		c.ok("Fire by the new rule", err)
		c.eq("NextAt", c.theSchedule("s").NextAt, by.Next)
	}},
	{"fire/put-back", "P10", "a schedule that was put back to a time that it has fired advances and creates no second run", func(c *C) {
		s := c.schedule("s")
		c.putSchedule(s)
		at := c.now
		first, second := fill(store.NewRun{}), fill(store.NewRun{})
		c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &first})
		c.putSchedule(s)
		res, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(2 * time.Hour), Run: &second})
		c.ok("Fire again", err)
		c.eq("the result", res, store.FireResult{Run: first.ID})
		c.eq("runs of the second fire", len(c.gets(second.ID)), 0)
		c.eq("NextAt", c.theSchedule("s").NextAt, at.Add(2*time.Hour))
	}},
	{"fire/other-time-than-put-back", "P10", "if a schedule was put back to a time that it has fired, a fire of another time does not advance it", func(c *C) {
		s := c.schedule("s")
		c.putSchedule(s)
		first, second := c.now, c.now.Add(time.Hour)
		a, b := fill(store.NewRun{}), fill(store.NewRun{})
		c.mustFire(store.FireParams{Schedule: "s", At: first, Next: second, Run: &a})
		c.advance(2 * time.Hour)
		c.mustFire(store.FireParams{Schedule: "s", At: second, Next: c.now, Run: &b})
		c.putSchedule(s)
		res, err := c.fire(store.FireParams{Schedule: "s", At: second, Next: c.now})
		c.ok("Fire of a later time that has fired", err)
		c.eq("the result", res, store.FireResult{Run: b.ID})
		c.eq("NextAt", c.theSchedule("s").NextAt, first)
		_, err = c.fire(store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour)})
		c.fails("Fire of a time that is not next", err, store.ErrConflict)
		c.eq("NextAt", c.theSchedule("s").NextAt, first)
		c.eq("firings", len(c.firings("s")), 2)
	}},
	{"fire/forgets", "P10", "a fire deletes the oldest firings before a time, a limited number of them, only of that schedule, and none if the call fails", func(c *C) {
		other := c.putSchedule(c.schedule("other"))
		c.mustFire(store.FireParams{Schedule: "other", At: other.NextAt, Next: other.NextAt.Add(time.Hour)})
		first := c.now
		c.putSchedule(c.schedule("s"))
		nth := func(n int) time.Time { return first.Add(time.Duration(n) * time.Minute) }
		const before = store.MaxForget + 5
		for n := range before {
			c.now = nth(n)
			c.mustFire(store.FireParams{Schedule: "s", At: nth(n), Next: nth(n + 1)})
		}
		times := func() (list []time.Time) {
			for _, f := range c.firings("s") {
				list = append(list, f.At)
			}
			slices.Reverse(list)
			return list
		}
		c.eq("firings, none forgotten", len(times()), before)
		c.now = nth(before)
		limit := nth(before - 2) // the last two of them stay
		c.abroad(func() {
			c.now = nth(before + 1)
			c.putSchedule(c.schedule("s"))
			c.mustFire(store.FireParams{Schedule: "s", At: c.now, Next: nth(before + 2)})
		})
		_, err := c.fire(store.FireParams{Schedule: "s", At: nth(before + 1), Next: nth(before + 2), Forget: limit})
		c.fails("a fire that is early", err, store.ErrInvalid)
		_, err = c.fire(store.FireParams{Schedule: "s", At: nth(before), Next: nth(before + 1), Forget: nth(before).Add(time.Microsecond)})
		c.fails("forgetting what is behind the fire time", err, store.ErrInvalid)
		c.eq("firings after calls that failed", len(times()), before)
		c.mustFire(store.FireParams{Schedule: "s", At: nth(before), Next: nth(before + 1), Forget: limit})
		c.eq("firings", times(), []time.Time{nth(store.MaxForget), nth(store.MaxForget + 1), nth(store.MaxForget + 2), nth(before - 2), nth(before - 1), nth(before)})
		again, err := c.fire(store.FireParams{Schedule: "s", At: nth(before), Next: nth(before + 1), Forget: limit})
		c.ok("the same again", err)
		c.eq("its result", again, store.FireResult{})
		c.eq("firings after that", times(), []time.Time{nth(before - 2), nth(before - 1), nth(before)})
		c.eq("firings of the other schedule", len(c.firings("other")), 1)
		c.eq("NextAt", c.theSchedule("s").NextAt, nth(before+1))
	}},
	{"fire/made-once", "P10", "a firing says Made if it created the run, and not if a run of that ID existed, or another one with its external id", func(c *C) {
		at := c.now
		mine, other := fill(store.NewRun{}), fill(store.NewRun{ExternalID: "e"})
		c.putSchedule(c.schedule("s"))
		c.eq("the first", c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &mine}), store.FireResult{Fired: true, Made: true, Run: mine.ID})
		c.ok("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "s"}))
		c.putSchedule(c.schedule("s"))
		c.eq("the same of a schedule made anew", c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &mine}), store.FireResult{Fired: true, Run: mine.ID})
		holder := c.create(store.NewRun{ExternalID: "e"})
		c.putSchedule(c.schedule("t"))
		c.eq("one whose external id is taken", c.mustFire(store.FireParams{Schedule: "t", At: at, Next: at.Add(time.Hour), Run: &other}), store.FireResult{Fired: true, Run: holder})
		c.eq("runs", c.count(store.RunFilter{}), int64(2))
	}},
	{"fire/not-again-after-a-purge", "P10", "a time that has fired does not fire again when its run has been purged", func(c *C) {
		at, run := c.now, fill(store.NewRun{})
		p := store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run}
		c.putSchedule(c.schedule("s"))
		c.eq("the first", c.mustFire(p), store.FireResult{Fired: true, Made: true, Run: run.ID})
		c.end(c.claim1(), complete(""))
		c.advance(time.Minute)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		res, err := c.fire(p)
		c.ok("Fire again", err)
		c.eq("its result", res, store.FireResult{Run: run.ID})
		c.eq("runs", c.count(store.RunFilter{}), int64(0))
	}},
	{"fire/keeps-its-run", "P10", "a time that has fired names the run that it created, even if that run has been purged and another one has its external id", func(c *C) {
		at, run := c.now, fill(store.NewRun{ExternalID: "e"})
		p := store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run}
		c.putSchedule(c.schedule("s"))
		c.mustFire(p)
		c.end(c.claim1(), complete(""))
		c.advance(time.Minute)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		c.create(store.NewRun{ExternalID: "e"})
		res, err := c.fire(p)
		c.ok("Fire again", err)
		c.eq("its result", res, store.FireResult{Run: run.ID})
		c.eq("firings", c.firings("s"), []store.Firing{{At: at, FiredAt: at, Run: run.ID}})
	}},
	{"fire/run-of-another-namespace", "P15", "a firing whose run's ID is that of a run of another namespace is ErrAlreadyExists and does nothing", func(c *C) {
		var id store.ID
		c.abroad(func() { id = c.create(store.NewRun{}) })
		c.putSchedule(c.schedule("s"))
		at, run := c.now, fill(store.NewRun{ID: id})
		_, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run})
		c.fails("Fire", err, store.ErrAlreadyExists)
		c.eq("firings", len(c.firings("s")), 0)
		c.eq("NextAt", c.theSchedule("s").NextAt, at)
		c.eq("runs", c.count(store.RunFilter{}), int64(0))
	}},
	{"fire/large-input", "P10", "a firing creates its run with an input of any size", func(c *C) {
		for i, size := range []int{0, 1, 5_000, 50_000, c.s.Limits().Payload} {
			name, size := fmt.Sprint("s", i), min(size, c.s.Limits().Payload)
			c.putSchedule(c.schedule(name))
			run := fill(store.NewRun{Input: bytes.Repeat([]byte{'x'}, size)})
			c.mustFire(store.FireParams{Schedule: name, At: c.now, Run: &run})
			c.bytes(fmt.Sprint("an input of ", size, " bytes"), c.get(run.ID).Input, run.Input)
			c.bytes(fmt.Sprint("the claimed input of ", size, " bytes"), c.claim1().Run.Input, run.Input)
		}
	}},
	{"fire/skip", "P10", "a fire time without a run is recorded as skipped and advances the schedule", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		c.eq("the result", c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour)}), store.FireResult{Fired: true})
		c.eq("firings", c.firings("s"), []store.Firing{{At: at, FiredAt: c.now}})
		c.eq("NextAt", c.theSchedule("s").NextAt, at.Add(time.Hour))
		run := fill(store.NewRun{})
		res, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run})
		c.ok("Fire again, with a run", err)
		c.eq("its result", res, store.FireResult{})
		c.eq("runs", len(c.gets(run.ID)), 0)
	}},
	{"fire/external-id-taken", "P8", "a firing whose external id an active run holds names that run and creates none", func(c *C) {
		c.putSchedule(c.schedule("s"))
		active := c.create(store.NewRun{ExternalID: "e"})
		run := fill(store.NewRun{ExternalID: "e"})
		at := c.now
		res := c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run})
		c.eq("Run", res.Run, active)
		c.eq("firings", c.firings("s"), []store.Firing{{At: at, FiredAt: c.now, Run: active}})
		c.eq("runs", c.count(store.RunFilter{}), int64(1))
		c.eq("NextAt", c.theSchedule("s").NextAt, at.Add(time.Hour))
	}},
	{"fire/all-or-nothing", "P3", "a firing whose run is refused is not recorded and does not advance the schedule", func(c *C) {
		c.putSchedule(c.schedule("s"))
		at := c.now
		for _, tt := range []struct {
			run  store.NewRun
			want error
		}{{store.NewRun{Input: make([]byte, c.s.Limits().Payload+1)}, store.ErrTooLarge}, {store.NewRun{Priority: 1000}, store.ErrInvalid}} {
			run := fill(tt.run)
			_, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run})
			c.fails("Fire", err, tt.want)
			c.eq("runs", len(c.gets(run.ID)), 0)
		}
		c.eq("firings", len(c.firings("s")), 0)
		c.eq("NextAt", c.theSchedule("s").NextAt, at)
		c.eq("LastAt", c.theSchedule("s").LastAt, time.Time{})
	}},
	{"fire/schedules-apart", "P10", "schedules that are due at one time fire separately", func(c *C) {
		fires := map[string]store.FireParams{}
		for _, s := range []string{"a", "b"} {
			c.putSchedule(c.schedule(s))
			run := fill(store.NewRun{})
			fires[s] = store.FireParams{Schedule: s, At: c.now, Run: &run}
			c.eq("Run", c.mustFire(fires[s]).Run, run.ID)
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(2))
		for s, p := range fires {
			res, err := c.fire(p)
			c.ok("Fire again, of "+s, err)
			c.eq("its result", res, store.FireResult{Run: p.Run.ID})
		}
	}},
	{"fire/list", "P14", "firings are listed newest first, in exact pages; ErrNotFound if there is no such schedule", func(c *C) {
		c.putSchedule(c.schedule("s"))
		var want []store.Firing
		for i := range 7 {
			at := c.now
			run := fill(store.NewRun{})
			c.advance(time.Second)
			c.mustFire(store.FireParams{Schedule: "s", At: at, Next: c.now.Add(time.Duration(i+1) * time.Hour), Run: &run})
			want = append([]store.Firing{{At: at, FiredAt: c.now, Run: run.ID}}, want...)
			c.advance(time.Duration(i+1) * time.Hour)
		}
		p := store.ListFiringsParams{Namespace: c.ns, Schedule: "s", Limit: 3}
		var got []store.Firing
		for range 10 {
			page, err := c.s.ListFirings(c.ctx, p)
			c.ok("ListFirings", err)
			got = append(got, page.Firings...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
			if len(got) == 3 { // one more at the beginning, before the cursor
				at := c.now
				c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour)})
			}
		}
		c.eq("firings", got, want)
		_, err := c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: "none"})
		c.fails("ListFirings of no schedule", err, store.ErrNotFound)
		_, err = c.s.ListFirings(c.ctx, store.ListFiringsParams{Namespace: c.ns, Schedule: "s", Cursor: "garbage"})
		c.fails("ListFirings with a foreign cursor", err, store.ErrInvalid)
	}},
}
