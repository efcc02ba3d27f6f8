package libsqlclient

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tursodatabase/libsql-client-go/libsql"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func TestNumbered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql, want string
		args      []any
		used      []any
	}{
		{"SELECT ?, ?", "SELECT ?1, ?2", []any{"a", "b"}, []any{"a", "b"}},
		{"SELECT ?3, ?1, ?3", "SELECT ?1, ?2, ?1", []any{"a", "b", "c"}, []any{"c", "a"}},
		{"SELECT '?1', \"?\", ?2, ?", "SELECT '?1', \"?\", ?1, ?2", []any{"a", "b", "c"}, []any{"b", "c"}},
		{"SELECT 'it''s ?', ?12x", "SELECT 'it''s ?', ?1x", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, []any{12}},
	} {
		sql, used := numbered(c.sql, c.args)
		require.Equal(t, c.want, sql)
		require.Equal(t, c.used, used)
	}
}

// before forwards requests to a server. When cut or status is set, it loses the answer to the next
// request that may write.
type before struct {
	target string
	cut    atomic.Bool
	status atomic.Int64
	refuse atomic.Bool // with status, before the request is forwarded
}

func (b *before) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	write := bytes.Contains(body, []byte("BEGIN IMMEDIATE"))
	if write && b.refuse.Swap(false) {
		w.WriteHeader(int(b.status.Swap(0)))
		return
	}
	req, err := http.NewRequest(r.Method, b.target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header, req.Host = r.Header.Clone(), r.Host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch status := b.status.Load(); {
	case err != nil, write && b.cut.Swap(false):
		panic(http.ErrAbortHandler)
	case write && status != 0:
		b.status.Store(0)
		w.WriteHeader(int(status))
	default:
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}
}

// TestLostAnswers checks that an unknown outcome is reported as unknown, although the driver gives
// only messages.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := &before{target: "http://" + sqldtest.Shared(t).Addr()}
	front := httptest.NewServer(b)
	defer front.Close()
	s, err := Open(t.Context(), sqldtest.Namespace(t), turso.WithTransport(Transport(libsql.WithProxy(front.URL))))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for name, lose := range map[string]func(){
		"cut":     func() { b.cut.Store(true) },
		"502":     func() { b.status.Store(502) },
		"503":     func() { b.status.Store(503) },
		"429":     func() { b.status.Store(429) },
		"refused": func() { b.status.Store(403); b.refuse.Store(true) },
	} {
		made := store.CreateParams{Namespace: "ns", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q"}}}
		lose()
		_, err := s.Create(t.Context(), made)
		want, not := store.ErrOutcomeUnknown, store.ErrUnavailable
		if name == "refused" {
			want, not = not, want
		}
		require.ErrorIs(t, err, want, name)
		require.NotErrorIs(t, err, not, name)
		runs, err := s.Get(t.Context(), store.GetParams{Namespace: "ns", IDs: []store.ID{made.Runs[0].ID}})
		require.NoError(t, err, name)
		require.Equal(t, name != "refused", len(runs) == 1, name)
		res, err := s.Create(t.Context(), made)
		require.NoError(t, err, name)
		require.True(t, res[0].Created, name)
	}
}

// TestTenStartersMigrateOnce: goose has no lock for this dialect, so a starter that fails looks at
// the version again.
func TestTenStartersMigrateOnce(t *testing.T) {
	t.Parallel()
	url, way := sqldtest.Namespace(t), turso.WithTransport(Transport(libsql.WithProxy("http://"+sqldtest.Shared(t).Addr())))
	var all sync.WaitGroup
	stores, errs := make([]*turso.Store, 10), make([]error, 10)
	for i := range stores {
		all.Go(func() { stores[i], errs[i] = Open(t.Context(), url, way) })
	}
	all.Wait()
	for i, s := range stores {
		require.NoError(t, errs[i])
		defer func() { require.NoError(t, s.Close()) }()
	}
	schema, err := turso.SchemaOf(t.Context(), url, way)
	require.NoError(t, err)
	require.Equal(t, schema.Newest, schema.Version)

	// Package turso's own client can use a database that the driver has created, and the other way
	// around.
	own, err := turso.Open(t.Context(), url, turso.WithDialer(sqldtest.Shared(t).Dial), turso.WithoutMigration())
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	_, err = own.Create(t.Context(), store.CreateParams{Namespace: "ns", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q"}}})
	require.NoError(t, err)
	got, err := stores[0].Claim(t.Context(), store.ClaimParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute,
		Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 5}}})
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
}

// TestOptionsThatDoNotGo checks that the options of package turso's own client are refused with the
// driver, with an error that says so.
func TestOptionsThatDoNotGo(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "http://db.example", turso.WithDialer(sqldtest.Shared(t).Dial))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "WithDialer")
}
