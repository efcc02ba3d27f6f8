package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
)

// fates tracks the program's transactions in which the store has written. Their hints wait for
// COMMIT, which the program executes itself. A NOTIFY inside the transaction would have the same
// effect, but it takes a lock of the whole server until COMMIT is durable, so that only one such
// transaction commits at a time.
type fates struct {
	mu      sync.Mutex
	pending map[int64]*fate // by the number of the transaction
	done    chan struct{}   // closed when no transaction is left; nil: there is none
}

type fate struct {
	hints []sqlkit.Hint
	began time.Time
	again time.Time // when to ask
}

const (
	firstAsk    = time.Millisecond
	maxBreather = 10 * time.Millisecond
	// maxFates limits the number of transactions that are watched, forgottenAfter how long. Runs
	// that are written beyond these limits are found by polling.
	maxFates       = 10_000
	forgottenAfter = 10 * time.Minute
)

// numbered returns the statements of a write in the program's transaction, followed by one that
// reads the number of the transaction, which it has once it has written.
func (s *Store) numbered(stmts []stmt) []stmt {
	return append(slices.Clip(stmts), stmt{sql: `SELECT coalesce(txid_current_if_assigned(), 0)`, rows: sqlkit.One(&s.number)})
}

// await publishes the hints when the program's transaction, with number id, has committed.
func (r *relay) await(id int64, hints []sqlkit.Hint) {
	f := &r.fates
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending == nil {
		f.pending = map[int64]*fate{}
	}
	one := f.pending[id]
	switch {
	case one != nil:
	case len(f.pending) >= maxFates || r.ctx.Err() != nil:
		return
	default:
		at := time.Now()
		one = &fate{began: at, again: at.Add(firstAsk)}
		f.pending[id] = one
	}
	one.hints = append(one.hints, hints...)
	if len(one.hints) > maxPending {
		one.hints = append(one.hints[:0], rescan)
	}
	if f.done == nil {
		f.done = make(chan struct{})
		r.tasks.Add(1)
		go f.watch(r)
	}
}

// settled returns a channel that is closed when no transaction is open; nil if none is.
func (f *fates) settled() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// txStatus: $1 numbers of transactions.
const txStatus = `SELECT t.id, coalesce(txid_status(t.id), 'aborted') FROM unnest($1::bigint[]) t(id)`

// watch asks for the state of the transactions until all have ended. It asks for each after an
// eighth of the time that the transaction has been open. Hints are late by at most that, and long
// transactions cost little.
func (f *fates) watch(r *relay) {
	defer r.tasks.Done()
	for {
		pause(r.ctx, f.breather())
		ids, next := f.due(time.Now())
		if len(ids) > 0 {
			known := map[int64]string{}
			_ = r.store.read(r.ctx, stmt{sql: txStatus, args: []any{ids}, rows: func(scan func(...any) error) error { // it is asked again
				var id int64
				var status string
				err := scan(&id, &status)
				known[id] = status
				return err
			}})
			f.learn(r, known)
		} else {
			pause(r.ctx, time.Until(next))
		}
		f.mu.Lock()
		if len(f.pending) == 0 || r.ctx.Err() != nil {
			close(f.done)
			f.done = nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
	}
}

// breather is how long to wait before asking again: longer if there are many transactions, to ask
// for several at once.
func (f *fates) breather() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(firstAsk*time.Duration(8+len(f.pending))/8, maxBreather)
}

// due returns the transactions to ask for now, and when the next is due.
func (f *fates) due(at time.Time) (ids []int64, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next = at.Add(time.Second)
	for id, one := range f.pending {
		switch {
		case !one.again.After(at):
			ids = append(ids, id)
			one.again = at.Add(max(firstAsk, at.Sub(one.began)/8))
		case one.again.Before(next):
			next = one.again
		}
	}
	return ids, next
}

// learn publishes the hints of the transactions that have committed.
func (f *fates) learn(r *relay, known map[int64]string) {
	var hints []sqlkit.Hint
	f.mu.Lock()
	for id, status := range known {
		one := f.pending[id]
		switch {
		case one == nil:
		case status == "committed":
			hints = append(hints, one.hints...)
			delete(f.pending, id)
		case status == "aborted" || time.Since(one.began) > forgottenAfter:
			delete(f.pending, id)
		}
	}
	f.mu.Unlock()
	if len(hints) > 0 {
		r.publish(hints...)
	}
}
