package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// TestTheTimeIsExact compares the time of statements, which is calculated with double precision, with
// the exact one, for each microsecond of two seconds and for half a million random times up to 2106.
func TestTheTimeIsExact(t *testing.T) {
	t.Parallel()
	location, _ := pgtest.Schema(t)
	conn, err := pgx.Connect(t.Context(), location)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	of := strings.NewReplacer("$1::bigint", "NULL::bigint", "now()", "t").Replace(postgres.Now)
	require.Contains(t, of, "t)")
	var times, wrong int64
	require.NoError(t, conn.QueryRow(t.Context(), `WITH at AS (
			SELECT to_timestamp(s)+make_interval(secs => us/1000000.0) AS t FROM unnest(ARRAY[1800000000, 4294967294]) s, generate_series(0, 999999) us
			UNION ALL SELECT to_timestamp(0)+random()*(to_timestamp(4294967295)-to_timestamp(0)) FROM generate_series(1, 500000))
		SELECT count(*), count(*) FILTER (WHERE `+of+` <> (extract(epoch FROM t)*1000000)::bigint) FROM at`).Scan(&times, &wrong))
	require.EqualValues(t, 2_500_000, times)
	require.Zero(t, wrong)
}
