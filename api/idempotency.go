package api

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

// maxKey limits an Idempotency-Key in bytes.
const maxKey = 255

// key returns the Idempotency-Key; empty: none.
func (c *call) key() (string, error) {
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return "", store.Invalid("Idempotency-Key", fmt.Sprintf("it has %d bytes; at most %d are allowed", len(key), maxKey))
	}
	return key, nil
}

// keyID is the id that belongs to the Idempotency-Key; zero: there is none. It is the same in every
// process, so that a repetition creates nothing, whoever answers it.
func (c *call) keyID(what string) (store.ID, error) {
	key, err := c.key()
	if key == "" || err != nil {
		return store.ID{}, err
	}
	return store.DeriveID(store.ID{}, fmt.Sprintf("%s %q %q", what, c.eng.Namespace(), key)), nil
}

// once answers a write. A repetition with the same Idempotency-Key gets the answer of the first
// request, as long as this process remembers it; a different request with that key is refused.
func (c *call) once(do func() error) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	if key == "" || c.op.body != nil && c.r.Body == nil {
		return do()
	}
	body, err := c.read(c.s.maxBody)
	if err != nil {
		return err
	}
	c.r.Body = io.NopCloser(bytes.NewReader(body))
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %s\n%s", c.r.Method, c.r.URL.RequestURI(), body))
	a, mine := c.s.answered.begin(c.eng.Namespace() + "\n" + c.caller.Actor + "\n" + key)
	if !mine {
		select {
		case <-a.done:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		switch {
		case a.digest != digest:
			return problem(http.StatusUnprocessableEntity, wire.CodeKeyReused, "the Idempotency-Key was used with another request; use a new one")
		case a.status != 0:
			return c.replay(a)
		}
		return do() // the first request failed
	}
	rec := &recorder{ResponseWriter: c.w}
	c.w = rec
	a.digest = digest
	defer func() {
		c.w = rec.ResponseWriter
		if rec.status >= 200 && rec.status < 300 && rec.body.Len() <= 64<<10 {
			a.status, a.body, a.header = rec.status, rec.body.Bytes(), rec.Header().Clone()
		}
		c.s.answered.end(a)
	}()
	return do()
}

func (c *call) replay(a *answer) error {
	c.began = true
	for _, name := range []string{"Content-Type", "ETag"} {
		if v := a.header.Get(name); v != "" {
			c.w.Header().Set(name, v)
		}
	}
	c.w.Header().Set("Idempotency-Replayed", "true")
	c.w.WriteHeader(a.status)
	_, _ = c.w.Write(a.body)
	return nil
}

// recorder keeps what is written.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

// answered remembers the latest answers to requests with an Idempotency-Key.
type answered struct {
	mu    sync.Mutex
	byKey map[string]*answer
	order list.List // of keys, oldest first
}

// mostAnswers limits how many answers are remembered.
const mostAnswers = 1000

type answer struct {
	key    string
	done   chan struct{}
	digest [sha256.Size]byte
	status int // 0: the request failed, and may be sent again
	header http.Header
	body   []byte
}

func (a *answered) init() { a.byKey = map[string]*answer{} }

// begin returns the answer of a key; mine: the caller is the first, and must call end.
func (a *answered) begin(key string) (ans *answer, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ans = a.byKey[key]; ans != nil {
		return ans, false
	}
	ans = &answer{key: key, done: make(chan struct{})}
	a.byKey[key] = ans
	a.order.PushBack(ans)
	for a.order.Len() > mostAnswers {
		old := a.order.Remove(a.order.Front()).(*answer)
		if a.byKey[old.key] == old {
			delete(a.byKey, old.key)
		}
	}
	return ans, true
}

func (a *answered) end(ans *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ans.status == 0 && a.byKey[ans.key] == ans {
		delete(a.byKey, ans.key)
	}
	close(ans.done)
}
