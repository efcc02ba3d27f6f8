package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// patient is a store whose server has faults, one after the other.
type patient struct {
	t     *testing.T
	srv   *pgtest.Server
	store store.Store
	admin *pgx.Conn
}

func newPatient(t *testing.T, opts ...pgtest.Option) *patient {
	postgres.LittleIsMuch(t)
	p := &patient{t: t, srv: pgtest.Start(t, opts...)}
	p.store = open(t, p.srv.URL(), "pawl")
	p.admin = p.connect()
	return p
}

func (p *patient) connect() *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.srv.URL())
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (p *patient) exec(statements ...string) {
	p.t.Helper()
	for _, sql := range statements {
		_, err := p.admin.Exec(p.t.Context(), sql)
		require.NoError(p.t, err, sql)
	}
}

// becomes waits until the doctor reports the expected finding of a part, because the server's
// statistics lag behind.
func (p *patient) becomes(part string, level store.Level, says ...string) {
	p.t.Helper()
	var last store.Finding
	require.Eventually(p.t, func() bool {
		list, err := p.store.(store.Diagnoser).Diagnose(p.t.Context())
		require.NoError(p.t, err)
		for _, f := range list {
			if f.Name == part {
				last = f
			}
		}
		return last.Level == level && !slices.ContainsFunc(says, func(text string) bool {
			return !strings.Contains(last.Seen+"; "+last.Advice, text)
		})
	}, 30*time.Second, 20*time.Millisecond, "%s does not become %v, saying %q", part, level, says)
}

// TestDiagnoseFindsWhatHoldsVacuumUp checks for each fault that it is found, that the finding says
// what to do, and that it disappears once the fault is repaired. The test has servers of its own,
// because such faults affect a whole server.
func TestDiagnoseFindsWhatHoldsVacuumUp(t *testing.T) {
	p := newPatient(t, pgtest.Setting("max_prepared_transactions", "5"), pgtest.Setting("max_connections", "40"))
	p.becomes("vacuum", store.Fine)

	other := p.connect()
	_, err := other.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	require.NoError(t, err)
	p.becomes("vacuum", store.Warning, "long transactions are open: process", "pg_terminate_backend", "idle_in_transaction_session_timeout")
	_, err = other.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)
	p.becomes("vacuum", store.Fine)

	p.exec(`BEGIN`, `SELECT txid_current()`, `PREPARE TRANSACTION 'left behind'`)
	p.becomes("vacuum", store.Warning, "prepared transactions are open: 'left behind'", "roll them back")
	p.exec(`ROLLBACK PREPARED 'left behind'`)
	p.becomes("vacuum", store.Fine)

	p.exec(`SELECT pg_create_physical_replication_slot('gone', true)`)
	p.becomes("vacuum", store.Warning, "unused replication slots: gone", "pg_drop_replication_slot")
	p.exec(`SELECT pg_drop_replication_slot('gone')`)
	p.becomes("vacuum", store.Fine)

	p.becomes("connections", store.Fine)
	for range 35 {
		p.connect()
	}
	p.becomes("connections", store.Warning, "of 37 in use", "pool_max_conns", "pooler")
}

func TestDiagnoseFindsBloat(t *testing.T) {
	p := newPatient(t, pgtest.Setting("autovacuum", "off"))
	p.becomes("vacuum", store.Fault, "autovacuum is off", "turn it on")
	p.becomes("bloat", store.Fine)
	p.exec(`INSERT INTO pawl.locks (namespace, name, owner, until) SELECT 'bloat', md5(i::text)||md5('a'||i)||md5('b'||i)||md5('c'||i), 'me', 0 FROM generate_series(1, 10000) i`,
		`DELETE FROM pawl.locks`)
	p.becomes("bloat", store.Warning, "locks has 10000 dead rows", "vacuum")
	p.exec(`VACUUM pawl.locks`)
	p.becomes("bloat", store.Warning, "locks_pkey has 2 MB for about 0 entries", "REINDEX INDEX CONCURRENTLY")
	p.exec(`REINDEX INDEX CONCURRENTLY pawl.locks_pkey`)
	p.becomes("bloat", store.Fine)
}
