package turso

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// tap counts the requests of a store by what they do with streams, and may replace their answers.
type tap struct {
	next *http.Transport

	mu                  sync.Mutex
	begun, used, closed int                                              // requests on new streams, on kept ones, and those that close one
	answer              func(kept bool, body []byte) (int, string, bool) // of the server's body
}

func (p *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	kept := !bytes.HasSuffix(body, []byte(`"baton":null}`))
	p.mu.Lock()
	if kept {
		p.used++
	} else {
		p.begun++
	}
	if bytes.Contains(body, []byte(`{"type":"close"}],"baton"`)) {
		p.closed++
	}
	change := p.answer
	p.mu.Unlock()
	res, err := p.next.RoundTrip(req)
	if err != nil || change == nil {
		return res, err
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	if status, said, ok := change(kept, text); ok {
		res.StatusCode, text = status, []byte(said)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return res, nil
}

// counts returns the counts since the last call, and begins again.
func (p *tap) counts() (begun, used, closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun, used, closed = p.begun, p.used, p.closed
	p.begun, p.used, p.closed = 0, 0, 0
	return begun, used, closed
}

func (p *tap) change(f func(kept bool, body []byte) (int, string, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// tapped opens a store that sends nothing by itself and always keeps its streams.
func tapped(t *testing.T, srv *sqldtest.Server, url string) (*Store, *tap) {
	p := &tap{next: &http.Transport{DialContext: srv.Dial}}
	s, err := Open(t.Context(), url, WithHTTPClient(&http.Client{Transport: p}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	all := &s.runner.(*runner).client.streams
	all.mu.Lock()
	all.life, all.within, all.idle = time.Hour, time.Hour, nil // however slow the machine is
	all.mu.Unlock()
	all.reaps.Wait()
	p.counts()
	return s, p
}

// CloseIdleConnections is called by an http.Client.
func (p *tap) CloseIdleConnections() { p.next.CloseIdleConnections() }

func createOne(t *testing.T, s *Store) {
	t.Helper()
	res, err := s.Create(t.Context(), createParams(1))
	require.NoError(t, err)
	require.Equal(t, store.CreateResult{ID: res[0].ID, Created: true}, res[0])
}

func TestStreamsAreKept(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	for range 20 {
		createOne(t, s)
	}
	begun, used, closed := p.counts()
	require.LessOrEqual(t, begun, 1)
	require.GreaterOrEqual(t, used, 19)
	require.Zero(t, closed)
	kept := len(s.runner.(*runner).client.streams.idle)
	require.NotZero(t, kept)
	require.NoError(t, s.Close())
	_, _, closed = p.counts()
	require.Equal(t, kept, closed, "a store that is closed leaves no stream open")
}

// TestStreamsAfterARestart: the server does not know the streams any more, and no caller is told.
func TestStreamsAfterARestart(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	s, p := tapped(t, srv, srv.Namespace(t))
	createOne(t, s)
	require.NoError(t, srv.Restart())
	s.runner.(*runner).client.http.CloseIdleConnections()
	p.counts()
	createOne(t, s)
	begun, used, _ := p.counts()
	require.NotZero(t, begun)
	require.NotZero(t, used, "the kept stream was tried")
}

// TestStreamInATransaction: a stream whose transaction has not ended would hold the write lock.
func TestStreamInATransaction(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	createOne(t, s)
	require.NoError(t, s.runner.Read(t.Context(), []sqlitecore.Stmt{{SQL: "BEGIN IMMEDIATE"}}))
	s.runner.(*runner).client.streams.reaps.Wait()
	_, _, closed := p.counts()
	require.Equal(t, 1, closed)
	createOne(t, s)
}

// TestStreamsThatTheServerDoesNotKeep: behind some proxies each request reaches another server.
func TestStreamsThatTheServerDoesNotKeep(t *testing.T) {
	t.Parallel()
	edit := func(change func(map[string]json.RawMessage)) func(bool, []byte) (int, string, bool) {
		return func(_ bool, body []byte) (int, string, bool) {
			var a map[string]json.RawMessage
			if json.Unmarshal(body, &a) != nil {
				return 0, "", false
			}
			change(a)
			text, err := json.Marshal(a)
			return http.StatusOK, string(text), err == nil
		}
	}
	refuse := func(said string) func(bool, []byte) (int, string, bool) {
		return func(kept bool, _ []byte) (int, string, bool) { return http.StatusBadRequest, said, kept }
	}
	for name, answer := range map[string]func(bool, []byte) (int, string, bool){
		"expired":            refuse(`{"message":"The stream has expired due to inactivity","code":"STREAM_EXPIRED"}`),
		"of another server":  refuse(`Received an invalid baton`),
		"at another address": edit(func(a map[string]json.RawMessage) { a["base_url"] = json.RawMessage(`"http://elsewhere.test"`) }),
		"an older server": edit(func(a map[string]json.RawMessage) {
			text := string(a["results"])
			if i := strings.Index(text, `,{"type":"ok","response":{"type":"get_autocommit"`); i >= 0 {
				a["results"] = json.RawMessage(text[:i] + `,{"type":"error","error":{"message":"unknown request"}}]`)
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
			p.change(answer)
			for range 3 * maxLost {
				res, err := s.Create(t.Context(), createParams(1))
				require.NoError(t, err)
				require.True(t, res[0].Created)
			}
			p.counts()
			createOne(t, s)
			_, used, closed := p.counts()
			require.Zero(t, used, "no stream is kept any more")
			require.NotZero(t, closed)
		})
	}
}

// TestStreamsWhoseAnswersAreLost: the server keeps each of them for ten seconds, in vain.
func TestStreamsWhoseAnswersAreLost(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	all := &s.runner.(*runner).client.streams
	p.change(func(bool, []byte) (int, string, bool) { return http.StatusBadGateway, "no answer", true })
	for range 3 * maxUnanswered {
		_, err := s.Create(t.Context(), createParams(1))
		require.ErrorIs(t, err, store.ErrOutcomeUnknown)
	}
	begun, used, closed := p.counts()
	require.LessOrEqual(t, begun+used-closed, maxUnanswered, "streams that were left open")
	p.change(nil)
	createOne(t, s)
	_, _, closed = p.counts()
	require.NotZero(t, closed)
	all.mu.Lock()
	require.Empty(t, all.idle)
	all.off = time.Time{} // the server has closed them
	all.mu.Unlock()
	createOne(t, s)
	require.NotEmpty(t, all.idle)
}

// TestStreamsThroughAReplica: what loses the way to the primary is sent again, once, and streams are not kept any more.
func TestStreamsThroughAReplica(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	createOne(t, s)
	p.change(func(kept bool, _ []byte) (int, string, bool) {
		return http.StatusInternalServerError, `{"error":"Connection with primary broken"}`, kept
	})
	res, err := s.Create(t.Context(), createParams(1))
	require.NoError(t, err)
	require.True(t, res[0].Created)
	p.counts()
	createOne(t, s)
	_, used, _ := p.counts()
	require.Zero(t, used)
}

// TestRefusedInTheMiddle: an answer of 400 usually says that nothing was executed, but not if the server has already begun.
func TestRefusedInTheMiddle(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	p.change(func(bool, []byte) (int, string, bool) { return http.StatusBadRequest, "SQL text 51 not found", true })
	_, err := s.Create(t.Context(), createParams(1))
	require.ErrorIs(t, err, store.ErrOutcomeUnknown)
}

// TestStreamsOfAnIdleStore: a store with little to do leaves the server's connections to others.
func TestStreamsOfAnIdleStore(t *testing.T) {
	t.Parallel()
	s, p := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	all := &s.runner.(*runner).client.streams
	createOne(t, s)
	_, used, _ := p.counts()
	all.mu.Lock()
	kept := len(all.idle)
	all.life, all.within = 0, 0
	all.mu.Unlock()
	require.NotZero(t, used+kept)
	all.reap()
	_, _, closed := p.counts()
	require.Equal(t, kept, closed)
	createOne(t, s)
	begun, used, closed := p.counts()
	require.Equal(t, []int{begun, 0}, []int{closed, used}, "each request closes the stream that it begins")
}

// TestStreamsOfManyStores: a server allows so many connections to a database, and whoever wants a further one waits. With more
// stores than connections, each has its turn.
func TestStreamsOfManyStores(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t, sqldtest.Flag("--max-concurrent-connections", "12"))
	url := srv.Namespace(t)
	var all sync.WaitGroup
	end := time.Now().Add(16 * maxLife)
	for range 4 {
		s := openOn(t, srv, url)
		for range 6 {
			all.Go(func() {
				for time.Now().Before(end) {
					_, err := s.Create(t.Context(), createParams(1))
					if err == nil {
						_, err = s.List(t.Context(), store.ListParams{Namespace: "ns", Limit: 1})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

func TestKeptStreams(t *testing.T) {
	t.Parallel()
	var ended []*stream
	s := streams{life: time.Second, within: time.Second / 4, hangUp: func(st *stream) { ended = append(ended, st) }}
	now := time.Now()
	a, keep := s.take(now)
	require.False(t, keep, "there was no call before")
	b, keep := s.take(now.Add(time.Second / 8))
	require.True(t, keep)
	require.True(t, s.put(a, now))
	require.True(t, s.put(b, now))
	got, keep := s.take(now.Add(time.Second))
	require.Same(t, b, got, "a is old")
	require.True(t, keep)
	require.False(t, s.put(b, now.Add(2*time.Second)), "b is old by now")
	for range maxKept - 1 {
		require.True(t, s.put(newStream(now), now))
	}
	require.False(t, s.put(newStream(now), now), "enough are kept")
	_, keep = s.take(now.Add(3 * time.Second))
	require.False(t, keep, "the call before is long ago")

	for i := range maxLost {
		_, keep = s.take(now.Add(3 * time.Second))
		require.True(t, keep)
		s.lost(now.Add(time.Duration(i) * time.Second))
	}
	require.Empty(t, s.idle)
	last := now.Add((maxLost - 1) * time.Second)
	s.take(last.Add(dontKeep))
	_, keep = s.take(last.Add(dontKeep))
	require.False(t, keep)
	_, keep = s.take(last.Add(dontKeep + 1))
	require.True(t, keep, "it tries again")

	now = last.Add(2 * dontKeep)
	for range 2 * maxUnanswered { // lost answers, of which the server never keeps so many streams at once
		s.take(now)
		_, keep = s.take(now)
		require.True(t, keep)
		now = now.Add(serverKeeps/(maxUnanswered-1) + 1)
		s.unanswered(now)
		require.False(t, s.off.After(now))
	}
	s.unanswered(now)
	require.Equal(t, now.Add(serverKeeps), s.off)

	a = newStream(now)
	require.True(t, s.put(a, now))
	s.close()
	require.Equal(t, []*stream{a}, ended)
	require.False(t, s.put(a, now), "the store is closed")
	for range 2 * maxSeen {
		a.note(store.NewID().String())
	}
	require.LessOrEqual(t, len(a.seen), maxSeen)
}

// TestLongTextsAreNotStored: the server refuses to store long texts, and the statements work nevertheless.
func TestLongTextsAreNotStored(t *testing.T) {
	t.Parallel()
	s, _ := tapped(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	for _, n := range []int{maxStoredBytes - 1, maxStoredBytes, 2 * maxStoredBytes} {
		text := "SELECT 1 -- "
		text += strings.Repeat("x", n-len(text))
		for range 4 {
			var one int64
			require.NoError(t, s.runner.Write(t.Context(), []sqlitecore.Stmt{{SQL: text, Rows: sqlkit.One(&one)}}), "%d bytes", n)
			require.EqualValues(t, 1, one)
		}
	}
}
