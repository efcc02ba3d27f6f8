package postgres

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// While a session holds an old snapshot, dead entries in the index of claimable runs cannot be
// removed, and they lie where claims look first. A store therefore remembers where in each lane the
// first run was. Once looks from the beginning take long, most looks begin there.
//
// A run may appear before that place, because its transaction was slow or it was paused. A look
// therefore begins somewhat earlier, sometimes much earlier, and sometimes at the beginning. Each
// depth may use a thirtieth of the time. The farther back a run lies, the later it is found.
type window struct {
	mu     sync.Mutex
	floors []map[int16]int64 // for each queue, workflow and pin of the demands, by priority
	again  [len(depths)]time.Time
	long   [len(depths)]time.Duration // duration of the last look of that depth; 0: it was short
	lanes  time.Time                  // when they were last healed: see healLanes
	before uint64                     // failures of the store before the last healing
	known  uint64                     // failures of the store before the lanes were last read
	quiet  uint64                     // 1 more than stirred when nothing was due; 0: something was due
	whole  int                        // number of claims that are still to read histories at once
}

// depths are how far before the known beginning a look begins, and how far after the
// present it looks for the next run; 0: no limit.
var depths = [...]time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 20 * time.Second, 0}

const (
	shortLook = 1000 // index entries that any look may pass in vain
	lookShare = 30   // 1/lookShare of the time may be used for long looks of one depth
)

// look is the range that one claim reads.
type look struct {
	level  int
	floors []*string // JSON, from priorities to times; nil: everything
	within *int64    // how far after the present, in microseconds; nil: no limit
}

func everywhere(pairs int) look { return look{level: len(depths) - 1, floors: make([]*string, pairs)} }

// window returns the window of a claim's demands.
func (s *Store) window(namespace string, queues, workflows, pins []string) *window {
	var key strings.Builder
	for _, list := range [][]string{{namespace}, queues, workflows, pins} {
		for _, name := range list {
			key.WriteString(name)
			key.WriteByte(0) // does not occur in names
		}
	}
	w, _ := s.windows.LoadOrStore(key.String(), &window{floors: make([]map[int16]int64, len(queues))})
	return w.(*window)
}

// healEvery is how often claims look for runs without a lane.
const healEvery = time.Minute

// heals reports whether it is time to heal the lanes.
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

// doubt discards what was known before the server was lost: the next look begins at the
// beginning.
func (w *window) doubt(failures uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known != failures {
		w.known, w.again, w.quiet = failures, [len(depths)]time.Time{}, 0
	}
}

// rests reports whether nothing was due at the last claim and no hint has announced
// anything since.
func (w *window) rests(stirred uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet == stirred+1
}

// found records whether anything was due at a claim; stirred was read before the claim.
func (w *window) found(any bool, stirred uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = stirred + 1
	if any {
		w.quiet = 0
	}
}

// wholeClaims is how many claims read histories at once after one that met a history.
const wholeClaims = 100

// meetsNew reports whether the next runs probably have no history.
func (w *window) meetsNew() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole == 0
}

// met records whether a claim that read histories has met one.
func (w *window) met(history bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if history {
		w.whole = wholeClaims
	} else {
		w.whole = max(0, w.whole-1)
	}
}

// look chooses the deepest look that is due.
func (w *window) look(now time.Time) look {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := everywhere(len(w.floors))
	for l.level > 0 && now.Before(w.again[l.level]) {
		l.level--
	}
	w.again[l.level] = now.Add(lookShare * w.long[l.level]) // for concurrent looks
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

// seen records the result of a look: the first remaining run in each lane, how many index entries
// the look passed in vain, and how long that took.
func (w *window) seen(l look, at time.Time, lanes []laneNext, passed int64, took time.Duration) {
	if passed <= shortLook {
		took = 0 // something else took that long
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

// failed records a look that did not finish, perhaps because it was too long.
func (w *window) failed(l look, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took(l, min(took, 2*time.Second))
}

func (w *window) took(l look, long time.Duration) {
	w.long[l.level] = long
	w.again[l.level] = time.Now().Add(lookShare * long)
}

// laneNext is when the first remaining run of a lane is due; zero if the look found none.
type laneNext struct {
	pair     int64
	priority int16
	due      time.Time
}

// earliest returns the time of the next run in any lane. Nothing is known beyond the end of the
// look, so that end may be the next time.
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
