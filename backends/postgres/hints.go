package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/store"
)

// Hints implements store.Hinter. One connection of the process listens, from the
// first call on. Behind a pooler, without a URL for it, only what this process
// does itself is heard.
func (s *Store) Hints(ctx context.Context) (<-chan []store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.relay.listen(ctx); err != nil {
		return nil, err
	}
	return s.hub.Subscribe(ctx)
}

// relay carries hints between the processes of a schema. NOTIFY takes a lock of
// the whole server when it commits, so hints are sent in transactions of their
// own: the first at once, what comes meanwhile together in the next.
type relay struct {
	store   *Store
	channel string
	self    string // begins this process's messages
	ctx     context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu      sync.Mutex
	pending []store.Hint
	sending chan struct{} // closed when nothing is left to send; nil: nothing is
	ready   chan struct{} // closed when the listener has listened once, or has failed to
}

const (
	maxNotice  = 7900 // bytes of a message; the server takes fewer than 8000
	maxPending = 4000 // hints; more shrink to one "look again"
	// gap is how long one notice waits for the next: under load there is no hurry.
	gap = 2 * time.Millisecond
	// silence is how long nothing is heard before it is asked whether it would be.
	silence = 20 * time.Second
)

func newRelay(s *Store) *relay {
	h := fnv.New64a()
	h.Write([]byte(s.config.schema))
	r := &relay{store: s, channel: "pawl_" + strconv.FormatUint(h.Sum64(), 36), self: strconv.FormatUint(rand.Uint64(), 36)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// publish tells of what was written: soon, or when the transaction that the store
// is in has committed.
func (s *Store) publish(ctx context.Context, hints ...store.Hint) {
	switch {
	case s.in == nil:
		s.relay.publish(hints...)
	case s.later != nil:
		*s.later = append(*s.later, hints...)
	default:
		// Not marked as this process's, which has yet to hear of it.
		_ = s.write(ctx, s.relay.notices("", hints)...)
	}
}

// tell hands hints on in this process. What is due after that is not looked for
// before it is claimed.
func (b *base) tell(hints ...store.Hint) {
	for i := range hints {
		if k := hints[i].Kind; k == store.HintQueue || k == store.HintRescan {
			b.stirred.Add(1)
			break
		}
	}
	b.hub.Publish(hints...)
}

// publish tells this process at once and the others soon.
func (r *relay) publish(hints ...store.Hint) {
	r.store.tell(hints...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	if len(r.pending)+len(hints) > maxPending {
		r.pending = append(r.pending[:0], store.Hint{Kind: store.HintRescan})
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
		_ = r.store.write(r.ctx, r.notices(r.self, list)...) // hints are lossy
		pause(r.ctx, gap)
	}
}

// notices are the statements that send hints.
func (r *relay) notices(from string, hints []store.Hint) (stmts []stmt) {
	for _, text := range encode(from, hints) {
		stmts = append(stmts, stmt{sql: `SELECT pg_notify($1::text, $2::text)`, args: []any{r.channel, text}})
	}
	return stmts
}

// notice is the JSON form of hints of one kind and namespace.
type notice struct {
	From      string         `json:"f"`
	Kind      store.HintKind `json:"k"`
	Namespace string         `json:"n,omitempty"`
	Queues    []string       `json:"q,omitempty"`
	Runs      string         `json:"r,omitempty"` // ids, in base64
}

// encode packs hints into messages.
func encode(from string, hints []store.Hint) []string {
	type group struct {
		kind      store.HintKind
		namespace string
	}
	const perNotice = 300 // ids, 22 bytes each
	queues, runs := map[group]map[string]bool{}, map[group][]byte{}
	var out []string
	put := func(n notice) {
		n.From = from
		if text := jsonText(n); len(text) <= maxNotice {
			out = append(out, text)
		} else {
			out = append(out, jsonText(notice{From: from, Kind: store.HintRescan}))
		}
	}
	for _, h := range hints {
		g := group{h.Kind, h.Namespace}
		switch h.Kind {
		case store.HintQueue:
			if queues[g] == nil {
				queues[g] = map[string]bool{}
			}
			if !queues[g][h.Queue] {
				queues[g][h.Queue] = true
			}
		case store.HintEvent, store.HintFinal, store.HintState:
			if runs[g] = append(runs[g], h.Run[:]...); len(runs[g]) >= perNotice*len(h.Run) {
				put(notice{Kind: g.kind, Namespace: g.namespace, Runs: base64.RawStdEncoding.EncodeToString(runs[g])})
				delete(runs, g)
			}
		default:
			return []string{jsonText(notice{From: from, Kind: store.HintRescan})}
		}
	}
	for g, names := range queues {
		n, size := notice{Kind: g.kind, Namespace: g.namespace}, 0
		for q := range names {
			if size += 6*len(q) + 3; size > maxNotice-2000 { // JSON may write a byte in six
				put(n)
				n.Queues, size = nil, 6*len(q)+3
			}
			n.Queues = append(n.Queues, q)
		}
		put(n)
	}
	for g, ids := range runs {
		put(notice{Kind: g.kind, Namespace: g.namespace, Runs: base64.RawStdEncoding.EncodeToString(ids)})
	}
	return out
}

// decode unpacks a message; none of this process's own, and "look again" for what
// it does not understand.
func decode(self, text string) []store.Hint {
	var n notice
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return []store.Hint{{Kind: store.HintRescan}}
	}
	if n.From == self {
		return nil
	}
	var out []store.Hint
	for _, q := range n.Queues {
		out = append(out, store.Hint{Kind: n.Kind, Namespace: n.Namespace, Queue: q})
	}
	ids, _ := base64.RawStdEncoding.DecodeString(n.Runs)
	for ; len(ids) >= len(store.ID{}); ids = ids[len(store.ID{}):] {
		out = append(out, store.Hint{Kind: n.Kind, Namespace: n.Namespace, Run: store.ID(ids[:len(store.ID{})])})
	}
	if n.Kind == store.HintRescan {
		out = append(out, store.Hint{Kind: store.HintRescan})
	}
	return out
}

// listenPatience bounds the wait for the listener. Afterwards polling does without it.
const listenPatience = time.Second

// listen starts the listener and waits until it has listened once, but not long.
func (r *relay) listen(ctx context.Context) error {
	if r.store.deaf {
		return nil
	}
	r.mu.Lock()
	if r.ready == nil && r.ctx.Err() == nil {
		r.ready = make(chan struct{})
		r.tasks.Add(1)
		go r.hear(r.ready)
	}
	ready := r.ready
	r.mu.Unlock()
	if ready == nil {
		return nil // closed
	}
	late := time.NewTimer(listenPatience)
	defer late.Stop()
	select {
	case <-ready:
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
	}
	return nil
}

// hear keeps one connection that listens. Whenever it had to be made anew,
// everything is looked at again.
func (r *relay) hear(ready chan struct{}) {
	defer r.tasks.Done()
	first, said, wait := sync.OnceFunc(func() { close(ready) }), false, 50*time.Millisecond
	defer first()
	for r.ctx.Err() == nil {
		err := r.session(func() {
			first()
			said, wait = false, 50*time.Millisecond
			r.store.tell(store.Hint{Kind: store.HintRescan})
		})
		first()
		if r.ctx.Err() != nil {
			return
		}
		if !said {
			said = true
			r.store.config.logger.Warn("pawl: notices of other processes are not heard; polling until they are", "error", err)
		}
		longest := 5 * time.Second
		if errors.Is(err, errDeaf) { // which time alone does not mend
			longest = time.Minute
		}
		pause(r.ctx, wait/2+rand.N(wait))
		wait = min(2*wait, longest)
	}
}

var errDeaf = errors.New("a notice sent to itself did not arrive: the connection for LISTEN leads through a pooler in transaction mode, or to another database")

// connect makes the connection that listens, by the URL for it or as the pool
// would.
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

func (r *relay) session(up func()) error {
	dial, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	conn, err := r.connect(dial)
	if err != nil {
		return err
	}
	defer hangUpSoon(conn)
	if _, err := conn.Exec(dial, `LISTEN `+pgx.Identifier{r.channel}.Sanitize()); err != nil {
		return err
	}
	// A notice of its own proves that it hears, now and after each silence.
	probe := func() error {
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
		defer cancel()
		mark := jsonText(notice{From: r.self})
		if err := r.store.write(ctx, stmt{sql: `SELECT pg_notify($1::text, $2::text)`, args: []any{r.channel, mark}}); err != nil {
			return err
		}
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				if ctx.Err() != nil && r.ctx.Err() == nil {
					return errDeaf
				}
				return err
			}
			if n.Payload == mark {
				return nil
			}
			r.store.tell(decode(r.self, n.Payload)...)
		}
	}
	if err := probe(); err != nil {
		return err
	}
	up()
	for {
		ctx, cancel := context.WithTimeout(r.ctx, silence)
		n, err := conn.WaitForNotification(ctx)
		silent := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			r.store.tell(decode(r.self, n.Payload)...)
		case silent && r.ctx.Err() == nil && !conn.IsClosed():
			if err := probe(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// farewell is how long a store that is closed may take to tell of what it wrote.
const farewell = time.Second

// flush waits until the others have been told, but not long. Without it a program
// that writes once and ends would be found by polling alone.
func (r *relay) flush() {
	r.mu.Lock()
	sending := r.sending
	r.mu.Unlock()
	if sending == nil {
		return
	}
	late := time.NewTimer(farewell)
	defer late.Stop()
	select {
	case <-sending:
	case <-late.C:
	}
}

func (r *relay) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.tasks.Wait()
}

// pause waits, or until the context is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
