package worker

import "sync"

// slots counts how many runs may execute at the same time. Runs that go on after
// a wait come before runs that are yet to be claimed.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
	backlog bool            // due runs wait in the store
	freed   chan<- struct{} // told when a slot comes free
}

// take takes up to n slots and returns how many.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
	return n
}

// takeIdle takes a slot for a run that was never in a queue, unless others wait.
func (s *slots) takeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.backlog {
		return false
	}
	s.free--
	return true
}

// setBacklog says whether work that is due waits for slots.
func (s *slots) setBacklog(b bool) {
	s.mu.Lock()
	s.backlog = b
	s.mu.Unlock()
}

// acquire waits for a slot.
func (s *slots) acquire() {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return
	}
	ch := make(chan struct{})
	s.waiting = append(s.waiting, ch)
	s.mu.Unlock()
	<-ch
}

// give gives n slots back.
func (s *slots) give(n int) {
	s.mu.Lock()
	for ; n > 0 && len(s.waiting) > 0; n-- {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
	}
	s.free += n
	s.mu.Unlock()
	if n > 0 {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
