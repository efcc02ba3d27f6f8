package turso

import (
	"slices"
	"sync"
	"time"
)

// A server opens a connection for each stream, and a new connection parses the schema, which takes several times as
// long as a small call. So a store that is busy keeps its streams open and uses them for the next calls, one at a time.
// A stream is named by a baton, and each answer has the next baton. The server closes a stream that was idle for ten
// seconds, and forgets all of them when it restarts; a request on a stream that it does not have is refused before
// anything of it is executed.
//
// A server has a limit of connections to a database, 128 by default, and whoever wants a further one waits. Streams
// live for a short time, so that any number of processes can take turns. A store with little to do keeps none. If an
// answer is lost, the baton is lost with it, and the stream occupies a connection until the server closes it. So a store
// on a bad network keeps none either.

const (
	// maxLife is how long after its begin a stream is closed.
	maxLife = 250 * time.Millisecond
	// busyWithin says how recent the call before must be for a stream to be kept.
	busyWithin = 250 * time.Millisecond
	// maxKept is how many idle streams are kept.
	maxKept = writers + readers
	// After maxLost streams in a minute that the server should have had, none is kept for a minute: perhaps a proxy
	// spreads the requests over several servers.
	maxLost  = 2 * maxKept
	dontKeep = time.Minute
	// If maxUnanswered answers are lost within serverKeeps, the time after which the server closes an idle stream, no
	// stream is kept for as long.
	maxUnanswered = maxKept
	serverKeeps   = 10 * time.Second
)

// stream is a stream of the server. Only one request uses it at a time.
type stream struct {
	baton string // empty: it is new
	begun time.Time
	ids   map[string]int  // SQL texts that are stored in it
	seen  map[string]bool // SQL texts that were sent on it once, and not stored
}

func newStream(now time.Time) *stream {
	return &stream{begun: now, ids: map[string]int{}, seen: map[string]bool{}}
}

// old reports whether a stream is not to be kept any longer.
func (s *streams) old(st *stream, now time.Time) bool { return now.Sub(st.begun) >= s.life }

const (
	maxStored      = 40    // SQL texts that a stream stores; the server allows 50
	maxStoredBytes = 5_000 // of a text; the server refuses to store one that is longer
	maxSeen        = 1000
)

// note records that a text is sent.
func (st *stream) note(sql string) {
	if len(st.seen) >= maxSeen {
		clear(st.seen)
	}
	st.seen[sql] = true
}

// streams are the idle streams of a client.
type streams struct {
	hangUp       func(*stream) // closes a stream
	life, within time.Duration // maxLife, busyWithin

	mu      sync.Mutex
	idle    []*stream // the last one was used last
	last    time.Time // when the last request was sent
	reaping bool      // a timer is set that closes old streams
	reaps   sync.WaitGroup
	gone    often     // streams that the server should have had
	silent  often     // requests whose answers were lost
	off     time.Time // until then none is kept
	closed  bool
}

// often notices what happens often.
type often []time.Time

// again records that it has happened, and reports whether it has n times in a period.
func (o *often) again(now time.Time, n int, period time.Duration) bool {
	if *o = append(*o, now); len(*o) > n {
		*o = (*o)[1:]
	}
	return len(*o) == n && now.Sub((*o)[0]) < period
}

// take returns an idle stream, or a new one, and whether it may be kept.
func (s *streams) take(now time.Time) (st *stream, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := now.Sub(s.last) < s.within
	s.last = now
	on := now.After(s.off)
	for i, st := range slices.Backward(s.idle) {
		if !s.old(st, now) {
			s.idle = slices.Delete(s.idle, i, i+1)
			return st, on
		}
	}
	return newStream(now), busy && on && !s.closed
}

// put keeps a stream until it is old. It returns false if the stream must be dropped.
func (s *streams) put(st *stream, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxKept || s.old(st, now) {
		return false
	}
	s.idle = append(s.idle, st)
	if !s.reaping {
		s.reaping = true
		time.AfterFunc(s.life, s.reap)
	}
	return true
}

// drop closes a stream. The caller does not wait for the server, unless the store is being closed.
func (s *streams) drop(st *stream) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.reaps.Go(func() { s.hangUp(st) })
	}
	s.mu.Unlock()
	if closed {
		s.hangUp(st)
	}
}

// crowded records that the server has no connection left for a new stream.
func (s *streams) crowded(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest(now, dontKeep)
}

// reap closes the streams that are old, and does so again as long as there are others.
func (s *streams) reap() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	var old []*stream
	now := time.Now()
	s.idle = slices.DeleteFunc(s.idle, func(st *stream) bool {
		if s.old(st, now) {
			old = append(old, st)
		}
		return s.old(st, now)
	})
	if s.reaping = len(s.idle) > 0; s.reaping {
		time.AfterFunc(s.life/4, s.reap)
	}
	if len(old) > 0 {
		s.reaps.Add(1)
		defer s.reaps.Done()
	}
	s.mu.Unlock()
	for _, st := range old {
		s.hangUp(st)
	}
}

// lost records that the server does not have a stream that it should have.
func (s *streams) lost(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = nil // if it has restarted, it has none of them
	if s.gone.again(now, maxLost, dontKeep) {
		s.rest(now, dontKeep)
	}
}

// unanswered records that the answer to a request was lost whose stream was to be kept.
func (s *streams) unanswered(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent.again(now, maxUnanswered, serverKeeps) {
		s.rest(now, serverKeeps)
	}
}

// rest makes the client keep no stream for a time. The caller holds mu.
func (s *streams) rest(now time.Time, d time.Duration) {
	if until := now.Add(d); until.After(s.off) {
		s.off = until
	}
}

// giveUp makes the client keep no stream any more. On a replica they end whenever one call loses the way to the primary.
func (s *streams) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.closed = nil, true
}

// close closes the idle streams; no stream is kept from then on.
func (s *streams) close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	for _, st := range idle {
		s.reaps.Go(func() { s.hangUp(st) })
	}
	s.mu.Unlock()
	s.reaps.Wait()
}
