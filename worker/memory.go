package worker

import (
	"context"
	"sync"
	"time"
)

// memory counts the bytes of payloads that a worker holds: those that came with its runs,
// and those that wait for their commit. While there are too many, nothing is claimed, and
// no step begins before commits are done, so that work in progress ends first.
type memory struct {
	mu      sync.Mutex
	limit   int
	claimed int
	waiting int           // bytes waiting for their commit
	room    chan struct{} // closed when commits have made room; nil if nobody waits
	freed   chan<- struct{}
}

// takeClaimed counts the bytes that came with a run.
func (m *memory) takeClaimed(n int) { m.add(n, 0) }

func (m *memory) giveClaimed(n int) { m.add(-n, 0) }

// takeCommit counts bytes that wait for a commit.
func (m *memory) takeCommit(n int) { m.add(0, n) }

func (m *memory) giveCommit(n int) { m.add(0, -n) }

func (m *memory) add(claimed, waiting int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.leftLocked() <= 0
	m.claimed += claimed
	m.waiting += waiting
	if full && m.leftLocked() > 0 {
		signal(m.freed)
	}
	if m.room != nil && m.waiting < m.limit/2 {
		close(m.room)
		m.room = nil
	}
}

func (m *memory) leftLocked() int { return m.limit - m.claimed - m.waiting }

// left returns how many bytes a claim may return.
func (m *memory) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leftLocked()
}

// settle waits, for a limited time, until commits leave room for the output of a step.
func (m *memory) settle(ctx context.Context, closing <-chan struct{}) {
	m.mu.Lock()
	if m.waiting < max(1, m.limit/2) {
		m.mu.Unlock()
		return
	}
	if m.room == nil {
		m.room = make(chan struct{})
	}
	room := m.room
	m.mu.Unlock()
	timer := time.NewTimer(maxSettle) // commits that cannot be written must not stop runs forever
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
	case <-closing:
	case <-ctx.Done():
	}
}

const maxSettle = 5 * time.Second
