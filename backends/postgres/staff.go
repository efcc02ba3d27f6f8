package postgres

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// place is a queue of a namespace.
type place struct{ namespace, queue string }

// staff knows the workers of this process, which other processes may address, and the workers of
// the other processes.
type staff struct {
	mu    sync.Mutex
	here  map[[2]string]bool // namespace and id of the workers of this process
	lists map[string]*roster // by namespace
}

// roster is the list of who serves the queues of a namespace.
type roster struct {
	read   time.Time
	queues map[string]*crew
}

// crew is the set of processes that serve a queue.
type crew struct {
	slots map[string]int // by channel
	takes string         // the workflows that all of them take from it, and their build
	mixed bool           // they differ in that, or some cannot be addressed
}

const (
	// fresh is how long a roster is used.
	fresh = time.Second
	// maxStaff limits a roster. With more workers, all processes are told of all work.
	maxStaff = 1000
)

// addressable: the workers of namespace $2 that are online.
const addressable = `SELECT coalesce(w.channel, ''), w.queues, w.takes, w.build, w.slots FROM pawl.workers w
	WHERE w.namespace=$2::text AND w.status<>$3::smallint AND w.seen_at+w.ttl>` + now + ` AND NOT coalesce(w.asked_at+w.answers<=` + now + `, false)
	ORDER BY w.id LIMIT $4::bigint`

// pick draws as many other processes as n runs need: none if this process alone serves the queue.
// If ok is false, all processes must be told.
func (t *staff) pick(ctx context.Context, r *relay, at place, runs int) (out []string, ok bool) {
	c := t.roster(ctx, r, at.namespace).queues[at.queue]
	if c == nil || c.mixed {
		return nil, false
	}
	channels := make([]string, 0, len(c.slots))
	for channel := range c.slots {
		if channel != r.own { // which has already been told
			channels = append(channels, channel)
		}
	}
	rand.Shuffle(len(channels), func(i, j int) { channels[i], channels[j] = channels[j], channels[i] })
	for _, channel := range channels {
		if runs <= 0 {
			break
		}
		out = append(out, channel)
		runs -= c.slots[channel]
	}
	return out, true
}

// roster returns who serves the queues of a namespace, at most a moment out of date.
func (t *staff) roster(ctx context.Context, r *relay, namespace string) *roster {
	t.mu.Lock()
	list := t.lists[namespace]
	t.mu.Unlock()
	if list != nil && time.Since(list.read) < fresh {
		return list
	}
	list = &roster{read: time.Now(), queues: map[string]*crew{}}
	n := 0
	err := r.store.read(ctx, stmt{
		sql: addressable, args: []any{setNow(time.Time{}), namespace, int16(store.Draining), int64(maxStaff + 1)},
		rows: func(scan func(...any) error) error {
			var channel, queues, takes, build string
			var slots int64
			if err := scan(&channel, &queues, &takes, &build, &slots); err != nil {
				return err
			}
			n++
			return list.add(channel, queues, takes, build, int(slots))
		},
	})
	if err != nil || n > maxStaff {
		list.queues = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists == nil {
		t.lists = map[string]*roster{}
	}
	for ns, old := range t.lists {
		if time.Since(old.read) > time.Minute {
			delete(t.lists, ns)
		}
	}
	t.lists[namespace] = list
	return list
}

func (l *roster) add(channel, queues, takes, build string, slots int) error {
	var names []string
	var byQueue map[string][]string
	if err := json.Unmarshal([]byte(queues), &names); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(takes), &byQueue); err != nil {
		return err
	}
	for _, q := range names {
		taken := slices.Sorted(slices.Values(byQueue[q]))
		of := strings.Join(append(taken, build), "\x00")
		c := l.queues[q]
		if c == nil {
			c = &crew{slots: map[string]int{}, takes: of}
			l.queues[q] = c
		}
		c.mixed = c.mixed || channel == "" || of != c.takes
		c.slots[channel] += max(1, slots)
	}
	return nil
}

// signOn records a worker of this process, and returns the channel that others are to use; empty:
// none.
func (t *staff) signOn(r *relay, namespace, id string) string {
	t.mu.Lock()
	if t.here == nil {
		t.here = map[[2]string]bool{}
	}
	t.here[[2]string{namespace, id}] = true
	t.mu.Unlock()
	if r.ear.hears() {
		return r.own
	}
	return ""
}

func (t *staff) signOff(namespace, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.here, [2]string{namespace, id})
}

// setChannel: $1 namespaces, $2 ids, $3 channel.
const setChannel = `UPDATE pawl.workers w SET channel=$3::text FROM unnest($1::text[], $2::text[]) t(namespace, id)
	WHERE w.namespace=t.namespace AND w.id=t.id AND w.channel IS DISTINCT FROM $3::text`

// heard tells other processes that the workers of this process can be addressed from now on: the
// workers registered before the process listened.
func (t *staff) heard(r *relay) {
	var namespaces, ids []string
	t.mu.Lock()
	for w := range t.here {
		namespaces, ids = append(namespaces, w[0]), append(ids, w[1])
	}
	t.mu.Unlock()
	if len(ids) > 0 {
		_ = r.store.write(r.ctx, stmt{sql: setChannel, args: []any{namespaces, ids, r.own}}) // the next registration does it, too
	}
}
