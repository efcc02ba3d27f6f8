package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const (
	// listenPatience limits the wait for the listener. After that, the store works without it, by
	// polling.
	listenPatience = time.Second
	// silence is how long no notice may arrive before the listener sends itself one.
	silence = 20 * time.Second
	// linger is how long the process listens to the channel of runs after the last subscriber has
	// left, so that a program that waits for one run after the other listens once.
	linger = 20 * time.Second
)

// ear is the state of the connection that listens.
type ear struct {
	mu      sync.Mutex
	ready   chan struct{} // closed when the listener has listened once, or has failed
	waiting int           // subscribers to runs
	left    time.Time     // when the last of them left
	tuned   chan struct{} // closed when the process listens to runs; nil: nobody has asked
	retune  func()        // ends the wait for a notice
	up      bool
}

// listen starts the listener and waits a limited time until it listens for the topics.
func (r *relay) listen(ctx context.Context, topics []store.HintTopic) error {
	if r.store.deaf {
		return nil
	}
	e := &r.ear
	e.mu.Lock()
	if r.ctx.Err() != nil {
		e.mu.Unlock()
		return nil // closed
	}
	if e.ready == nil {
		e.ready = make(chan struct{})
		r.tasks.Add(1)
		go r.hear(e.ready)
	}
	wait := []chan struct{}{e.ready}
	if len(topics) == 0 || slices.Contains(topics, store.HintsOfRuns) {
		if e.waiting++; e.tuned == nil {
			e.tuned = make(chan struct{})
			if e.retune != nil {
				e.retune()
			}
		}
		wait = append(wait, e.tuned)
		context.AfterFunc(ctx, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.waiting--
			e.left = time.Now()
		})
	}
	e.mu.Unlock()
	late := time.NewTimer(listenPatience)
	defer late.Stop()
	for _, ch := range wait {
		select {
		case <-ch:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return nil
		}
	}
	return nil
}

// hears reports whether this process receives notices now.
func (e *ear) hears() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.up
}

// hear keeps one listening connection. After each reconnect, everybody looks again.
func (r *relay) hear(ready chan struct{}) {
	defer r.tasks.Done()
	first, said, wait := sync.OnceFunc(func() { close(ready) }), false, 50*time.Millisecond
	defer first()
	for r.ctx.Err() == nil {
		err := r.session(func() {
			said, wait = false, 50*time.Millisecond
			r.ear.mu.Lock()
			r.ear.up = true
			r.ear.mu.Unlock()
			r.staff.heard(r)
			first()
			r.store.tell(store.Hint{Kind: store.HintRescan})
		})
		r.ear.mu.Lock()
		r.ear.up = false
		r.ear.mu.Unlock()
		first()
		if r.ctx.Err() != nil {
			return
		}
		if !said {
			said = true
			r.store.config.logger.Warn("pawl: not receiving notifications of other processes; polling until they arrive again", "error", err)
		}
		longest := 5 * time.Second
		if errors.Is(err, errDeaf) { // only a changed configuration can repair it
			longest = time.Minute
		}
		pause(r.ctx, wait/2+rand.N(wait))
		wait = min(2*wait, longest)
	}
}

var errDeaf = errors.New("a test notification did not arrive: the connection for LISTEN goes through a pooler in transaction mode, or to another database")

// connect makes the listening connection, from its own URL or as the pool would.
func (r *relay) connect(ctx context.Context) (*pgx.Conn, error) {
	if own := r.store.config.listen; own != nil {
		return pgx.ConnectConfig(ctx, own.Copy())
	}
	cfg := r.store.pool.Config()
	cc := cfg.ConnConfig.Copy()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cc); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, cc)
}

// session is the life of one connection. It calls up when the connection listens.
func (r *relay) session(up func()) error {
	dial, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	conn, err := r.connect(dial)
	if err != nil {
		return err
	}
	defer hangUpSoon(conn)
	l := &listener{relay: r, conn: conn}
	if err := l.exec(`LISTEN ` + quoted(r.all) + `; LISTEN ` + quoted(r.own)); err != nil {
		return err
	}
	if err := l.tune(); err != nil {
		return err
	}
	// A notice of its own proves that it receives notices, at the beginning and after each silence.
	if err := l.probe(); err != nil {
		return err
	}
	up()
	for {
		n, err := l.wait()
		switch {
		case err == nil:
			r.store.tell(decode(r.self, n)...)
		case r.ctx.Err() != nil || conn.IsClosed():
			return err
		case errors.Is(err, errRetune):
			if err := l.tune(); err != nil {
				return err
			}
		case errors.Is(err, errSilent):
			if err := l.tune(); err != nil {
				return err
			}
			if err := l.probe(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func quoted(channel string) string { return pgx.Identifier{channel}.Sanitize() }

// listener is a listening connection.
type listener struct {
	*relay
	conn  *pgx.Conn
	tuned bool // to the channel of runs
}

var (
	errRetune = errors.New("a subscriber came")
	errSilent = errors.New("nothing was heard")
)

// wait returns the next notice. It fails with errRetune when a subscriber asks for more,
// and with errSilent after a silence.
func (l *listener) wait() (string, error) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	l.ear.mu.Lock()
	if l.wantsMore() {
		l.ear.mu.Unlock()
		return "", errRetune
	}
	l.ear.retune = func() { cancel(errRetune) }
	l.ear.mu.Unlock()
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	n, err := l.conn.WaitForNotification(ctx)
	l.ear.mu.Lock()
	l.ear.retune = nil
	l.ear.mu.Unlock()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return "", cause
		}
		return "", err
	}
	return n.Payload, nil
}

// wantsMore reports whether a subscriber waits for the channel of runs. The caller holds
// the ear's lock.
func (l *listener) wantsMore() bool { return l.ear.tuned != nil && !l.tuned }

// tune listens to the channel of runs if a subscriber wants it, and stops if none has wanted it for
// a while.
func (l *listener) tune() error {
	l.ear.mu.Lock()
	tuned := l.ear.tuned
	if tuned != nil && l.ear.waiting == 0 && time.Since(l.ear.left) > linger {
		l.ear.tuned, tuned = nil, nil
	}
	l.ear.mu.Unlock()
	switch {
	case tuned == nil && l.tuned:
		l.tuned = false
		return l.exec(`UNLISTEN ` + quoted(l.runs))
	case tuned != nil && !l.tuned:
		if err := l.exec(`LISTEN ` + quoted(l.runs)); err != nil {
			return err
		}
		l.tuned = true
		l.ear.mu.Lock()
		defer l.ear.mu.Unlock()
		select {
		case <-tuned: // of an earlier connection
		default:
			close(tuned)
		}
	}
	return nil
}

func (l *listener) exec(sql string) error {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	_, err := l.conn.Exec(ctx, sql)
	return err
}

// probe sends a notice and waits for it.
func (l *listener) probe() error {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	mark := sqlkit.JSON(notice{From: l.self})
	if err := l.store.write(ctx, stmt{sql: notify, args: []any{l.own, mark}}); err != nil {
		return err
	}
	for {
		n, err := l.conn.WaitForNotification(ctx)
		if err != nil {
			if ctx.Err() != nil && l.ctx.Err() == nil {
				return errDeaf
			}
			return err
		}
		if n.Payload == mark {
			return nil
		}
		l.store.tell(decode(l.self, n.Payload)...)
	}
}
