package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/store"
)

// exec runs SQL on a connection of its own.
func exec(t testing.TB, url, sql string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.PgConn().Exec(t.Context(), sql).ReadAll()
	require.NoError(t, err)
}

func with(t testing.TB, location string, change func(*url.URL)) string {
	u, err := url.Parse(location)
	require.NoError(t, err)
	change(u)
	return u.String()
}

func TestOpenByScheme(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	s, err := backends.Open(t.Context(), with(t, location, func(u *url.URL) {
		q := u.Query()
		q.Set("schema", schema)
		u.RawQuery = q.Encode()
	}))
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, "postgres", s.Features().Name)
	now, err := s.Clock(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Hour)
}

// What is not Pawl's in a URL comes to the server as it stands.
func TestOtherParametersOfTheURL(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	s, err := postgres.Open(t.Context(), with(t, location, func(u *url.URL) {
		u.RawQuery += "&schema=" + schema + "&application_name=a%20b+c-" + schema + "&migrate=true"
	}))
	require.NoError(t, err)
	defer s.Close()
	conn, err := pgx.Connect(t.Context(), location)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var name string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT application_name FROM pg_stat_activity WHERE application_name LIKE '%-' || $1`, schema).Scan(&name))
	assert.Equal(t, "a b+c-"+schema, name)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	exec(t, location, fmt.Sprintf(`CREATE ROLE %[1]s_poor LOGIN`, schema))
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), location)
		if err == nil {
			_, _ = conn.Exec(context.Background(), fmt.Sprintf(`DROP ROLE %s_poor`, schema))
			_ = conn.Close(context.Background())
		}
	})
	for name, c := range map[string]struct {
		url  string
		opts []postgres.Option
		says string
		is   error
	}{
		"no URL":           {"localhost", nil, "postgres://user:password@host", store.ErrInvalid},
		"unknown setting":  {with(t, location, func(u *url.URL) { u.RawQuery = "pool_max_conns=x" }), nil, "pool_max_conns", store.ErrInvalid},
		"migrate":          {with(t, location, func(u *url.URL) { u.RawQuery = "migrate=maybe" }), nil, "true or false", store.ErrInvalid},
		"no database":      {with(t, location, func(u *url.URL) { u.Path = "/nosuch" }), nil, "create it", store.ErrInvalid},
		"no user":          {with(t, location, func(u *url.URL) { u.User = url.User("nosuch") }), nil, "does not accept this user", store.ErrInvalid},
		"no server":        {with(t, location, func(u *url.URL) { u.Host = "127.0.0.1:1" }), nil, "refused", store.ErrUnavailable},
		"no rights":        {with(t, location, func(u *url.URL) { u.User = url.User(schema + "_poor") }), nil, "grant it CREATE", store.ErrInvalid},
		"schema missing":   {location, []postgres.Option{postgres.WithoutMigration()}, "postgres.Schema", store.ErrInvalid},
		"schema forbidden": {location, []postgres.Option{postgres.WithSchema("pg_x")}, "pg_", store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), c.url, append([]postgres.Option{postgres.WithSchema(schema)}, c.opts...)...)
			require.ErrorIs(t, err, c.is)
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestSchemaNewerThanTheProgram(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	open(t, location, schema)
	exec(t, location, fmt.Sprintf(`INSERT INTO %s.migrations (version) VALUES (999)`, schema))
	_, err := postgres.Open(t.Context(), location, postgres.WithSchema(schema))
	require.ErrorIs(t, err, store.ErrInvalid)
	assert.ErrorContains(t, err, "newer program")
}

func TestTenStartersMigrateOnce(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), location, postgres.WithSchema(schema))
			if errs[i] = err; err == nil {
				errs[i] = s.Close()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		assert.NoError(t, err)
	}
}

func TestSchemaAsSQL(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	text, err := postgres.Schema(schema)
	require.NoError(t, err)
	exec(t, location, text)
	s, err := postgres.Open(t.Context(), location, postgres.WithSchema(schema), postgres.WithoutMigration())
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestPoolOfTheUser(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	pool, err := pgxpool.New(t.Context(), location)
	require.NoError(t, err)
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, pool.Ping(t.Context()), "the pool stays open")
	_, err = s.Clock(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
}
