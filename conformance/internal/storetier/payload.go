package storetier

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// everyByte contains all 256 byte values, and is not UTF-8.
func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// carriers are the fields that carry payloads. Each writes v and reads it back.
var carriers = []struct {
	name string
	trip func(c *C, v []byte) []byte
}{
	{"run-input", func(c *C, v []byte) []byte { return c.get(c.create(store.NewRun{Input: v})).Input }},
	{"run-meta", func(c *C, v []byte) []byte { return c.get(c.create(store.NewRun{Meta: v})).Meta }},
	{"claimed-input", func(c *C, v []byte) []byte { return c.startWith(store.NewRun{Input: v}).Run.Input }},
	{"continued-input", func(c *C, v []byte) []byte {
		c.end(c.startWith(store.NewRun{Input: []byte("old")}), &store.Transition{Kind: store.Continue, Input: v})
		run := c.claim1()
		c.end(run, complete(""))
		return run.Run.Input
	}},
	{"child-input", func(c *C, v []byte) []byte {
		k := kid(1)
		k.Input = v
		c.family(sleepOn(store.WakeSignal), k)
		return c.get(k.ID).Input
	}},
	{"forked-input", func(c *C, v []byte) []byte {
		fork := store.NewID()
		c.fork(store.ForkParams{ID: c.create(store.NewRun{Input: v}), New: fork})
		return c.get(fork).Input
	}},
	{"run-output", func(c *C, v []byte) []byte {
		run := c.start()
		c.end(run, &store.Transition{Kind: store.CompleteRun, Output: v})
		return c.get(run.Run.ID).Output
	}},
	{"child-output", func(c *C, v []byte) []byte {
		parent := c.family(sleepOn(store.WakeSignal), kids(1)...)
		c.end(c.claimKid(), &store.Transition{Kind: store.CompleteRun, Output: v})
		page, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g"})
		c.ok("Children", err)
		if len(page.Children) != 1 {
			c.Fatalf("Children: saw %d, expected one", len(page.Children))
		}
		return page.Children[0].Output
	}},
	{"step-output", func(c *C, v []byte) []byte {
		run := c.start()
		s := step(1, "a", "")
		s.Output = v
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}, Transition: sleepOn(store.WakeSignal)})
		return c.steps(run.Run.ID)[0].Output
	}},
	{"claimed-step-output", func(c *C, v []byte) []byte {
		run := c.start()
		s := step(1, "a", "")
		s.Output = v
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}, Transition: release()})
		run = c.claim1()
		c.end(run, complete(""))
		return run.Steps[0].Output
	}},
	{"signal", func(c *C, v []byte) []byte {
		run := c.start()
		c.ok("Signal's item", c.signals(store.NewSignal{ID: store.NewID(), Run: run.Run.ID, Name: "n", Payload: v})[0].Err)
		c.end(run, release())
		run = c.claim1()
		c.end(run, complete(""))
		c.bytes("the payload as Inbox reads it", c.inbox(run.Run.ID).Signals[0].Payload, v)
		return run.Inbox.Signals[0].Payload
	}},
	{"state", func(c *C, v []byte) []byte {
		id := c.create(store.NewRun{After: time.Hour})
		entries, err := c.trySetState(id, store.StateWrite{Key: "k", Value: v})
		c.ok("SetState", err)
		c.bytes("the value as SetState returns it", entries[0].Value, v)
		c.bytes("the value as Inbox reads it", c.inbox(id).State[0].Value, v)
		return c.getState(id)[0].Value
	}},
	{"committed-state", func(c *C, v []byte) []byte {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k", Value: v}}, Transition: release()})
		run = c.claim1()
		c.end(run, complete(""))
		c.bytes("the value as GetState reads it", c.getState(run.Run.ID)[0].Value, v)
		return run.Inbox.State[0].Value
	}},
	{"schedule-input", func(c *C, v []byte) []byte {
		s := c.schedule("s")
		s.Input = v
		c.bytes("the input as PutSchedule returns it", c.putSchedule(s).Input, v)
		return c.theSchedule("s").Input
	}},
	{"schedule-meta", func(c *C, v []byte) []byte {
		s := c.schedule("s")
		s.Meta = v
		c.putSchedule(s)
		return c.theSchedule("s").Meta
	}},
	{"fired-input", func(c *C, v []byte) []byte {
		c.putSchedule(c.schedule("s"))
		run := fill(store.NewRun{Input: v, After: time.Hour})
		c.mustFire(store.FireParams{Schedule: "s", At: c.now, Run: &run})
		c.advance(time.Second)
		return c.get(run.ID).Input
	}},
	{"workflow-meta", func(c *C, v []byte) []byte {
		c.putWorkflows(store.Workflow{Name: "a", Queue: "q", Meta: v})
		return c.workflows()[0].Meta
	}},
}

var payloadCases = func() []Case {
	var cases []Case
	for _, carrier := range carriers {
		cases = append(cases, Case{"payload/" + carrier.name, "P12", "any byte comes back, nil stays nil, empty stays empty", func(c *C) {
			for name, v := range map[string][]byte{
				"nil": nil, "empty": {}, "a zero byte": {0}, "every byte value": everyByte(), "what is no UTF-8": {0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80},
				"what looks like JSON": []byte(` {"b":1, "a":1.0, "a":2} `), "text": []byte("it's \"é\"\r\n\t\\x00 %s $1 ?"),
			} {
				c.bytes(name, carrier.trip(c, v), v)
				// Claimable runs that are left must not affect the next one.
				for _, id := range c.listAll(store.ListParams{Filter: store.RunFilter{Statuses: []store.Status{store.Pending, store.Running}}, Limit: store.MaxPage}, nil) {
					c.tryCancel(id)
				}
			}
		}})
	}
	return append(cases, limitCases...)
}()

// tooLarge reports an error that does not name a field with size n and the limit.
func (c *C) tooLarge(what string, err error, n, limit int) {
	c.Helper()
	c.fails(what, err, store.ErrTooLarge)
	var e *store.TooLargeError
	if errors.As(err, &e) {
		c.check(e.Field != "" && e.Size == n && e.Limit == limit, "%s: saw field %q, size %d, limit %d; expected a field's name, %d, %d", what, e.Field, e.Size, e.Limit, n, limit)
	}
}

var limitCases = []Case{
	{"payload/limits-declared", "P12", "a backend declares a payload limit", func(c *C) {
		c.check(c.s.Limits().Payload > 0, "Limits().Payload: saw %d, expected it above 0", c.s.Limits().Payload)
		c.eq("limits of the second handle", c.s2.Limits(), c.s.Limits())
	}},
	{"payload/at-the-limit", "P12", "a payload of exactly the limit is stored completely", func(c *C) {
		big := make([]byte, c.s.Limits().Payload)
		copy(big[len(big)-256:], everyByte())
		run := c.startWith(store.NewRun{Input: big})
		id := run.Run.ID
		c.bytes("Input", run.Run.Input, big)
		c.ok("Signal's item", c.signals(store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: big})[0].Err)
		s := step(1, "a", "")
		s.Output = big
		c.commit(store.Commit{
			Lease: run.Lease, Steps: []store.StepRecord{s}, State: []store.StateWrite{{Key: "k", Value: big}}, Transition: &store.Transition{Kind: store.CompleteRun, Output: big},
		})
		c.bytes("Output", c.get(id).Output, big)
		c.bytes("the step's output", c.steps(id)[0].Output, big)
		in := c.inbox(id)
		c.bytes("the signal's payload", in.Signals[0].Payload, big)
		c.bytes("the state's value", in.State[0].Value, big)
	}},
	{"payload/over-the-limit", "P12", "over the limit nothing is stored, and the error contains field, size and limit", func(c *C) {
		limit := c.s.Limits().Payload
		big := make([]byte, limit+1)
		r := fill(store.NewRun{Input: big})
		c.tooLarge("a run's input", c.creates(r)[0].Err, limit+1, limit)
		c.eq("runs", len(c.gets(r.ID)), 0)
		run := c.start()
		id := run.Run.ID
		c.tooLarge("a signal's payload", c.signals(store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: big})[0].Err, limit+1, limit)
		_, err := c.trySetState(id, store.StateWrite{Key: "k", Value: big})
		c.tooLarge("a state value", err, limit+1, limit)
		s := step(1, "a", "")
		s.Output = big
		c.tooLarge("a step's output", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{s}}).Err, limit+1, limit)
		c.tooLarge("a committed state value", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, State: []store.StateWrite{{Key: "k", Value: big}}}).Err, limit+1, limit)
		c.tooLarge("a new input", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Transition: &store.Transition{Kind: store.Continue, Input: big}}).Err, limit+1, limit)
		sch := c.schedule("s")
		sch.Input = big
		_, err = c.s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: sch, Now: c.now})
		c.tooLarge("a schedule's input", err, limit+1, limit)
		c.eq("schedules", len(c.schedules(store.ListSchedulesParams{}).Schedules), 0)
		in := c.inbox(id)
		c.eq("what the run has", []int{int(in.Events), len(in.Signals), len(in.State), len(c.steps(id))}, []int{0, 0, 0, 0})
		c.eq("the run", c.get(id), run.Run)
	}},
	{"payload/meta-and-failure-limits", "P12", "Meta and failures have limits of their own", func(c *C) {
		meta := make([]byte, store.MaxMeta+1)
		c.tooLarge("a run's meta", c.creates(fill(store.NewRun{Meta: meta}))[0].Err, store.MaxMeta+1, store.MaxMeta)
		c.create(store.NewRun{Meta: meta[:store.MaxMeta]})
		run := c.claim1()
		f := &store.Failure{Code: "x", Message: strings.Repeat("m", store.MaxFailure)}
		c.tooLarge("a failure", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 1, Transition: &store.Transition{Kind: store.FailRun, Failure: f}}).Err, store.MaxFailure+1, store.MaxFailure)
		c.status(run.Run.ID, store.Running)
		f.Message = f.Message[1:]
		c.end(run, &store.Transition{Kind: store.FailRun, Failure: f})
		c.eq("the failure's size", len(c.get(run.Run.ID).Failure.Message), store.MaxFailure-1)
	}},
	{"payload/failure-text", "P12", "a failure is stored unchanged; text that is not UTF-8 is not refused", func(c *C) {
		end := func(f store.Failure) *store.Failure {
			run := c.start()
			s := step(1, "a", "")
			s.Status, s.Failure = store.StepFailed, &f
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}, Transition: &store.Transition{Kind: store.FailRun, Failure: &f}})
			got := c.get(run.Run.ID).Failure
			if got == nil {
				c.Fatalf("the run's failure: saw none, expected %+v", f)
			}
			c.eq("the step's failure", c.steps(run.Run.ID)[0].Failure, got)
			return got
		}
		f := store.Failure{Code: "error", Message: "it's \"é\" <b>&\r\n\t\\ \x00 \x1b \u2028 😀", Type: "*a.B[c]", Stack: "a\n\tb", Details: everyByte()}
		c.eq("the run's failure", *end(f), f)
		f.Message = "broken \xff\xc3( text"
		got := end(f)
		c.eq("the code beside a broken message", got.Code, f.Code)
		c.bytes("the details beside a broken message", got.Details, f.Details)
		c.check(strings.HasPrefix(got.Message, "broken ") && strings.HasSuffix(got.Message, " text"), "a broken message: saw %q, expected %q or nearly so", got.Message, f.Message)
	}},
	{"payload/not-shared", "P12", "a caller may change its buffers after a call without changing what is stored", func(c *C) {
		in, out, value := []byte("input"), []byte("output"), []byte("value")
		run := c.startWith(store.NewRun{Input: in})
		s := step(1, "a", "")
		s.Output = out
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}, State: []store.StateWrite{{Key: "k", Value: value}}})
		id := run.Run.ID
		for _, b := range [][]byte{in, out, value, run.Run.Input, c.get(id).Input, c.steps(id)[0].Output, c.getState(id)[0].Value} {
			clear(b)
		}
		c.bytes("Input", c.get(id).Input, []byte("input"))
		c.bytes("Output", c.steps(id)[0].Output, []byte("output"))
		c.bytes("state", c.getState(id)[0].Value, []byte("value"))
	}},
}

var timeCases = []Case{
	{"time/microseconds", "P13", "times are stored in microseconds and returned in UTC", func(c *C) {
		at := time.Date(2032, 2, 29, 23, 59, 59, 999_999_000, time.FixedZone("east", 5*3600+1800))
		run := c.get(c.create(store.NewRun{At: at}))
		c.eq("VisibleAt", run.VisibleAt, at)
		for name, t := range map[string]time.Time{"VisibleAt": run.VisibleAt, "CreatedAt": run.CreatedAt, "Deadline": run.Deadline} {
			c.eq("zone of "+name, t.Location(), time.UTC)
		}
		c.eq("Deadline", run.Deadline, time.Time{})
		s := c.schedule("s")
		s.NextAt = at
		got := c.putSchedule(s)
		c.eq("NextAt", got.NextAt, at)
		c.eq("zone of NextAt", c.theSchedule("s").NextAt.Location(), time.UTC)
	}},
	{"time/far-and-long-ago", "P13", "times in the far future and past are stored like others", func(c *C) {
		for _, year := range []int{1969, 2400, 9000} {
			at := time.Date(year, 1, 2, 3, 4, 5, 678_000, time.UTC)
			run := c.start()
			s := step(1, "a", "")
			s.Status, s.DueAt = store.StepRunning, at
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}, Transition: complete("")})
			c.eq(fmt.Sprintf("DueAt in %d", year), c.steps(run.Run.ID)[0].DueAt, at)
		}
		at := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
		c.create(store.NewRun{At: at})
		c.eq("NextDue", c.claim(store.ClaimParams{}).NextDue, at)
	}},
	{"time/each-call-its-own", "P13", "a set Now is the clock of that call only: it is not remembered", func(c *C) {
		c.advance(1000 * time.Hour)
		c.create(store.NewRun{Queue: "other"})
		c.now = began
		id := c.create(store.NewRun{After: time.Minute})
		c.eq("VisibleAt", c.get(id).VisibleAt, began.Add(time.Minute))
		c.claimNone("by its own clock it is not due")
	}},
	{"time/store-clock", "P13", "without Now the store's clock decides: the time of a write is between two readings of it", func(c *C) {
		before, err := c.s.Clock(c.ctx)
		c.ok("Clock", err)
		r, later := fill(store.NewRun{}), fill(store.NewRun{After: time.Hour, Queue: "later"})
		_, err = c.s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{r, later}})
		c.ok("Create", err)
		got, err := c.s.Claim(c.ctx, store.ClaimParams{Namespace: c.ns, Worker: aWorker, Demands: []store.Demand{demand(aQueue, 5), demand("later", 5)}, LeaseFor: aLease})
		c.ok("Claim", err)
		after, err := c.s.Clock(c.ctx)
		c.ok("Clock", err)
		between := func(what string, t, lo, hi time.Time) {
			c.Helper()
			c.check(!t.Before(lo.Add(-time.Microsecond)) && !t.After(hi.Add(time.Microsecond)), "%s: saw %s, expected it between %s and %s", what, show(t), show(lo), show(hi))
		}
		run := c.one(got.Runs)
		between("CreatedAt", run.Run.CreatedAt, before, after)
		between("Claimed.Now", got.Now, run.Run.CreatedAt, after)
		// A store that knows the time between bounds uses the later one for future times.
		late := after.Add(time.Second)
		between("VisibleAt", run.Run.VisibleAt, before.Add(aLease), late.Add(aLease))
		between("NextDue", got.NextDue, before.Add(time.Hour), late.Add(time.Hour))
		c.eq("zone of Clock", after.Location(), time.UTC)
	}},
}
