package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/cron"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// Pass is what a pass of housekeeping has done, and when there is something to do again.
type Pass struct {
	Fired   int // fire times for which a run was started
	Skipped int // firings that were recorded without a run: missed, or overlapped
	Waiting int // schedules that are due and wait for their previous run
	Purged  int // runs deleted
	Workers int // registrations removed, of workers that had died
	Dropped int // changes that were dropped: they had waited in a subscription for too long

	// Next is when the next fire time is due, by this machine's clock. Zero means that no
	// schedule has one.
	Next time.Time
	// Again is when to try again what is due and could not be done. Zero means nothing.
	Again time.Time
	// Elsewhere says that another process is firing: what is due was left to it.
	Elsewhere bool
}

func (p *Pass) add(q Pass) {
	p.Fired, p.Skipped, p.Purged, p.Workers, p.Dropped = p.Fired+q.Fired, p.Skipped+q.Skipped, p.Purged+q.Purged, p.Workers+q.Workers, p.Dropped+q.Dropped
}

// Housekeep does one pass of the work that workers do in addition to their runs: it fires the
// schedules that are due, deletes the runs that retention says to delete (unless that was done not
// long ago), removes the registrations of workers that died long ago, and drops changes that have waited in a
// subscription for too long. A program without a
// permanent worker calls it from time to time; so may a test. It may run at the same time as
// workers and as other calls of Housekeep. What fails is logged and left to the next pass. The
// error joins all failures.
//
// Deadlines, and the runs of workers that have died, need no housekeeping: such runs can be
// claimed at once.
func (e *Engine) Housekeep(ctx context.Context) (Pass, error) {
	h := e.housekeeper("pass "+store.NewID().String(), lockFor)
	pass, err := h.fireDue(ctx)
	h.release(ctx)
	tidied, tidyErr := h.tidy(ctx)
	pass.add(tidied)
	return pass, errors.Join(err, tidyErr)
}

// lockFor is how long a housekeeping lock is held without renewal. A process that dies
// while it fires delays the others by at most that.
const lockFor = 10 * time.Second

// The locks of housekeeping.
const (
	firingLock    = "pawl.schedules.fire"
	retentionLock = "pawl.retention"
)

// A housekeeper does the housekeeping of a namespace, pass after pass. Of any number of
// housekeepers, in any processes, one at a time does each part: it holds a named lock of
// the store, which it takes only if there is something to do.
type housekeeper struct {
	engine *Engine
	owner  string
	hold   time.Duration

	mu    sync.Mutex
	waits map[string]wait // by schedule

	locks sync.Mutex
	until time.Time // the firing lock is held until then, by this process's monotonic clock

	tidied tidied
}

// wait is why a due schedule could not be fired.
type wait struct {
	until time.Time
	run   store.ID // the previous run, if that is the reason
	n     int      // the number of attempts
}

// housekeeper creates a housekeeper. owner is its name in the store, and hold is how long
// it may delay the others if it dies. A worker creates its own.
func (e *Engine) housekeeper(owner string, hold time.Duration) *housekeeper {
	return &housekeeper{engine: e, owner: owner, hold: hold, waits: make(map[string]wait)}
}

const (
	dueBatch  = 100 // schedules that are read at a time
	fireBatch = 50  // fire times of one schedule at a time
	firers    = 8   // schedules that are fired at the same time: they share writes
	// Whether the run before has ended is looked up this often, at first and later,
	// where no hint tells; and a schedule that cannot be fired is tried again.
	blockedWait    = time.Second
	maxBlockedWait = 15 * time.Second
	brokenWait     = 30 * time.Second
)

// fireDue fires what is due, in bounded batches, until nothing is due.
func (h *housekeeper) fireDue(ctx context.Context) (Pass, error) {
	var pass Pass
	for {
		page, err := h.engine.listSchedules(ctx, store.ListSchedulesParams{Due: true, Limit: dueBatch})
		answered := time.Now()
		if err != nil {
			return pass, fmt.Errorf("due schedules: %w", err)
		}
		local := func(t time.Time) time.Time { return answered.Add(t.Sub(page.Now)) }
		due, waiting, again := h.ready(page.Schedules, answered)
		if len(due) == 0 && len(waiting) > 0 {
			// Schedules after those that wait get their turn too.
			rest, err := h.engine.listSchedules(ctx, store.ListSchedulesParams{Due: true, Limit: dueBatch, Except: waiting})
			if err != nil {
				return pass, fmt.Errorf("due schedules: %w", err)
			}
			due = rest.Schedules
		}
		if len(due) == 0 {
			pass.Waiting, pass.Again = len(waiting), again
			if !page.Later.IsZero() {
				pass.Next = local(page.Later)
			}
			return pass, nil
		}
		res, err := h.lock(ctx)
		if err != nil {
			return pass, fmt.Errorf("the lock %q: %w", firingLock, err)
		}
		if !res.Held {
			pass.Elsewhere, pass.Again = true, local(res.Until)
			return pass, nil
		}
		done, err := h.fireAll(ctx, due, page.Now)
		pass.add(done)
		if err != nil {
			return pass, err
		}
	}
}

// ready removes the schedules that must wait. If all must wait, it returns their names
// and when to retry the first of them.
func (h *housekeeper) ready(schedules []store.Schedule, now time.Time) (due []store.Schedule, waiting []string, again time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range schedules {
		if !h.waits[s.Name].until.After(now) {
			due = append(due, s)
		}
	}
	if len(due) > 0 || len(schedules) == 0 {
		return due, nil, again
	}
	for name, w := range h.waits {
		if w.until.After(now) {
			waiting, again = append(waiting, name), earliest(again, w.until)
		}
	}
	return nil, waiting, again
}

// earliest returns the earlier time; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ended records that a run is final; the zero id means that any run may be. It reports
// whether a schedule was waiting for it, so that fireDue has something to do.
func (h *housekeeper) ended(run store.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := false
	for name, w := range h.waits {
		if !w.run.IsZero() && (w.run == run || run.IsZero()) {
			w.until, found = time.Time{}, true
			h.waits[name] = w
		}
	}
	return found
}

// lock takes or renews the lock under which schedules are fired. A process with much to
// fire keeps it; other processes leave due schedules to the holder.
func (h *housekeeper) lock(ctx context.Context) (store.LockResult, error) {
	h.locks.Lock()
	defer h.locks.Unlock()
	asked := time.Now()
	if h.until.Sub(asked) > h.hold/2 {
		return store.LockResult{Held: true, Owner: h.owner}, nil
	}
	res, err := h.engine.lock(ctx, firingLock, h.owner, h.hold)
	if h.until = (time.Time{}); err == nil && res.Held {
		h.until = asked.Add(h.hold)
	}
	return res, err
}

func (e *Engine) lock(ctx context.Context, name, owner string, hold time.Duration) (res store.LockResult, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		res, err = e.store.Lock(ctx, store.LockParams{Namespace: e.namespace, Name: name, Owner: owner, For: hold})
		return err
	})
	return res, err
}

// release lets others fire at once. The housekeeper may continue to be used.
func (h *housekeeper) release(ctx context.Context) {
	h.locks.Lock()
	defer h.locks.Unlock()
	if h.until.IsZero() {
		return
	}
	h.until = time.Time{}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := h.engine.lock(ctx, firingLock, h.owner, 0); err != nil {
		h.engine.log.Debug("failed to release a lock; it will expire", "lock", firingLock, "error", err)
	}
}

// fireAll fires a batch of each schedule; now is the store's time.
func (h *housekeeper) fireAll(ctx context.Context, due []store.Schedule, now time.Time) (Pass, error) {
	var mu sync.Mutex
	var pass Pass
	var errs []error
	var wg sync.WaitGroup
	places := make(chan struct{}, firers)
	for _, v := range due {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			one, err := h.fire(ctx, v, now)
			mu.Lock()
			defer mu.Unlock()
			pass.add(one)
			if err != nil {
				errs = append(errs, scheduleError(v.Name, err))
			}
		})
	}
	wg.Wait()
	return pass, errors.Join(errs...)
}

// fire fires a batch of one schedule's due times. An error means that the store is
// unreachable. A problem with the schedule itself is logged, and the schedule waits.
func (h *housekeeper) fire(ctx context.Context, v store.Schedule, now time.Time) (Pass, error) {
	pass, blocked, err := h.engine.fireSchedule(ctx, v, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waits[v.Name]
	switch {
	case err == nil && blocked.IsZero(), errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		delete(h.waits, v.Name) // fired, or changed in the meantime
		return pass, nil
	case err == nil:
		if w.run != blocked {
			w = wait{run: blocked}
		}
		w.until = time.Now().Add(min(blockedWait<<min(w.n, 10), maxBlockedWait))
	case store.Retryable(err) || ctx.Err() != nil:
		return pass, err
	default:
		w.run, w.until = store.ID{}, time.Now().Add(brokenWait)
		h.engine.log.Error("failed to fire a due schedule; retrying", "schedule", v.Name, "due", v.NextAt, "in", brokenWait, "error", err)
	}
	w.n++
	h.waits[v.Name] = w
	return pass, nil
}

// fireSchedule fires up to a batch of the schedule's due times; blocked is the run whose
// end they wait for.
func (e *Engine) fireSchedule(ctx context.Context, v store.Schedule, now time.Time) (pass Pass, blocked store.ID, err error) {
	s, err := scheduleOf(v)
	if err != nil {
		return pass, blocked, err
	}
	rule, err := cron.Parse(s.Spec, s.TimeZone)
	if err != nil {
		return pass, blocked, err
	}
	inTurn := s.Overlap == OverlapQueue || s.Overlap == OverlapCancel
	var freed time.Time // when the previous run ended
	if inTurn {
		run, err := e.before(ctx, &s)
		if err != nil {
			return pass, blocked, err
		}
		if !run.ID.IsZero() && !run.Status.Final() {
			return pass, run.ID, nil
		}
		freed = run.FinishedAt
	}

	many := 1
	if s.CatchUp == CatchUpAll {
		many = s.MaxCatchUp
	}
	times := rule.Latest(s.NextAt, now, many)
	if s.CatchUp == CatchUpNone && len(times) > 0 {
		if onTime := times[0]; now.Sub(onTime) > Lateness && now.Sub(freed) > Lateness {
			times = nil
		}
	}
	fire := func(at, next time.Time, run *store.NewRun) (on bool, err error) {
		p := store.FireParams{Namespace: e.namespace, Schedule: s.Name, At: at, Seen: v.UpdatedAt, Next: next, Run: run, Forget: e.forgetFirings(at, now)}
		err = e.retry(ctx, func(ctx context.Context) error {
			res, err := e.store.Fire(ctx, p)
			if err == nil && res.Made {
				e.telemetry().Started(telemetry.FromSchedule, store.RunCount{Queue: run.Queue, Workflow: run.Workflow, Count: 1})
			}
			switch {
			case err != nil || !res.Fired: // or another process has, and may have continued
			case run != nil && res.Run == run.ID:
				pass.Fired++
			default:
				pass.Skipped++
			}
			on = err == nil && res.Fired
			return err
		})
		return on, err
	}
	switch {
	case len(times) == 0:
		_, err := fire(s.NextAt, rule.After(s.NextAt, now), nil)
		return pass, blocked, err
	case times[0].After(s.NextAt):
		if on, err := fire(s.NextAt, times[0], nil); err != nil || !on {
			return pass, blocked, err
		}
	}
	for i, at := range times[:min(fireBatch, len(times))] {
		next := rule.After(at, now)
		if i+1 < len(times) {
			next = times[i+1]
		}
		on, err := fire(at, next, s.fired(e.namespace, at))
		if err != nil || !on || inTurn { // with inTurn, the next one waits for this one
			return pass, blocked, err
		}
	}
	return pass, blocked, nil
}

// forgetFirings returns the time before which firings are deleted with this firing.
func (e *Engine) forgetFirings(at, now time.Time) time.Time {
	if e.keepFirings <= 0 {
		return time.Time{}
	}
	if old := now.Add(-e.keepFirings); old.Before(at) {
		return old
	}
	return at
}

// before returns the schedule's run that a new run would follow, or zero. If it is active
// and the policy is cancel, it is canceled.
func (e *Engine) before(ctx context.Context, s *Schedule) (run store.Run, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		run, err = e.store.Find(ctx, store.FindParams{Namespace: e.namespace, ExternalID: ScheduleID(s.Name)})
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Run{}, nil
	case err != nil || s.Overlap != OverlapCancel || run.Status.Final() || run.Status == store.Canceling:
		return run, err
	}
	err = e.Cancel(ctx, run.ID, fmt.Sprintf("schedule %q is due again", s.Name))
	if errors.Is(err, store.ErrFinished) || errors.Is(err, store.ErrNotFound) {
		err = nil // it has ended in the meantime
	}
	if err != nil {
		return run, err
	}
	return e.Get(ctx, run.ID)
}
