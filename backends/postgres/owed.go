package postgres

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// owed holds the queues whose work only some processes were told of. Those may be dead or busy:
// work that they have not taken after a moment is announced to all processes.
type owed struct {
	mu     sync.Mutex
	after  time.Duration // how long work may wait for the processes that were told of it
	places map[place]bool
	busy   bool // attend is running
}

const (
	// overdueAfter is the usual value of owed.after.
	overdueAfter = 100 * time.Millisecond
	// overdueWithin limits how far back attend looks for work. Older work was announced to all
	// processes before, and polling finds it.
	overdueWithin = 10 * time.Second
)

func (o *owed) add(r *relay, at place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.places == nil {
		o.places = map[place]bool{}
	}
	o.places[at] = true
	if !o.busy {
		o.busy = true
		r.tasks.Add(1)
		go o.attend(r)
	}
}

// attend checks the work until none is overdue.
func (o *owed) attend(r *relay) {
	defer r.tasks.Done()
	wait := o.after
	for {
		pause(r.ctx, wait)
		o.mu.Lock()
		places := o.places
		o.places = nil
		if len(places) == 0 || r.ctx.Err() != nil {
			o.busy = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		late := r.overdue(places)
		wait = o.after
		if len(late) > 0 {
			r.broadcast(late)
			wait = min(2*wait, time.Second)
			o.mu.Lock()
			if o.places == nil {
				o.places = map[place]bool{}
			}
			for _, at := range late {
				o.places[at] = true
			}
			o.mu.Unlock()
		}
	}
}

// call announces the owed work to all processes without checking it, because this process is
// ending.
func (o *owed) call(r *relay) {
	o.mu.Lock()
	places := slices.Collect(maps.Keys(o.places))
	o.places = nil
	o.mu.Unlock()
	r.broadcast(places)
}

// broadcast announces work to all other processes.
func (r *relay) broadcast(places []place) {
	var hints []store.Hint
	for _, at := range places {
		hints = append(hints, store.Hint{Kind: store.HintQueue, Namespace: at.namespace, Queue: at.queue})
	}
	if len(hints) > 0 {
		_ = r.store.write(r.ctx, r.messages(map[string][]store.Hint{r.all: hints})...)
	}
}

// overdueQueues returns those of the queues $3 of namespace $2 that have work that is due for $4
// but not for $5, and is not paused.
var overdueQueues = sqlkit.Text(`SELECT q.queue FROM unnest($3::text[]) q(queue) WHERE EXISTS (
	SELECT 1 FROM pawl.lanes lane CROSS JOIN LATERAL (SELECT 1 FROM pawl.runs x
			WHERE x.namespace=$2::text AND x.queue=lane.queue AND x.workflow=lane.workflow AND x.pin='' AND x.priority=lane.priority
				AND x.visible_at IS NOT NULL AND x.status<>{paused} AND (x.flow IS NULL OR x.leased) AND x.visible_at>=` + now + `-$5::bigint AND x.visible_at<=` + now + `-$4::bigint ORDER BY x.visible_at, x.id LIMIT 1) c
		WHERE lane.namespace=$2::text AND lane.queue=q.queue
			AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND (p.queue=lane.queue AND p.workflow='' OR p.queue='' AND p.workflow=lane.workflow)))`)

// overdue returns the queues with work that nobody has taken.
func (r *relay) overdue(places map[place]bool) (late []place) {
	queues := map[string][]string{}
	for at := range places {
		queues[at.namespace] = append(queues[at.namespace], at.queue)
	}
	for namespace, list := range queues {
		_ = r.store.read(r.ctx, stmt{ // if this fails, polling finds the work
			sql: overdueQueues, args: []any{setNow(time.Time{}), namespace, list, sqlkit.Span(r.owed.after), sqlkit.Span(overdueWithin)},
			rows: func(scan func(...any) error) error {
				at := place{namespace: namespace}
				err := scan(&at.queue)
				late = append(late, at)
				return err
			},
		})
	}
	return late
}
