package turso

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// lateWrites opens a store whose connection replaces the guard of a write with one that refuses
// while late is positive; each refusal decreases late. If behind is set, the guards after the
// statements refuse, else those before them.
func lateWrites(t *testing.T, behind bool) (s *Store, late *atomic.Int64) {
	late = &atomic.Int64{}
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	target := &http.Transport{DialContext: srv.Dial, DisableCompression: true}
	t.Cleanup(target.CloseIdleConnections)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text := string(body)
		const passes, refuses = "BETWEEN ?1 AND ?2-1", "BETWEEN ?1 AND ?2-1 AND 0"
		switch at := strings.Index(text, passes); {
		case at < 0 || late.Add(-1) < 0:
		case behind:
			at += len(passes)
			text = text[:at] + strings.ReplaceAll(text[at:], passes, refuses)
		default:
			text = strings.ReplaceAll(text, passes, refuses)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), strings.NewReader(text))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		res, err := target.RoundTrip(req)
		if err != nil { // the client has gone
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(front.Close)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", front.Listener.Addr().String())
	}
	return openOn(t, srv, url, WithDialer(dial)), late
}

// TestQuickWrites checks that writes that follow each other within a millisecond of the server's
// clock pass its guard.
func TestQuickWrites(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for range 300 {
		err := s.runner.(*runner).run(t.Context(), []sqlitecore.Stmt{{SQL: `DELETE FROM locks WHERE 0`}}, true)
		require.NoError(t, err)
	}
}

// TestLateWritesAreSentAgain checks that a write that the server executes too late is sent again,
// as are the writes of other callers for which the server's time is no longer known.
func TestLateWritesAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"before the statements": false, "behind them": true} {
		s, late := lateWrites(t, behind)
		late.Store(5)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					made := createParams(1)
					res, err := s.Create(t.Context(), made)
					if err != nil || !res[0].Created {
						t.Errorf("%s: saw %v, %v", name, res, err)
					}
				}
			})
		}
		all.Wait()
		require.Negative(t, late.Load())
		require.Equal(t, []int64{40}, column[int64](t, s, `SELECT count(*) FROM runs`), name)
	}
}

// TestLateWritesEndWithTheirContext checks that a call ends with its context if the server is too
// late for all its attempts, and that nothing was applied.
func TestLateWritesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s, late := lateWrites(t, false)
	late.Store(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	made := createParams(1)
	_, err := s.Create(ctx, made)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, get(t, s, made.Runs[0].ID))

	// The call also ends if its context has no end.
	_, err = s.Create(t.Context(), made)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, errLate)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
	late.Store(0)
	res, err := s.Create(t.Context(), made)
	require.NoError(t, err)
	require.True(t, res[0].Created)
}

// TestForgottenTime checks that a write is not sent, and says so, if the server's time was
// forgotten while the write waited for its turn.
func TestForgottenTime(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t)
	r := s.runner.(*runner)
	r.clock.forget()
	p.set(func(int64) fate { return fate{} })
	err := r.run(t.Context(), []sqlitecore.Stmt{{SQL: `DELETE FROM locks`}}, true)
	require.ErrorIs(t, err, errForgotten)
	require.Zero(t, p.count.Load(), "requests")
	require.NoError(t, r.Write(t.Context(), []sqlitecore.Stmt{{SQL: `DELETE FROM locks`}}))
}

// TestRefusals checks that an error that ended a transaction before its guard was evaluated is not
// reported as lateness.
func TestRefusals(t *testing.T) {
	t.Parallel()
	require.Equal(t, errLate, refusedBy(nil))
	require.Equal(t, errLate, refusedBy(&serverError{Message: "SQLite error: malformed JSON", Code: "SQLITE_UNKNOWN"}))
	err := refusedBy(&serverError{Message: "transaction timed-out"})
	require.True(t, errors.Is(err, errBusy) && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errLate), "%v", err)
	err = refusedBy(&serverError{Message: "the disk", Code: "SQLITE_FULL"})
	require.True(t, !errors.Is(err, errBusy) && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errLate), "%v", err)
}
