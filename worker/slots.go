package worker

import "sync"

// slots counts how many runs may execute at the same time, in all and of the
// workflows that have a limit of their own: those need room beside the slot. Runs
// that go on after a wait come before runs that are yet to be claimed.
type slots struct {
	mu      sync.Mutex
	free    int
	rooms   map[string]*room // by workflow; one that is not in it has no limit
	waiting []waiter
	backlog bool            // due runs wait in the store
	freed   chan<- struct{} // told when a slot comes free
	roomy   chan<- struct{} // told when there is room again that was wanted
}

// room counts what a workflow's limit leaves.
type room struct {
	free   int
	wanted bool // runs may wait in the store for it
}

// waiter is a run that goes on when there is a slot, and room, for it.
type waiter struct {
	workflow string
	ch       chan struct{}
}

// limit bounds a workflow's share of the slots.
func (s *slots) limit(workflow string, n int) {
	if s.rooms == nil {
		s.rooms = make(map[string]*room)
	}
	s.rooms[workflow] = &room{free: n}
}

// take takes up to n slots and returns how many.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
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

// giveRoom gives back what a claim has not used; full: there was a run for each.
func (s *slots) giveRoom(workflow string, n int, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[workflow]
	r.free += n
	if r.wanted = r.wanted || full; r.wanted && r.free > 0 {
		r.wanted = false // a run has ended meanwhile
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

// takeLocked takes a slot, with the room that goes with it.
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

// setBacklog says whether work that is due waits for slots.
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

// give gives n slots back that no run has used.
func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(n)
}

func (s *slots) giveLocked(n int) {
	s.free += n
	for i := 0; n > 0 && i < len(s.waiting); {
		if !s.takeLocked(s.waiting[i].workflow) {
			i++ // there is no room for it; others may have some
			continue
		}
		close(s.waiting[i].ch)
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		n--
	}
	if n > 0 {
		signal(s.freed)
	}
}

func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
