package postgres_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestDurability checks that the connections of a store have the settings of the server, the role
// or the URL, and that the store reports them in its Features and in its doctor's findings.
func TestDurability(t *testing.T) {
	p := newPatient(t, pgtest.Durable())
	says := func(location string, want store.Durability, level store.Level, words ...string) {
		t.Helper()
		p.store = open(t, location, "pawl")
		require.Equal(t, want, p.store.Features().Durability, location)
		p.becomes("durability", level, words...)
	}
	setting := func(value string) string {
		return with(t, p.srv.URL(), func(u *url.URL) {
			q := u.Query()
			q.Set("synchronous_commit", value)
			u.RawQuery = q.Encode()
		})
	}
	says(p.srv.URL(), store.Durable, store.Fine, "a commit waits for the disk")
	says(setting("local"), store.Durable, store.Fine, "a commit waits for the disk (synchronous_commit=local)")
	says(setting("off"), store.Delayed, store.Warning, "synchronous_commit is off", "in the URL")

	config, err := pgxpool.ParseConfig(setting("off"))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	own, err := postgres.New(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, store.Delayed, own.Features().Durability, "a pool of the program's own")

	p.exec(`ALTER ROLE postgres SET synchronous_commit=off`)
	says(p.srv.URL(), store.Delayed, store.Warning, "synchronous_commit is off")
	says(setting("on"), store.Durable, store.Fine)
	p.exec(`ALTER ROLE postgres RESET synchronous_commit`, `ALTER DATABASE postgres SET synchronous_commit=off`)
	says(p.srv.URL(), store.Delayed, store.Warning, "synchronous_commit is off")
	p.exec(`ALTER DATABASE postgres RESET synchronous_commit`, `ALTER TABLE pawl.locks SET UNLOGGED`)
	says(p.srv.URL(), store.Durable, store.Warning, "tables are not logged: locks", "SET LOGGED")
	p.exec(`ALTER TABLE pawl.locks SET LOGGED`)
	says(p.srv.URL(), store.Durable, store.Fine)
}

func TestDurabilityWithoutFsync(t *testing.T) {
	p := newPatient(t, pgtest.Setting("full_page_writes", "off"))
	require.Equal(t, store.Buffered, p.store.Features().Durability)
	p.becomes("durability", store.Warning, "fsync is off", "full_page_writes is off")
}
