package postgres

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// While somebody holds an old snapshot open, what runs leave behind in the index
// of what is claimable cannot be cleared away, and it lies where claims look
// first. So a store remembers where in each lane the first run was, and when its
// looks from the very beginning have become long, most begin there.
//
// A run may come to lie before that place: its transaction was slow, or it was
// paused. Therefore a look begins somewhat earlier, at times much earlier, and at
// times at the beginning; each depth comes as often as a thirtieth of the time
// allows. A run that lies so far back is found late, but the later the farther.
type window struct {
	mu     sync.Mutex
	floors []map[int16]int64 // for each queue and workflow of the demands, by priority
	again  [len(depths)]time.Time
	long   [len(depths)]time.Duration // of the last look of that depth; 0: it was short
	lanes  time.Time                  // when they were healed: see healLanes
	before uint64                     // failures of the store before that
	known  uint64                     // failures of the store before what is known of the lanes
	quiet  uint64                     // 1 above what had stirred the store when nothing was due; 0: something was
}

// depths are how far before the known beginning a look begins, and how far beyond
// the present it looks for what is next; 0: without end.
var depths = [...]time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 20 * time.Second, 0}

const (
	shortLook = 1000 // index entries that any look may pass in vain
	lookShare = 30   // of the time, a part for long looks of one depth
)

// look is what one claim looks at.
type look struct {
	level  int
	floors []*string // JSON, from priorities to times; nil: everything
	within *int64    // how far beyond the present, in microseconds; nil: without end
}

func everywhere(pairs int) look { return look{level: len(depths) - 1, floors: make([]*string, pairs)} }

// window returns that of a claim's demands.
func (s *Store) window(namespace string, queues, workflows []string) *window {
	var key strings.Builder
	for _, list := range [][]string{{namespace}, queues, workflows} {
		for _, name := range list {
			key.WriteString(name)
			key.WriteByte(0) // in no name
		}
	}
	w, _ := s.windows.LoadOrStore(key.String(), &window{floors: make([]map[int16]int64, len(queues))})
	return w.(*window)
}

// healEvery is how often claims look for runs without a lane.
const healEvery = time.Minute

// heals reports that it is time to.
func (w *window) heals(now time.Time, failures uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.before != failures || now.Sub(w.lanes) >= healEvery
}

func (w *window) healed(now time.Time, failures uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes, w.before = now, failures
}

// doubt forgets what was known before the server was lost: the next look begins at the
// beginning.
func (w *window) doubt(failures uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known != failures {
		w.known, w.again, w.quiet = failures, [len(depths)]time.Time{}, 0
	}
}

// rests reports that nothing was due at the last claim and no hint has told of
// anything since.
func (w *window) rests(stirred uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet == stirred+1
}

// found takes down whether anything was due at a claim, before which stirred was
// read.
func (w *window) found(any bool, stirred uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = stirred + 1
	if any {
		w.quiet = 0
	}
}

// look chooses the deepest look whose time has come.
func (w *window) look(now time.Time) look {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := everywhere(len(w.floors))
	for l.level > 0 && now.Before(w.again[l.level]) {
		l.level--
	}
	w.again[l.level] = now.Add(lookShare * w.long[l.level]) // for others who look meanwhile
	depth := depths[l.level]
	if depth == 0 {
		return l
	}
	within := depth.Microseconds()
	l.within = &within
	for i, byPriority := range w.floors {
		b := []byte{'{'}
		for priority, at := range byPriority {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '"'), int64(priority), 10)
			b = strconv.AppendInt(append(b, '"', ':'), at-within, 10)
		}
		text := string(append(b, '}'))
		l.floors[i] = &text
	}
	return l
}

// seen takes down what a look found: the first run that is left in each lane, and
// how many index entries it passed in vain, in what time.
func (w *window) seen(l look, at time.Time, lanes []laneNext, passed int64, took time.Duration) {
	if passed <= shortLook {
		took = 0 // whatever else took so long
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	floors := make([]map[int16]int64, len(w.floors))
	for _, n := range lanes {
		if floors[n.pair] == nil {
			floors[n.pair] = map[int16]int64{}
		}
		first := at.UnixMicro()
		if !n.due.IsZero() {
			first = min(first, n.due.UnixMicro())
		}
		floors[n.pair][n.priority] = first
	}
	w.floors = floors
	w.took(l, took)
}

// failed takes down a look that did not come to an end, perhaps for its length.
func (w *window) failed(l look, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took(l, min(took, 2*time.Second))
}

func (w *window) took(l look, long time.Duration) {
	w.long[l.level] = long
	w.again[l.level] = time.Now().Add(lookShare * long)
}

// laneNext is when the first run that is left in a lane is due; zero: there is
// none, so far as was looked.
type laneNext struct {
	pair     int64
	priority int16
	due      time.Time
}

// earliest is the time of the next run in any lane. Of what lies beyond the look
// nothing is known: it may be the next.
func (l look) earliest(now time.Time, lanes []laneNext) (due time.Time) {
	for _, n := range lanes {
		if !n.due.IsZero() && (due.IsZero() || n.due.Before(due)) {
			due = n.due
		}
	}
	if l.within != nil && due.IsZero() {
		due = now.Add(depths[l.level])
	}
	return due
}
