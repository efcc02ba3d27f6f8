package store

import "time"

// Schedule is a rule that starts runs. The store keeps the rule and the next
// fire time; what the rule means is the engine's.
type Schedule struct {
	Name      string
	Workflow  string
	Queue     string
	Spec      string // the cron expression, opaque
	Input     []byte
	Meta      []byte // of the engine's own: zone, catch-up, overlap
	Paused    bool
	NextAt    time.Time // zero: never again
	LastAt    time.Time // the last fire time; the store's
	CreatedAt time.Time // the store's
	UpdatedAt time.Time // the store's: when it was last put; later with each time, whatever the clock says
}

// PutScheduleParams is the input of PutSchedule, which makes a schedule or
// replaces it (LastAt, CreatedAt and its firings stay) and returns it as stored. A
// store that gives hints gives a HintRescan. Cases: schedules/put-and-list,
// schedules/replace.
type PutScheduleParams struct {
	Namespace string
	Schedule  Schedule
	Now       time.Time
}

// DeleteScheduleParams is the input of DeleteSchedule, which deletes a schedule
// and its firings; its runs stay. ErrNotFound. Case: schedules/delete.
type DeleteScheduleParams struct {
	Namespace string
	Name      string
}

// ListSchedulesParams is the input of ListSchedules, which lists by name, or,
// with Due, those not paused whose NextAt is not after the store's clock, by
// NextAt (no cursor there: firing them removes them). A page ends before the schedule
// whose input and meta would bring those of the page above [PageBytes]. Cases:
// schedules/due, schedules/pages, schedules/bounded-in-bytes.
type ListSchedulesParams struct {
	Namespace string
	Names     []string // empty: all
	Due       bool
	Except    []string // with Due: names to leave out. Case: schedules/due-except
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
	Now       time.Time
}

// SchedulePage is a page of schedules; Next is empty on the last one. NextDue is
// the earliest NextAt of all schedules that are not paused, Later the earliest of those
// that are not due; zero: none. Now is the store's clock.
type SchedulePage struct {
	Schedules []Schedule
	Next      string
	NextDue   time.Time
	Later     time.Time
	Now       time.Time
}

// FireParams is the input of Fire: in one write, the firing is recorded, the run
// is made as Create would, and the schedule advances to Next.
//
// P10: of any number of calls for one (schedule, fire time), one fires; the
// others report that firing with Fired false and no error, and advance a schedule
// that was put back to that time. Cases: fire/once, fire/put-back,
// fire/race, fire/advances, fire/skip, fire/schedules-apart.
//
// P13: At must not be after the store's clock: ErrInvalid. ErrConflict when that time
// has not been fired and the schedule's NextAt is not At, or Seen is not its UpdatedAt: it
// was put meanwhile, and Run and Next are of a rule that may no longer hold. A call for a time
// that was fired advances a schedule by what it has Seen alone, too.
// ErrNotFound when there is no such schedule. Cases: fire/not-early, fire/put-meanwhile.
//
// Each call that does not fail deletes the oldest firings of the schedule that are
// before Forget, up to [MaxForget] of them: their times may fire again if the schedule
// is put back to them. Case: fire/forgets.
//
// Further cases: fire/edited-meanwhile, fire/external-id-taken,
// fire/all-or-nothing.
type FireParams struct {
	Namespace string
	Schedule  string
	At        time.Time
	Seen      time.Time // the schedule's UpdatedAt when it was read; zero: it does not matter
	Next      time.Time // zero: never again
	Run       *NewRun   // nil: the firing is recorded as skipped
	Forget    time.Time // not after At; zero: none is forgotten
	Now       time.Time
}

// MaxForget is how many firings a call of Fire forgets at most.
const MaxForget = 10

// FireResult is the firing: Run is the run that it made, or the active run whose
// external id stood in the way; zero when skipped.
//
// Made says that this call made the run. A firing that made none has the run of that ID
// that existed already, or that other run. Case: fire/made-once.
type FireResult struct {
	Fired bool
	Made  bool
	Run   ID
}

// Firing is a fire time that has passed.
type Firing struct {
	At      time.Time
	FiredAt time.Time
	Run     ID // zero: skipped
}

// ListFiringsParams is the input of ListFirings, newest first. ErrNotFound when
// there is no such schedule. A firing has two times and an ID, so that MaxPage of them stay
// below [PageBytes]. Case: fire/list.
type ListFiringsParams struct {
	Namespace string
	Schedule  string
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// FiringPage is a page of firings; Next is empty on the last one.
type FiringPage struct {
	Firings []Firing
	Next    string
}
