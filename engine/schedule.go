package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/cron"
	"github.com/pawlhq/pawl/store"
)

// CatchUp says what happens to fire times that have passed because no worker was there, or,
// with [OverlapQueue] and [OverlapCancel], while the previous run was active. Times that
// are not fired are recorded as missed: consecutive ones as one firing, at the first of
// them.
type CatchUp uint8

// The policies of [CatchUp].
const (
	// CatchUpNone: they are missed. The latest of them is fired if it is no more than
	// [Lateness] ago.
	CatchUpNone CatchUp = iota
	// CatchUpOne: the latest of them is fired, however long ago it is.
	CatchUpOne
	// CatchUpAll: all are fired in their order, up to [MaxCatchUp] of them, the latest.
	CatchUpAll
)

// Lateness is how late a time may be and still be fired with [CatchUpNone]. It covers the
// delay of a busy or restarted worker, and of one that takes over from another.
const Lateness = time.Minute

// DefaultMaxCatchUp is the number of missed times that [CatchUpAll] fires at most, unless
// [MaxCatchUp] sets another.
const DefaultMaxCatchUp = 100

// DefaultKeepFirings is how long the record of a firing is kept, unless [KeepFirings] sets
// another time.
const DefaultKeepFirings = 30 * 24 * time.Hour

// KeepFirings sets how long the firings of schedules stay recorded; 0 or less means for ever. Older
// ones are deleted with the schedule's next firings, a few at a time. The setting of the
// engine of the worker that fires decides. The default is [DefaultKeepFirings].
func KeepFirings(d time.Duration) Option { return func(e *Engine) { e.keepFirings = d } }

// maxMaxCatchUp bounds what [MaxCatchUp] may ask for.
const maxMaxCatchUp = 100_000

// Overlap says what happens at a fire time at which a run of the schedule is still active
// (not final).
type Overlap uint8

// The policies of [Overlap]. With all but OverlapAllow, the store ensures that at most one run of
// a schedule is active. Runs that were started under OverlapAllow do not count.
const (
	// OverlapAllow: another run is started.
	OverlapAllow Overlap = iota
	// OverlapSkip: none is started; the firing is recorded with the run that is active.
	OverlapSkip
	// OverlapQueue: the run is started when the one before is final. Times that
	// become due meanwhile follow the catch-up policy: with CatchUpAll all of them are
	// fired, otherwise only the latest.
	OverlapQueue
	// OverlapCancel: the one before is canceled, and the run is started when it is
	// final. Times that become due meanwhile are treated as with OverlapQueue.
	OverlapCancel
)

var (
	catchUpNames = []string{CatchUpNone: "none", CatchUpOne: "one", CatchUpAll: "all"}
	overlapNames = []string{OverlapAllow: "allow", OverlapSkip: "skip", OverlapQueue: "queue", OverlapCancel: "cancel"}
)

// String returns the policy's name: "none", "one" or "all".
func (c CatchUp) String() string { return nameOf(catchUpNames, int(c), "CatchUp") }

// String returns the policy's name: "allow", "skip", "queue" or "cancel".
func (o Overlap) String() string { return nameOf(overlapNames, int(o), "Overlap") }

// MarshalText writes the policy's name.
func (c CatchUp) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText writes the policy's name.
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a policy's name. The error for an unknown one matches store.ErrInvalid.
func (c *CatchUp) UnmarshalText(b []byte) error {
	i := slices.Index(catchUpNames, string(b))
	if i < 0 {
		return store.Invalid("catch-up policy", fmt.Sprintf("unknown policy %q; want none, one or all", b))
	}
	*c = CatchUp(i)
	return nil
}

// UnmarshalText reads a policy's name. The error for an unknown one matches store.ErrInvalid.
func (o *Overlap) UnmarshalText(b []byte) error {
	i := slices.Index(overlapNames, string(b))
	if i < 0 {
		return store.Invalid("overlap policy", fmt.Sprintf("unknown policy %q; want allow, skip, queue or cancel", b))
	}
	*o = Overlap(i)
	return nil
}

func nameOf(names []string, i int, kind string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

// Schedule is a rule that starts runs of a workflow.
type Schedule struct {
	Name       string
	Workflow   string
	Queue      string
	Spec       string // the expression; see [Engine.PutSchedule]
	TimeZone   string // an IANA name
	Input      []byte // encoded
	CatchUp    CatchUp
	MaxCatchUp int // how many missed times CatchUpAll fires at most
	Overlap    Overlap

	// Options of the runs that it starts.
	Priority int
	Delay    time.Duration
	Timeout  time.Duration
	Under    []store.LimitUse // the limits that they are under
	Tags     store.Tags

	Paused    bool
	NextAt    time.Time // the next fire time; zero: it is paused, or there is none
	LastAt    time.Time // the last fire time; zero: none
	CreatedAt time.Time
	UpdatedAt time.Time // when it was last changed, paused or resumed
}

// Upcoming returns the next n fire times; none if n is 0 or less. For a paused schedule they are
// those that it would have if it were resumed now. The error for an expression or a time zone that
// is not valid matches store.ErrInvalid.
func (s Schedule) Upcoming(n int) ([]time.Time, error) {
	rule, err := cron.Parse(s.Spec, s.TimeZone)
	if err != nil || n < 1 {
		return nil, err
	}
	if s.NextAt.IsZero() {
		return rule.Upcoming(time.Now(), n), nil
	}
	return append([]time.Time{s.NextAt}, rule.Upcoming(s.NextAt, n-1)...), nil
}

// Upcoming returns the first n fire times after t of a schedule expression in a time zone
// (empty: UTC). Use it to see what an expression means. n must not be negative. The error for an
// expression or a time zone that is not valid matches store.ErrInvalid.
func Upcoming(spec, zone string, t time.Time, n int) ([]time.Time, error) {
	rule, err := cron.Parse(spec, zone)
	if err != nil {
		return nil, err
	}
	return rule.Upcoming(t, n), nil
}

// ScheduleOption configures a schedule.
type ScheduleOption func(*scheduling)

// scheduling is what the options of a schedule make.
type scheduling struct {
	Schedule
	start   []StartOption
	bounded bool // by MaxCatchUp
}

// ScheduleTimeZone sets the time zone of the expression by its IANA name, such as
// "Europe/Berlin". The default is UTC.
func ScheduleTimeZone(name string) ScheduleOption {
	return func(s *scheduling) { s.TimeZone = name }
}

// ScheduleCatchUp sets what happens to fire times that were missed. The default is
// [CatchUpNone].
func ScheduleCatchUp(c CatchUp) ScheduleOption { return func(s *scheduling) { s.CatchUp = c } }

// MaxCatchUp sets how many missed times [CatchUpAll] fires at most: the latest ones. The
// default is [DefaultMaxCatchUp]. With another policy it is refused, because it would
// change nothing.
func MaxCatchUp(n int) ScheduleOption {
	return func(s *scheduling) { s.MaxCatchUp, s.bounded = n, true }
}

// ScheduleOverlap sets what happens at a fire time while a run of the schedule is active.
// The default is [OverlapAllow].
func ScheduleOverlap(o Overlap) ScheduleOption { return func(s *scheduling) { s.Overlap = o } }

// ScheduleRuns sets options of the runs that the schedule starts: [Queue], [Priority],
// [Delay], [Timeout], [Tags], [Under], [LimitKey] and [Tokens]. The schedule itself sets their ids. The runs
// are under the limits that are known when the schedule is put.
func ScheduleRuns(opts ...StartOption) ScheduleOption {
	return func(s *scheduling) { s.start = append(s.start, opts...) }
}

// SchedulePaused creates a new schedule paused. It does not change a schedule that exists.
func SchedulePaused() ScheduleOption { return func(s *scheduling) { s.Paused = true } }

// scheduleMeta is what the store keeps of a schedule for the engine.
type scheduleMeta struct {
	TimeZone   string        `json:"timeZone"`
	CatchUp    CatchUp       `json:"catchUp"`
	MaxCatchUp int           `json:"maxCatchUp"`
	Overlap    Overlap       `json:"overlap"`
	Priority   int           `json:"priority,omitempty"`
	Delay      time.Duration `json:"delay,omitempty"`
	Timeout    time.Duration `json:"timeout,omitempty"`

	Under []store.LimitUse `json:"under,omitempty"`
	Tags  store.Tags       `json:"tags,omitempty"`
}

func (s *Schedule) stored() (store.Schedule, error) {
	meta, err := json.Marshal(scheduleMeta{s.TimeZone, s.CatchUp, s.MaxCatchUp, s.Overlap, s.Priority, s.Delay, s.Timeout, s.Under, s.Tags})
	return store.Schedule{Name: s.Name, Workflow: s.Workflow, Queue: s.Queue, Spec: s.Spec, Input: s.Input, Meta: meta, Paused: s.Paused, NextAt: s.NextAt}, err
}

func scheduleOf(v store.Schedule) (Schedule, error) {
	var m scheduleMeta
	if err := json.Unmarshal(v.Meta, &m); err != nil {
		return Schedule{}, fmt.Errorf("schedule %q cannot be decoded; another program or a later version of Pawl wrote it: %w", v.Name, err)
	}
	return Schedule{
		Name: v.Name, Workflow: v.Workflow, Queue: v.Queue, Spec: v.Spec, TimeZone: m.TimeZone, Input: v.Input,
		CatchUp: m.CatchUp, MaxCatchUp: m.MaxCatchUp, Overlap: m.Overlap, Priority: m.Priority, Delay: m.Delay, Timeout: m.Timeout, Under: m.Under, Tags: m.Tags,
		Paused: v.Paused, NextAt: v.NextAt, LastAt: v.LastAt, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}, nil
}

// PutSchedule creates a schedule that starts runs of a workflow with an encoded input, or
// changes the schedule of that name. Most programs use the typed Schedule method of their
// workflow.
//
// A program may put its schedules each time it starts. A schedule that is as described
// already is left alone. Putting a schedule never changes whether it is paused, when it
// fires next, or what it has fired, unless its expression or time zone changes. Then its
// next time is the new rule's first, and a time that is due and not fired yet is dropped.
// From when PutSchedule returns, nothing is fired by the old description, even if a worker
// had read it before.
//
// The expression has five fields (minute, hour, day of month, month, day of week), or six
// with seconds first, or is a descriptor (@yearly, @monthly, @weekly, @daily, @hourly), or
// "@every 90s", whose first time is that long after it was put. If both day of month and
// day of week are restricted, the schedule fires on the
// days that match either. In the hour in which a clock is set forward
// or back, a rule that names its hours fires once for each of its times: a time that does
// not exist fires when the gap is over, and a time that comes twice fires the first time. A
// rule for every hour (*) goes by the time that passes.
//
// It fails with store.ErrInvalid (the error says what is wrong with the expression, the
// zone or the options), [ErrUnknownWorkflow], store.ErrTooLarge, store.ErrConflict (another
// program kept changing schedules), store.ErrUnavailable or store.ErrOutcomeUnknown.
func (e *Engine) PutSchedule(ctx context.Context, name, workflow, spec string, input []byte, opts ...ScheduleOption) (Schedule, error) {
	want, rule, err := e.describe(ctx, name, workflow, spec, input, opts)
	if err != nil {
		return Schedule{}, scheduleError(name, err)
	}
	record := e.acts(ctx, "put", "schedule "+name, fmt.Sprintf("%s of workflow %s", spec, workflow))
	return e.editSchedule(ctx, name, true, record, func(have *Schedule, now time.Time) (*Schedule, error) {
		put := want
		switch {
		case have == nil:
		case have.Spec == put.Spec && have.TimeZone == put.TimeZone:
			put.Paused, put.NextAt = have.Paused, have.NextAt
		default:
			put.Paused = have.Paused
		}
		if put.NextAt.IsZero() && !put.Paused {
			put.NextAt = firstTime(rule, now)
		}
		return &put, nil
	})
}

// describe checks the schedule that is to be put.
func (e *Engine) describe(ctx context.Context, name, workflow, spec string, input []byte, opts []ScheduleOption) (Schedule, cron.Rule, error) {
	s := scheduling{Schedule: Schedule{Name: name, Workflow: workflow, Spec: spec, Input: input, TimeZone: "UTC", MaxCatchUp: DefaultMaxCatchUp}}
	for _, opt := range opts {
		opt(&s)
	}
	if s.TimeZone == "" {
		s.TimeZone = "UTC"
	}
	if err := store.ValidateName("schedule", name); err != nil {
		return s.Schedule, cron.Rule{}, err
	}
	rule, err := cron.Parse(spec, s.TimeZone)
	if err != nil {
		return s.Schedule, rule, err
	}
	switch {
	case int(s.CatchUp) >= len(catchUpNames):
		return s.Schedule, rule, store.Invalid("catch-up policy", fmt.Sprintf("unknown policy %v", s.CatchUp))
	case int(s.Overlap) >= len(overlapNames):
		return s.Schedule, rule, store.Invalid("overlap policy", fmt.Sprintf("unknown policy %v", s.Overlap))
	case s.MaxCatchUp < 1 || s.MaxCatchUp > maxMaxCatchUp:
		return s.Schedule, rule, store.Invalid("max catch-up", fmt.Sprintf("%d is not between 1 and %d", s.MaxCatchUp, maxMaxCatchUp))
	case s.bounded && s.CatchUp != CatchUpAll:
		return s.Schedule, rule, store.Invalid("max catch-up", fmt.Sprintf("it applies only to the catch-up policy %v, but the schedule's is %v; set ScheduleCatchUp(CatchUpAll) or leave out MaxCatchUp", CatchUpAll, s.CatchUp))
	}
	e.weigh("the input of schedule "+name, input)
	run := store.NewRun{Workflow: workflow, Input: input}
	for _, opt := range s.start {
		opt(&run)
	}
	switch {
	case !run.ID.IsZero() || run.ExternalID != "" || run.Suffix != "":
		return s.Schedule, rule, store.Invalid("schedule's runs", "the schedule chooses their ids; leave out engine.RunID, engine.ExternalID and engine.Suffix")
	case run.Debounce != "":
		return s.Schedule, rule, store.Invalid("schedule's runs", "the schedule sets their start time; leave out engine.Debounce")
	case run.Signal != nil:
		return s.Schedule, rule, store.Invalid("schedule's runs", "they are started without a signal; leave out engine.WithSignal")
	case len(run.Meta) > 0:
		return s.Schedule, rule, store.Invalid("schedule's runs", "the workflow sets their retries; leave out engine.Attempts and engine.Backoff")
	case !run.At.IsZero():
		return s.Schedule, rule, store.Invalid("schedule's runs", "the schedule sets their start time; leave out engine.At")
	}
	s.Delay, s.Timeout, s.Priority = run.After, run.Timeout, run.Priority
	if _, err := e.prepare(ctx, &run, nil, nil); err != nil {
		return s.Schedule, rule, err
	}
	s.Queue, s.Under, s.Tags = run.Queue, store.SortUses(run.Under), run.Tags
	return s.Schedule, rule, nil
}

// firstTime returns the first time of a new rule. Intervals begin at a whole second.
func firstTime(rule cron.Rule, now time.Time) time.Time { return rule.Next(now.Truncate(time.Second)) }

// PauseSchedule stops a schedule. From when it returns nothing is fired, and times that are
// due and not fired yet are dropped. Runs of the schedule are not affected. A paused
// schedule stays paused. It fails with store.ErrNotFound, or as [Engine.PutSchedule] does.
func (e *Engine) PauseSchedule(ctx context.Context, name string) error {
	_, err := e.editSchedule(ctx, name, false, e.acts(ctx, "pause", "schedule "+name, ""), func(have *Schedule, _ time.Time) (*Schedule, error) {
		have.Paused, have.NextAt = true, time.Time{}
		return have, nil
	})
	return err
}

// ResumeSchedule makes a paused schedule continue with the next time of its rule. Times that
// passed while it was paused are not fired later. Errors are those of
// [Engine.PauseSchedule].
func (e *Engine) ResumeSchedule(ctx context.Context, name string) error {
	_, err := e.editSchedule(ctx, name, false, e.acts(ctx, "resume", "schedule "+name, ""), func(have *Schedule, now time.Time) (*Schedule, error) {
		rule, err := cron.Parse(have.Spec, have.TimeZone)
		if err == nil && have.Paused {
			have.Paused, have.NextAt = false, firstTime(rule, now)
		}
		return have, err
	})
	return err
}

// scheduleLock is the name of the lock under which schedules are changed, one at a time.
// editFor is how long a change may take, and how long another one waits for it.
const (
	scheduleLock = "pawl.schedules.edit"
	editFor      = 10 * time.Second
)

// editSchedule reads a schedule, calls edit, and puts the schedule if it has changed.
// Concurrent edits see each other's results.
func (e *Engine) editSchedule(ctx context.Context, name string, create bool, record []store.Action, change func(have *Schedule, now time.Time) (*Schedule, error)) (Schedule, error) {
	if e.fault != nil {
		return Schedule{}, scheduleError(name, e.fault)
	}
	var out Schedule
	same := false
	edit := func(ctx context.Context, locked bool) (done bool, err error) {
		page, err := e.listSchedules(ctx, store.ListSchedulesParams{Names: []string{name}})
		if err != nil {
			return false, err
		}
		var have *Schedule
		var before store.Schedule
		switch {
		case len(page.Schedules) == 1:
			before = page.Schedules[0]
			s, err := scheduleOf(before)
			if err != nil && !create {
				return false, err
			}
			if err == nil {
				have = &s
				out = s
			}
		case !create:
			return false, store.ErrNotFound
		}
		want, err := change(have, page.Now)
		if err != nil {
			return false, err
		}
		put, err := want.stored()
		if err != nil {
			return false, err
		}
		if same = have != nil && sameSchedule(put, before); same {
			return true, nil
		}
		if !locked {
			return false, nil
		}
		var stored store.Schedule
		err = e.retry(ctx, func(ctx context.Context) (err error) {
			stored, err = e.store.PutSchedule(ctx, store.PutScheduleParams{Namespace: e.namespace, Schedule: put, Record: record})
			return err
		})
		if err == nil {
			out, err = scheduleOf(stored)
		}
		return true, err
	}
	// Most programs put an unchanged schedule, which needs no lock.
	done, err := edit(ctx, false)
	if err == nil && !done {
		err = e.locked(ctx, scheduleLock, editFor, func(ctx context.Context) error {
			_, err := edit(ctx, true)
			return err
		})
	}
	if same && err == nil && len(record) > 0 {
		record[0].Outcome = store.NoChange
		e.note(ctx, record)
	} else {
		e.actedOn(ctx, record, err)
	}
	if err != nil {
		return Schedule{}, scheduleError(name, err)
	}
	return out, nil
}

// sameSchedule compares what a program has put.
func sameSchedule(a, b store.Schedule) bool {
	return a.Workflow == b.Workflow && a.Queue == b.Queue && a.Spec == b.Spec && bytes.Equal(a.Input, b.Input) &&
		(a.Input == nil) == (b.Input == nil) && bytes.Equal(a.Meta, b.Meta) && a.Paused == b.Paused && a.NextAt.Equal(b.NextAt)
}

// locked calls f while this process holds a named lock.
func (e *Engine) locked(ctx context.Context, name string, hold time.Duration, f func(ctx context.Context) error) error {
	owner := store.NewID().String()
	patience, cancel := context.WithTimeout(ctx, 2*hold)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		res, err := e.lock(ctx, name, owner, hold)
		if err != nil {
			return err
		}
		if res.Held {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-patience.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s holds the lock %q until %v: %w; try again", res.Owner, name, res.Until, store.ErrConflict)
		}
	}
	within, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	err := f(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: it took more than %v: %w", err, hold, store.ErrOutcomeUnknown)
	}
	limit := hold / 2 // others wait as long
	if ctx.Err() != nil {
		limit = time.Second
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if _, failed := e.lock(release, name, owner, 0); failed != nil {
		e.log.Debug("failed to release a lock; it will expire", "lock", name, "error", failed)
	}
	return err
}

// Schedule returns a schedule. It fails with store.ErrNotFound.
func (e *Engine) Schedule(ctx context.Context, name string) (Schedule, error) {
	page, err := e.listSchedules(ctx, store.ListSchedulesParams{Names: []string{name}})
	if err == nil && len(page.Schedules) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return Schedule{}, scheduleError(name, err)
	}
	return scheduleOf(page.Schedules[0])
}

// SchedulePage is a page of schedules; Next is empty on the last one.
type SchedulePage struct {
	Schedules []Schedule
	Next      string
}

// Schedules returns a page of all schedules, in the order of their names. Cursor is empty
// for the first page, and then the Next of the page before. A limit of 0 means 100.
func (e *Engine) Schedules(ctx context.Context, cursor string, limit int) (SchedulePage, error) {
	var out SchedulePage
	page, err := e.listSchedules(ctx, store.ListSchedulesParams{Cursor: cursor, Limit: limit})
	if err != nil {
		return out, err
	}
	for _, v := range page.Schedules {
		s, err := scheduleOf(v)
		if err != nil {
			return out, err
		}
		out.Schedules = append(out.Schedules, s)
	}
	out.Next = page.Next
	return out, nil
}

func (e *Engine) listSchedules(ctx context.Context, p store.ListSchedulesParams) (page store.SchedulePage, err error) {
	p.Namespace = e.namespace
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		page, err = e.store.ListSchedules(ctx, p)
		return err
	})
	return page, err
}

// DeleteSchedule deletes a schedule and the record of its firings. Runs of the schedule are
// not affected. It fails with store.ErrNotFound.
func (e *Engine) DeleteSchedule(ctx context.Context, name string) error {
	if e.fault != nil {
		return e.fault
	}
	record := e.acts(ctx, "delete", "schedule "+name, "")
	asked := false
	err := e.retry(ctx, func(ctx context.Context) error {
		err := e.store.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: e.namespace, Name: name, Record: record})
		if asked && errors.Is(err, store.ErrNotFound) {
			return nil // an earlier request, whose answer was lost, has deleted it
		}
		asked = asked || errors.Is(err, store.ErrOutcomeUnknown)
		return err
	})
	e.actedOn(ctx, record, err)
	return scheduleError(name, err)
}

// TriggerSchedule starts a run of a schedule now, even if the schedule is paused. The
// schedule's fire times do not change, and no firing is recorded. If the schedule does not
// allow overlaps and a run of it is active, that run is returned, with Existing set. Errors
// are those of [Engine.Start], and store.ErrNotFound.
func (e *Engine) TriggerSchedule(ctx context.Context, name string) (Started, error) {
	s, err := e.Schedule(ctx, name)
	if err != nil {
		return Started{}, err
	}
	if err := e.Record(ctx, "trigger", "schedule "+name, ""); err != nil {
		return Started{}, err
	}
	run := s.run()
	if s.Overlap == OverlapAllow {
		run.Suffix = "triggered " + store.NewID().String()
	}
	started, err := e.Start(ctx, s.Workflow, s.Input, func(r *store.NewRun) {
		run.Meta = runMeta(r.Meta, name, time.Time{})
		run.Digest = []byte{} // matches the schedule's active run whatever its input was
		Under(s.Under...)(&run)
		*r = run
	})
	return started, scheduleError(name, err)
}

// ScheduleID returns the external id of the runs of a schedule. Use it to list them. Where
// overlaps are allowed, the suffix of each run is its fire time; otherwise no run has a
// suffix.
func ScheduleID(name string) string { return "schedule " + name }

// run returns the run that the schedule starts.
func (s *Schedule) run() store.NewRun {
	return store.NewRun{
		Workflow: s.Workflow, Queue: s.Queue, Input: s.Input, Priority: s.Priority, After: s.Delay, Timeout: s.Timeout, Under: s.Under, Tags: s.Tags,
		ExternalID: ScheduleID(s.Name),
	}
}

// fired returns the run of a fire time. Its ID is derived from schedule and time, so that
// a schedule that was deleted and put again does not fire a time twice. The ID sorts by
// the time.
func (s *Schedule) fired(namespace string, at time.Time) *store.NewRun {
	run := s.run()
	run.ID = firedID(namespace, s.Name, at)
	if s.Overlap == OverlapAllow {
		run.Suffix = at.UTC().Format(time.RFC3339)
	}
	run.Meta = runMeta(nil, s.Name, at)
	return &run
}

func firedID(namespace, schedule string, at time.Time) store.ID {
	var id store.ID
	for i, ms := 5, at.UnixMilli(); i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return store.DeriveID(id, fmt.Sprintf("%q %q %d", namespace, schedule, at.UnixMicro()))
}

// fireMeta is the part of a run's meta that names the schedule that started it.
type fireMeta struct {
	Schedule string     `json:"schedule,omitempty"`
	FireAt   *time.Time `json:"fireAt,omitempty"` // nil: triggered by hand

	Trace json.RawMessage `json:"trace,omitempty"` // of the telemetry
}

// runMeta adds the schedule that starts a run to the run's meta.
func runMeta(meta []byte, schedule string, at time.Time) []byte {
	var m fireMeta
	_ = json.Unmarshal(meta, &m) // none, or that of the telemetry
	if m.Schedule = schedule; !at.IsZero() {
		at = at.UTC()
		m.FireAt = &at
	}
	data, _ := json.Marshal(m) // strings and times only
	return data
}

// ScheduledBy returns the schedule that has started a run, and the fire time. The time is
// zero if the schedule was triggered by hand. The name is empty if no schedule has started
// the run. It reads the run's Meta, which runs of [Engine.List] come without.
func ScheduledBy(run store.Run) (schedule string, at time.Time) {
	var m fireMeta
	if json.Unmarshal(run.Meta, &m) != nil {
		return "", time.Time{}
	}
	if m.FireAt != nil {
		at = *m.FireAt
	}
	return m.Schedule, at
}

// FiringOutcome is the outcome of a fire time.
type FiringOutcome uint8

// The outcomes.
const (
	FiringStarted    FiringOutcome = iota // a run was started
	FiringOverlapped                      // the previous run was active: none was started
	FiringMissed                          // it was too late and was not caught up, nor were the times up to the next firing
)

var firingNames = []string{FiringStarted: "started", FiringOverlapped: "overlapped", FiringMissed: "missed"}

// String returns the outcome's name: "started", "overlapped" or "missed".
func (o FiringOutcome) String() string { return nameOf(firingNames, int(o), "FiringOutcome") }

// MarshalText writes the outcome's name.
func (o FiringOutcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Firing is a fire time that has passed.
type Firing struct {
	At      time.Time // the fire time
	FiredAt time.Time // when it was handled
	Outcome FiringOutcome
	Run     store.ID // the run that was started, or that prevented a start; zero: missed
}

// FiringPage is a page of firings; Next is empty on the last one.
type FiringPage struct {
	Firings []Firing
	Next    string
}

// Firings returns a page of what became of a schedule's fire times, newest first. Cursor is
// empty for the first page, and then the Next of the page before. A limit of 0 means 100.
// It fails with store.ErrNotFound.
func (e *Engine) Firings(ctx context.Context, schedule, cursor string, limit int) (FiringPage, error) {
	var page store.FiringPage
	err := e.retry(ctx, func(ctx context.Context) (err error) {
		page, err = e.store.ListFirings(ctx, store.ListFiringsParams{Namespace: e.namespace, Schedule: schedule, Cursor: cursor, Limit: limit})
		return err
	})
	if err != nil {
		return FiringPage{}, scheduleError(schedule, err)
	}
	out := FiringPage{Next: page.Next}
	for _, f := range page.Firings {
		firing := Firing{At: f.At, FiredAt: f.FiredAt, Run: f.Run, Outcome: FiringOverlapped}
		switch f.Run {
		case store.ID{}:
			firing.Outcome = FiringMissed
		case firedID(e.namespace, schedule, f.At):
			firing.Outcome = FiringStarted
		}
		out.Firings = append(out.Firings, firing)
	}
	return out, nil
}

func scheduleError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("schedule %q: %w", name, err)
}
