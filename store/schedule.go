package store

import (
	"context"
	"time"
)

// Schedules stores cron rules and their firings. The rules at [Store] hold for every method.
type Schedules interface {
	// PutSchedule creates a schedule, or replaces the one of that name, and returns it as stored.
	// LastAt, CreatedAt and the firings of a schedule that is replaced stay. Each put sets a later
	// UpdatedAt, whatever the clock says. The store sets LastAt, CreatedAt and UpdatedAt. P3:
	// readers always see the old schedule or the new one, completely.
	//
	// A store with hints sends a HintRescan. P4: a repeated put stores the same rule. It returns
	// ErrInvalid or ErrTooLarge.
	PutSchedule(ctx context.Context, p PutScheduleParams) (Schedule, error)

	// DeleteSchedule deletes a schedule and its firings; its runs stay. It returns ErrNotFound if
	// there is none, also if the call was applied, its answer was lost, and it is sent again.
	DeleteSchedule(ctx context.Context, p DeleteScheduleParams) error

	// ListSchedules returns a page of the schedules, of the given names or all, by name. With Due
	// it returns those that are not paused and whose NextAt is not after the store's clock, by
	// NextAt, without a cursor, because firing a schedule removes it from the list. Except excludes
	// names from the due schedules; without Due it is ErrInvalid.
	//
	// Next is the cursor of the next page, and empty on the last page. NextDue is the
	// earliest NextAt of all schedules that are not paused, Later the earliest of those that
	// are not due; zero: none.
	//
	// A page ends before the schedule whose input and meta would bring those of the page above
	// [PageBytes]; the first schedule is always returned. P14: schedules that exist during the
	// whole listing are returned exactly once, whatever is put or deleted in the meantime. A cursor
	// of another query is ErrInvalid.
	ListSchedules(ctx context.Context, p ListSchedulesParams) (SchedulePage, error)

	// Fire fires one time of a schedule: in one write (P3), it records the firing, creates the run
	// as [Runs.Create] would, and sets the schedule's NextAt to Next and its LastAt to At. Without
	// a Run, the firing is recorded as skipped. If another run holds the run's external id, the
	// firing names that run and creates none (P8).
	//
	// P10: of any number of calls for one (schedule, fire time), one fires. The others report that
	// firing with Fired false and no error. They advance a schedule that was put back to that time,
	// unless Seen is set and is not its UpdatedAt. A call whose answer was lost can therefore be
	// sent again (P4).
	//
	// P13: if At is after the store's clock, Fire returns ErrInvalid. It returns ErrConflict if
	// that time has not been fired and the schedule's NextAt is not At, or Seen is not its
	// UpdatedAt: the schedule was put in the meantime, and Run and Next belong to a rule that may
	// no longer hold.
	//
	// Each call that does not fail deletes the oldest firings of the schedule that are
	// before Forget, up to [MaxForget] of them: their times may fire again if the schedule
	// is put back to them.
	//
	// It returns ErrNotFound if there is no such schedule, and the errors of creating the run:
	// ErrInvalid, ErrTooLarge, ErrAlreadyExists. A call that fails changes nothing.
	Fire(ctx context.Context, p FireParams) (FireResult, error)

	// ListFirings returns a page of a schedule's firings, newest first. Next is the cursor of the
	// next page, and empty on the last page. P14: each firing that exists during the whole listing
	// is returned exactly once; a cursor of another query is ErrInvalid. A firing has two times and
	// an ID, so that MaxPage of them stay below [PageBytes]. It returns ErrNotFound if there is no
	// such schedule.
	ListFirings(ctx context.Context, p ListFiringsParams) (FiringPage, error)
}

// Schedule is a rule that starts runs. The store keeps the rule and the next fire time; the engine
// knows what the rule means.
type Schedule struct {
	Name      string
	Workflow  string
	Queue     string
	Spec      string // the cron expression, opaque
	Input     []byte
	Meta      []byte // for the engine: zone, catch-up, overlap
	Paused    bool
	NextAt    time.Time // zero: never again
	LastAt    time.Time // the last fire time; set by the store
	CreatedAt time.Time // set by the store
	UpdatedAt time.Time // set by the store: when it was last put; it increases with each put, whatever the clock says
}

// PutScheduleParams is the input of [Schedules.PutSchedule].
type PutScheduleParams struct {
	Namespace string
	Schedule  Schedule
	Now       time.Time
	Record    []Action // see [Journal]
}

// DeleteScheduleParams is the input of [Schedules.DeleteSchedule].
type DeleteScheduleParams struct {
	Namespace string
	Name      string
	Now       time.Time // of the Record
	Record    []Action  // see [Journal]
}

// ListSchedulesParams is the input of [Schedules.ListSchedules].
type ListSchedulesParams struct {
	Namespace string
	Names     []string // empty: all
	Due       bool
	Except    []string // with Due: names to leave out
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

// FireParams is the input of [Schedules.Fire].
type FireParams struct {
	Namespace string
	Schedule  string
	At        time.Time
	Seen      time.Time // the schedule's UpdatedAt when it was read; zero: it does not matter
	Next      time.Time // zero: never again
	// Run is the run to create; nil: the firing is recorded as skipped. It is created without a
	// lease, holds its external id while it is active, and has no Digest.
	Run    *NewRun
	Forget time.Time // not after At; zero: no firings are deleted
	Now    time.Time
}

// MaxForget is the largest number of firings that a call of Fire deletes.
const MaxForget = 10

// FireResult describes the firing. Run is the run that it created, or the active run that holds the
// external id; zero if skipped.
//
// Made says that this call created the run. If a firing created none, Run is the run of that ID
// that existed already, or that other run.
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

// ListFiringsParams is the input of [Schedules.ListFirings].
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
