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
	"github.com/pawlhq/pawl/internal/testing/pgtest"
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
	assert.Regexp(t, `^PostgreSQL \d+(\.\d+)?$`, s.Features().Version)
	now, err := s.Clock(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Hour)
}

// Parameters in a URL that are not Pawl's reach the server unchanged.
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

// TestApplicationName checks that the server knows whose connections they are.
func TestApplicationName(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	s, err := postgres.Open(t.Context(), with(t, location, func(u *url.URL) { u.RawQuery += "&schema=" + schema }))
	require.NoError(t, err)
	defer s.Close()
	conn, err := pgx.Connect(t.Context(), location)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var named bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name='pawl')`).Scan(&named))
	assert.True(t, named)
}

// TestSchemaNames checks that a schema's name may contain the name that statements use for it.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	location, unique := pgtest.Schema(t)
	for _, schema := range []string{`pawl.` + unique, unique + `."pawl"`, unique + " pawl.pawl. x"} {
		s, err := postgres.Open(t.Context(), with(t, location, func(u *url.URL) { u.RawQuery += "&schema=" + url.QueryEscape(schema) }))
		require.NoError(t, err, schema)
		_, err = s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q"}}})
		require.NoError(t, err, schema)
		page, err := s.List(t.Context(), store.ListParams{Namespace: "n"})
		require.NoError(t, err, schema)
		assert.Len(t, page.Runs, 1, schema)
		require.NoError(t, s.Close())
		conn, err := pgx.Connect(t.Context(), location)
		require.NoError(t, err)
		var there bool
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname=$1)`, schema).Scan(&there))
		assert.True(t, there, schema)
		_, err = conn.Exec(t.Context(), "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	}
}

// refusal is a URL that cannot be opened and the text of the error.
type refusal struct {
	name string
	url  string
	opts []postgres.Option
	is   error
	says []string
}

func checkRefusals(t *testing.T, schema string, list []refusal) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), c.url, append([]postgres.Option{postgres.WithSchema(schema)}, c.opts...)...)
			require.ErrorIs(t, err, c.is)
			for _, word := range c.says {
				assert.ErrorContains(t, err, word)
			}
			assert.NotContains(t, err.Error(), "hidden")
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// Each error says what is wrong, where, and what to do, and shows no password.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	at, schema := server.URL(), "pawl"
	exec(t, at, fmt.Sprintf(`CREATE ROLE %s; CREATE ROLE ann LOGIN PASSWORD 'secret' IN ROLE %[1]s; CREATE ROLE poor LOGIN;
		CREATE SCHEMA empty; CREATE SCHEMA theirs; CREATE TABLE theirs.migrations (name text)`, pgtest.PasswordRole))
	s, err := postgres.Open(t.Context(), at, postgres.WithSchema("ready"))
	require.NoError(t, err)
	require.NoError(t, s.Close())

	as := func(user *url.Userinfo) string { return with(t, at, func(u *url.URL) { u.User = user }) }
	host := func(host string) string { return with(t, at, func(u *url.URL) { u.Host = host }) }
	without := postgres.WithoutMigration()
	checkRefusals(t, schema, []refusal{
		{"no URL", "localhost", nil, store.ErrInvalid, []string{"postgres://user:password@host"}},
		{"keywords", "host=localhost user=ann password=hidden", nil, store.ErrInvalid, []string{"postgres://user:password@host"}},
		{"half a URL", "postgres://ann:hidden@[::1/db", nil, store.ErrInvalid, []string{"postgres://user:password@host"}},
		{"unknown setting", set(t, at, "pool_max_conns", "x"), nil, store.ErrInvalid, []string{"pool_max_conns"}},
		{"exec mode", set(t, at, "default_query_exec_mode", "fast"), nil, store.ErrInvalid, []string{"default_query_exec_mode"}},
		{"migrate", set(t, at, "migrate", "maybe"), nil, store.ErrInvalid, []string{"migrate=maybe", "true or false"}},
		{"listen", set(t, at, "listen", "postgres://ann:hidden@[::1/db"), nil, store.ErrInvalid, []string{"LISTEN", "postgres://user:password@host"}},
		{"listen, setting", set(t, at, "listen", set(t, at, "pool_max_conns", "x")), nil, store.ErrInvalid, []string{"LISTEN", "pool_max_conns"}},
		{"unknown parameter", set(t, at, "shcema", "pawl"), nil, store.ErrInvalid, []string{"shcema", "URL"}},
		{"no database", with(t, at, func(u *url.URL) { u.Path = "/nosuch" }), nil, store.ErrInvalid, []string{`"nosuch"`, "create it"}},
		{"no user", as(url.User("nosuch")), nil, store.ErrInvalid, []string{`"nosuch"`, "rejects this user"}},
		{"wrong password", as(url.UserPassword("ann", "hidden")), nil, store.ErrInvalid, []string{`"ann"`, "password"}},
		{"no password", as(url.User("ann")), nil, store.ErrInvalid, []string{"ann", "password"}},
		{"no host", host("nosuch.invalid:5432"), nil, store.ErrUnavailable, []string{"nosuch.invalid", "check the host and the port"}},
		{"no server", host("127.0.0.1:1"), nil, store.ErrUnavailable, []string{"127.0.0.1:1", "refused", "check the host and the port"}},
		{"no TLS", set(t, at, "sslmode", "require"), nil, store.ErrInvalid, []string{"sslmode"}},
		{"no rights to create", as(url.User("poor")), nil, store.ErrInvalid, []string{`GRANT CREATE ON DATABASE "postgres" TO "poor"`, "postgres.Schema"}},
		{"no rights to read", as(url.User("poor")), []postgres.Option{postgres.WithSchema("ready")}, store.ErrInvalid, []string{`GRANT`, `"poor"`, `"ready"`}},
		{"no rights to migrate", as(url.User("poor")), []postgres.Option{postgres.WithSchema("empty")}, store.ErrInvalid, []string{`ALTER SCHEMA "empty" OWNER TO "poor"`, "postgres.Schema"}},
		{"schema missing", at, []postgres.Option{without}, store.ErrInvalid, []string{"schema pawl", "no Pawl tables", "WithoutMigration", "migrate=false", "postgres.Schema"}},
		{"schema of another", at, []postgres.Option{postgres.WithSchema("theirs")}, store.ErrInvalid, []string{"theirs"}},
		{"schema forbidden", at, []postgres.Option{postgres.WithSchema("pg_x")}, store.ErrInvalid, []string{"pg_x", "pg_"}},
	})
	// The advice in the errors works.
	for name, advice := range map[string]string{
		"pawl":  `GRANT CREATE ON DATABASE "postgres" TO "poor"`,
		"empty": `ALTER SCHEMA "empty" OWNER TO "poor"`,
		"ready": `GRANT USAGE ON SCHEMA "ready" TO "poor"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "ready" TO "poor"`,
		"given": `CREATE SCHEMA "given" AUTHORIZATION "poor"`,
	} {
		exec(t, at, advice)
		s, err := postgres.Open(t.Context(), as(url.User("poor")), postgres.WithSchema(name))
		require.NoError(t, err, name)
		_, err = s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q"}}})
		require.NoError(t, err, name)
		require.NoError(t, s.Close())
	}
}

// TestChangesNeedNoRights: a program of an earlier version, whose user has no rights to the tables that came since,
// starts and cancels runs although another program has subscribed to their changes.
func TestChangesNeedNoRights(t *testing.T) {
	t.Parallel()
	at := pgtest.Start(t).URL()
	owner, err := postgres.Open(t.Context(), at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, owner.Close()) })
	exec(t, at, `CREATE ROLE older LOGIN; GRANT USAGE ON SCHEMA pawl TO older; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO older;
		REVOKE ALL ON pawl.subscriptions, pawl.changes FROM older`)
	var outbox store.Outboxer = owner
	_, err = outbox.PutSubscription(t.Context(), store.PutSubscriptionParams{Namespace: "n", Subscription: store.Subscription{Name: "all"}})
	require.NoError(t, err)

	s, err := postgres.Open(t.Context(), with(t, at, func(u *url.URL) { u.User = url.User("older") }), postgres.WithoutMigration())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	run := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	made, err := s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}})
	require.NoError(t, err)
	require.NoError(t, made[0].Err)
	canceled, err := s.Cancel(t.Context(), store.CancelParams{Namespace: "n", IDs: []store.ID{run.ID}})
	require.NoError(t, err)
	require.NoError(t, canceled[0].Err)
	subs, err := outbox.ListSubscriptions(t.Context(), store.ListSubscriptionsParams{Namespace: "n"})
	require.NoError(t, err)
	require.EqualValues(t, 2, subs[0].Waiting)
}

func TestSchemaNewerThanTheProgram(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	open(t, location, schema)
	version, err := postgres.SchemaOf(t.Context(), location, postgres.WithSchema(schema))
	require.NoError(t, err)
	exec(t, location, fmt.Sprintf(`INSERT INTO %s.migrations (version) VALUES (999); UPDATE %[1]s.compatibility SET minimum=%d`, schema, version.Newest))
	for _, opts := range [][]postgres.Option{nil, {postgres.WithoutMigration()}} {
		s, err := postgres.Open(t.Context(), location, append(opts, postgres.WithSchema(schema))...)
		require.NoError(t, err, "programs of this version may use it")
		require.NoError(t, s.Close())
	}
	exec(t, location, fmt.Sprintf(`UPDATE %s.compatibility SET minimum=%d`, schema, version.Newest+1))
	_, err = postgres.Open(t.Context(), location, postgres.WithSchema(schema))
	assert.ErrorContains(t, err, fmt.Sprintf("know version %d or later", version.Newest+1))
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
	text, err := postgres.SchemaSQL(schema, 0)
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
