package turso

import (
	"sync"
	"time"
)

// A server opens a connection for each stream, and a new connection parses the schema, which takes several times as
// long as a small call. So streams are kept open and used for the next calls, one at a time. A stream is named by a
// baton, and each answer has the next baton. The server closes a stream that was idle for ten seconds, and forgets all
// of them when it restarts; a request on a stream that it does not have is refused before anything of it is executed.

const (
	// keepIdle is how long a stream is kept without a use; it is well below the server's own limit.
	keepIdle = 5 * time.Second
	// maxKept is how many idle streams are kept.
	maxKept = writers + readers
	// After maxLost streams in a minute that the server should have had, none is kept for a minute: perhaps a proxy
	// spreads the requests over several servers.
	maxLost  = 2 * maxKept
	dontKeep = time.Minute
)

// stream is a stream of the server. Only one request uses it at a time.
type stream struct {
	baton string // empty: it is new
	idle  time.Time
	ids   map[string]int  // SQL texts that are stored in it
	seen  map[string]bool // SQL texts that were sent on it once, and not stored
}

func newStream() *stream { return &stream{ids: map[string]int{}, seen: map[string]bool{}} }

const (
	maxStored = 40 // SQL texts that a stream stores; the server allows 50
	maxSeen   = 1000
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
	mu     sync.Mutex
	idle   []*stream   // the last one was used last
	gone   []time.Time // when the last maxLost streams were lost
	off    time.Time   // until then none is kept
	closed bool
}

// take returns an idle stream, or a new one.
func (s *streams) take(now time.Time) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n = len(s.idle) {
		last := s.idle[n-1]
		s.idle = s.idle[:n-1]
		if now.Sub(last.idle) < keepIdle {
			return last
		}
		s.idle = nil // the others have been idle for longer
	}
	return newStream()
}

// keeps reports whether a stream may be kept.
func (s *streams) keeps(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && now.After(s.off)
}

// put keeps a stream. It returns false if the caller must close it.
func (s *streams) put(st *stream, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxKept {
		return false
	}
	st.idle = now
	s.idle = append(s.idle, st)
	return true
}

// lost records that the server does not have a stream that it should have.
func (s *streams) lost(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = nil // if it has restarted, it has none of them
	if s.gone = append(s.gone, now); len(s.gone) > maxLost {
		s.gone = s.gone[1:]
	}
	if len(s.gone) == maxLost && now.Sub(s.gone[0]) < dontKeep {
		s.off = now.Add(dontKeep)
	}
}

// giveUp prevents that streams are kept. On a replica they end whenever one call loses the way to the primary.
func (s *streams) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.closed = nil, true
}

// close returns the idle streams, and no stream is kept from then on.
func (s *streams) close() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle
	s.idle, s.closed = nil, true
	return idle
}
