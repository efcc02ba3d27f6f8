package exec

import "runtime"

// One mutex guards an invocation. Functions whose names end in Locked require that it is
// held.
//
// A goroutine of the run may have to end in the middle of an operation, because the run
// was suspended or closed. It then calls exit, with or without the lock. So a function
// that locks must defer the unlock, and a function that releases the lock temporarily
// must use unlocked, which always takes it again.

// locked calls fn with the lock held.
func (inv *Invocation) locked(fn func()) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	fn()
}

// unlocked calls fn, which may block, without the lock that the caller holds.
func (inv *Invocation) unlocked(fn func()) {
	inv.mu.Unlock()
	defer inv.mu.Lock()
	fn()
}

// exit ends the calling goroutine of a closed invocation. User code cannot recover from it.
func exit() { runtime.Goexit() }

// exitIfClosedLocked ends the calling goroutine if the invocation was closed.
func (inv *Invocation) exitIfClosedLocked() {
	if inv.ending.closed {
		exit()
	}
}

func (inv *Invocation) exitIfClosed() { inv.locked(inv.exitIfClosedLocked) }
