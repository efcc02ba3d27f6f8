package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// A run that kills its process takes its neighbors' leases with it, and each of those
// counts a crash. So that it is found out and they are not:
//
//   - Of the suspects, whose leases ran out at least twice in a row, a worker executes one
//     at a time. It puts the others off before it begins anything of the same claim. The
//     turn is over with the lease, with the first progress, or after a while.
//   - A run that has one chance left is executed while nothing else is. The worker gives
//     back what it holds, claims nothing, and marks the run in the store; only a lease
//     that runs out under this mark convicts a run.
//
// The mark, and not the count, makes this certain: a process may die, of another run, just
// when it has claimed a suspect.

// suspects knows whose turn it is.
type suspects struct {
	mu     sync.Mutex
	turn   *exec.Invocation // nil: nobody's
	alone  bool             // nothing else is to be executed
	over   chan struct{}    // closed with the turn
	ended  chan struct{}    // gets a value when an execution has ended meanwhile
	denied int              // tries in a row to be alone that were in vain
	after  time.Time        // when the next try may be
}

// maxTurn bounds a suspect's turn, and how long others wait for one that is to be alone.
const maxTurn = 10 * time.Second

func (w *Worker) turnFor() time.Duration { return min(w.leaseFor, maxTurn) }

// take gives the turn to a suspect, if it is free; alone: with nothing beside it.
func (s *suspects) take(inv *exec.Invocation, alone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil || alone && time.Now().Before(s.after) {
		return false
	}
	s.turn, s.alone, s.over = inv, alone, make(chan struct{})
	return true
}

// end ends a suspect's turn; it may have ended before.
func (s *suspects) end(inv *exec.Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inv != nil && s.turn == inv {
		s.turn, s.alone = nil, false
		close(s.over)
	}
}

// hasEnded notes that a run's execution has ended, or its lease.
func (s *suspects) hasEnded(inv *exec.Invocation) {
	s.end(inv)
	signal(s.ended)
}

// applied notes a commit: the first progress ends a suspect's turn.
func (s *suspects) applied(c *store.Commit) {
	if c.Crashes > 0 {
		return
	}
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn != nil && turn.Lease() == c.Lease {
		s.end(turn)
	}
}

// apart reports whether a run is to be executed alone, and it is another one.
func (s *suspects) apart(inv *exec.Invocation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone && s.turn != inv
}

// execute begins the runs of a claim, each at its turn. It returns when the claimer may go
// on.
func (w *Worker) execute(ctx context.Context, claimed *store.Claimed, asked, answered time.Time) {
	invs := make([]*exec.Invocation, 0, len(claimed.Runs))
	for i := range claimed.Runs {
		if inv := w.admit(&claimed.Runs[i], asked, answered, claimed.Now, byClaim); inv != nil {
			invs = append(invs, inv)
		}
	}
	switch {
	case len(invs) == 0:
	case w.tooLate(asked, answered):
		w.log.Warn("the answer to a claim came after its leases had expired; releasing its runs", "runs", len(invs), "took", answered.Sub(asked), "lease", w.leaseFor)
		giveBack(invs)
		return
	case w.late(answered.Sub(asked)):
		w.extendEarly(invs)
	}
	invs = w.takeUp(w.leave(ctx, invs))
	var suspect *exec.Invocation
	alone := false
	var later, others []*exec.Invocation
	for _, inv := range invs {
		switch s := inv.Suspicion(); {
		case s == exec.Unsuspected:
			others = append(others, inv)
		case suspect == nil && ctx.Err() == nil && w.suspects.take(inv, s == exec.LastChance):
			suspect, alone = inv, s == exec.LastChance
		default:
			later = append(later, inv)
		}
	}
	putOff := w.putOff(later)
	if alone {
		back := giveBack(others)
		wait(ctx, putOff)
		wait(ctx, back)
		w.executeAlone(ctx, suspect)
		return
	}
	if len(later) > 0 || suspect != nil {
		wait(ctx, putOff)
	}
	if suspect != nil {
		go w.executeSuspect(suspect)
	}
	for _, inv := range others {
		go w.executeRun(inv)
	}
}

// putOff gives back suspects whose turn it is not. The channel closes when that is
// durable.
func (w *Worker) putOff(invs []*exec.Invocation) <-chan struct{} {
	return each(invs, func(inv *exec.Invocation) {
		n, _ := exec.Crashes(inv.Run())
		after := w.laterBy(n)
		inv.Logger().Info("the run is a suspect and waits until another suspect's turn ends", "crashes", n, "for", after)
		inv.PutOff(after)
	})
}

// laterBy is how long a suspect waits for its next try. Suspects that died together come
// back apart.
func (w *Worker) laterBy(crashes int) time.Duration {
	most := min(w.leaseFor/3, maxTurn)
	return time.Duration(min(max(crashes-1, 1), 10)) * (most/10 + rand.N(most))
}

// giveBack gives runs back at once that were not begun.
func giveBack(invs []*exec.Invocation) <-chan struct{} {
	return each(invs, func(inv *exec.Invocation) { inv.PutOff(0) })
}

// each calls do for all at the same time; the channel closes when all have returned.
func each(invs []*exec.Invocation, do func(inv *exec.Invocation)) <-chan struct{} {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, inv := range invs {
		wg.Go(func() { do(inv) })
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}

// wait waits for one of both.
func wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// executeSuspect executes a suspect beside runs that are none.
func (w *Worker) executeSuspect(inv *exec.Invocation) {
	n, _ := exec.Crashes(inv.Run())
	inv.Logger().Warn("executing the run as a suspect because its leases expired in a row; no other suspect runs meanwhile", "crashes", n, "max", w.cfg.MaxCrashes)
	inv.Mark(false)
	time.AfterFunc(w.turnFor(), func() { w.suspects.end(inv) })
	w.executeRun(inv)
}

// executeAlone executes a run that has one chance left while nothing else is executed
// here. It returns when others may be again: with the end of the lease, with the first
// progress, or after a turn, which is twice as long for each crash more.
func (w *Worker) executeAlone(ctx context.Context, inv *exec.Invocation) {
	s := &w.suspects
	began := time.Now()
	defer func() {
		s.end(inv)
		s.mu.Lock()
		s.after = time.Now().Add(time.Since(began)) // others get at least half of the time
		s.mu.Unlock()
		signal(w.wake)
	}()
	n, _ := exec.Crashes(inv.Run())
	if !w.quiet(ctx, inv) {
		after := w.laterBy(n)
		inv.Logger().Warn("the run is a suspect that must be executed alone; it waits until the steps of other runs end", "crashes", n, "waited", time.Since(began), "for", after)
		inv.PutOff(after)
		return
	}
	inv.Logger().Warn("executing the run alone; if its lease expires again, the run fails", "crashes", n, "max", w.cfg.MaxCrashes)
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	go func() {
		inv.Mark(true)
		w.executeRun(inv)
	}()
	turn := time.NewTimer(w.turnFor() << min(max(n-w.cfg.MaxCrashes, 0), 5))
	defer turn.Stop()
	select {
	case <-over:
	case <-turn.C:
		unmarked := make(chan struct{})
		go func() {
			defer close(unmarked)
			inv.Mark(false)
		}()
		select {
		case <-over:
		case <-unmarked:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// quiet gives back all that the worker holds but for one run, and waits for the end of
// what is under way: for a turn, which is twice as long after each time that this was in
// vain. It reports whether nothing is executed any more.
func (w *Worker) quiet(ctx context.Context, but *exec.Invocation) bool {
	s := &w.suspects
	timer := time.NewTimer(w.turnFor() << min(s.denied, 10))
	defer timer.Stop()
	for {
		busy := false
		for _, inv := range w.holding() {
			if inv != but {
				busy = true
				inv.Drain()
			}
		}
		if !busy {
			s.denied = 0
			return ctx.Err() == nil
		}
		select {
		case <-s.ended:
		case <-but.Closing():
			return false
		case <-ctx.Done():
			return false
		case <-timer.C:
			s.denied++
			return false
		}
	}
}
