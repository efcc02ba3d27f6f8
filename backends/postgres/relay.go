package postgres

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// relay carries hints between the processes of a schema. NOTIFY takes a lock of the whole server
// when it commits, so hints are sent in transactions of their own: the first at once, those that
// arrive in the meantime together in the next.
//
// There are three kinds of channels, because receiving a notice costs a process more than
// delivering it costs the server:
//
//   - the channel of all processes: rescans, events of runs that a worker holds, and work that no
//     particular worker is told of
//   - the channel of runs: events, ends, states, answers and streams, for processes that wait for runs
//   - one channel for each process: work that its workers are to take
type relay struct {
	store *Store
	all   string // the channel of all processes
	runs  string
	own   string
	self  string // the prefix of this process's messages
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ear   ear
	staff staff
	owed  owed
	fates fates

	mu      sync.Mutex
	pending []sqlkit.Hint
	sending chan struct{} // closed when nothing is left to send; nil: nothing is being sent
}

const (
	maxPending = 4000 // hints; more shrink to one "look again"
	// gap is the pause between two notices: under load there is no hurry.
	gap = 2 * time.Millisecond
)

func newRelay(s *Store) *relay {
	h := fnv.New64a()
	h.Write([]byte(s.config.schema))
	all := "pawl_" + strconv.FormatUint(h.Sum64(), 36)
	self := strconv.FormatUint(rand.Uint64(), 36)
	r := &relay{store: s, all: all, runs: all + "_runs", own: all + "_" + self, self: self, owed: owed{after: overdueAfter}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// publish passes hints on to this process at once and to the others soon.
func (r *relay) publish(hints ...sqlkit.Hint) {
	own := sqlkit.Hinted(hints)
	r.store.way.Announce(own...)
	r.store.tell(own...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	if len(r.pending)+len(hints) > maxPending {
		r.pending = append(r.pending[:0], rescan)
	} else {
		r.pending = append(r.pending, hints...)
	}
	if r.sending == nil {
		r.sending = make(chan struct{})
		r.tasks.Add(1)
		go r.send()
	}
}

// send runs while there is something to send.
func (r *relay) send() {
	defer r.tasks.Done()
	for {
		r.mu.Lock()
		list := r.pending
		r.pending = nil
		if len(list) == 0 || r.ctx.Err() != nil {
			close(r.sending)
			r.sending = nil
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		_ = r.store.write(r.ctx, r.notices(list)...) // hints are lossy
		pause(r.ctx, gap)
	}
}

// rescan is the hint that stands for any.
var rescan = sqlkit.Hint{Hint: store.Hint{Kind: store.HintRescan}}

// notices returns the statements that send hints, each to the processes that need it.
func (r *relay) notices(hints []sqlkit.Hint) (stmts []stmt) {
	routes := map[string][]store.Hint{}
	work := map[place]int{} // number of runs; 0: unknown
	for i := range hints {
		h := &hints[i]
		switch h.Kind {
		case store.HintQueue:
			at := place{h.Namespace, h.Queue}
			if n, seen := work[at]; !seen || n > 0 {
				work[at] = n + h.Runs
			}
			if h.Runs == 0 {
				work[at] = 0
			}
		case store.HintFinal, store.HintState, store.HintAnswer, store.HintStream:
			routes[r.runs] = append(routes[r.runs], h.Hint)
		case store.HintEvent:
			if h.Leased {
				routes[r.all] = append(routes[r.all], h.Hint)
			} else {
				routes[r.runs] = append(routes[r.runs], h.Hint)
			}
		default:
			routes = map[string][]store.Hint{r.all: {h.Hint}}
			return r.messages(routes)
		}
	}
	for at, n := range work {
		for _, channel := range r.hearers(at, n) {
			routes[channel] = append(routes[channel], store.Hint{Kind: store.HintQueue, Namespace: at.namespace, Queue: at.queue})
		}
	}
	return r.messages(routes)
}

// messages returns the statements that send hints on their channels.
func (r *relay) messages(routes map[string][]store.Hint) (stmts []stmt) {
	for channel, hints := range routes {
		for _, text := range encode(r.self, hints) {
			stmts = append(stmts, stmt{sql: notify, args: []any{channel, text}})
		}
	}
	return stmts
}

const notify = `SELECT pg_notify($1::text, $2::text)`

// hearers returns the channels on which work in a queue is announced: those of as many processes as
// the runs need, or the channel of all processes.
func (r *relay) hearers(at place, runs int) []string {
	if runs > 0 {
		if some, ok := r.staff.pick(r.ctx, r, at, runs); ok {
			r.owed.add(r, at)
			return some
		}
	}
	return []string{r.all}
}

// farewell is how long closing a store may take to send its last hints.
const farewell = time.Second

// flush waits a limited time until the hints are sent. Without it, the work of a program that
// writes once and ends would be found only by polling.
func (r *relay) flush() {
	late := time.NewTimer(farewell)
	defer late.Stop()
	if fates := r.fates.settled(); fates != nil {
		select {
		case <-fates:
		case <-late.C:
			return
		}
	}
	r.mu.Lock()
	sending := r.sending
	r.mu.Unlock()
	if sending != nil {
		select {
		case <-sending:
		case <-late.C:
			return
		}
	}
	r.owed.call(r)
}

func (r *relay) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.tasks.Wait()
}
