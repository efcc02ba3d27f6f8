package worker

import "sync"

// slots counts how many runs may execute at the same time, in total and for each workflow
// with a limit. Runs of such a workflow need room in addition to a slot. Runs that
// continue after a wait come before runs that are yet to be claimed.
type slots struct {
	mu      sync.Mutex
	free    int
	rooms   map[string]*room // by workflow; a workflow without an entry has no limit
	waiting []waiter
	backlog bool            // due runs wait in the store
	freed   chan<- struct{} // signaled when a slot becomes free while due runs wait
	roomy   chan<- struct{} // signaled when wanted room becomes free
}

// room counts what is left of a workflow's limit.
type room struct {
	free   int
	wanted bool // runs may wait in the store for it
}

// waiter is a run that continues when there is a slot, and room, for it.
type waiter struct {
	workflow string
	ch       chan struct{}
}

// limit sets a workflow's share of the slots.
func (s *slots) limit(workflow string, n int) {
	if s.rooms == nil {
		s.rooms = make(map[string]*room)
	}
	s.rooms[workflow] = &room{free: n}
}

// take takes up to n slots and returns their number. If there is none, due runs count as
// waiting.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
	s.backlog = s.backlog || n == 0
	return n
}

// takeRoom takes room for up to n runs of a workflow that has a limit.
func (s *slots) takeRoom(workflow string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[workflow]
	n = min(n, r.free)
	r.free -= n
	r.wanted = n == 0
	return n
}

// giveRoom returns room that a claim has not used; full means that the claim found a run
// for all of it.
func (s *slots) giveRoom(workflow string, n int, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[workflow]
	r.free += n
	if r.wanted = r.wanted || full; r.wanted && r.free > 0 {
		r.wanted = false // a run has ended in the meantime
		signal(s.roomy)
	}
}

// takeIdle takes a slot for a run that was never in a queue, unless others wait.
func (s *slots) takeIdle(workflow string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backlog {
		return false
	}
	if r := s.rooms[workflow]; r != nil && r.wanted {
		return false
	}
	return s.takeLocked(workflow)
}

// takeLocked takes a slot and the room that belongs to it.
func (s *slots) takeLocked(workflow string) bool {
	r := s.rooms[workflow]
	if s.free == 0 || r != nil && r.free == 0 {
		return false
	}
	s.free--
	if r != nil {
		r.free--
	}
	return true
}

// setBacklog records whether due work waits for slots.
func (s *slots) setBacklog(b bool) {
	s.mu.Lock()
	s.backlog = b
	s.mu.Unlock()
}

// acquire waits for a slot for a run of a workflow.
func (s *slots) acquire(workflow string) {
	s.mu.Lock()
	if s.takeLocked(workflow) {
		s.mu.Unlock()
		return
	}
	ch := make(chan struct{})
	s.waiting = append(s.waiting, waiter{workflow, ch})
	s.mu.Unlock()
	<-ch
}

// release gives back the slot of a run of a workflow.
func (s *slots) release(workflow string) {
	s.mu.Lock()
	r := s.rooms[workflow]
	if r != nil {
		r.free++
	}
	s.giveLocked(1)
	wanted := r != nil && r.wanted && r.free > 0
	if wanted {
		r.wanted = false
	}
	s.mu.Unlock()
	if wanted {
		signal(s.roomy)
	}
}

// give returns n slots that no run has used.
func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(n)
}

func (s *slots) giveLocked(n int) {
	s.free += n
	for i := 0; n > 0 && i < len(s.waiting); {
		if !s.takeLocked(s.waiting[i].workflow) {
			i++ // it has no room; others may have some
			continue
		}
		close(s.waiting[i].ch)
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		n--
	}
	if n > 0 && s.backlog {
		signal(s.freed)
	}
}

func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
