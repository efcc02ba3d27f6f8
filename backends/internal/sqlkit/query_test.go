package sqlkit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAQueryIsWrittenInEachDialect(t *testing.T) {
	const text = `SELECT {greatest}(at, :limit) FROM pawl.runs WHERE namespace=:namespace AND name {in} :names AND at<:now AND status<{final} LIMIT :limit+1`
	postgres, params := PostgreSQL.render(text)
	assert.Equal(t, `SELECT greatest(at, $1::bigint) FROM pawl.runs WHERE namespace=$2::text AND name = ANY($3::text[])`+
		` AND at<coalesce($4::bigint, (date_part('epoch', now())*1000000)::bigint) AND status<6 LIMIT $1::bigint+1`, postgres)
	assert.Equal(t, []string{"limit", "namespace", "names", "now"}, params)
	sqlite, params := SQLite.render(text)
	assert.Equal(t, `SELECT max(at, ?1) FROM runs WHERE namespace=?2 AND name IN (SELECT value FROM json_each(?3)) AND at<?4 AND status<6 LIMIT ?1+1`, sqlite)
	assert.Equal(t, []string{"limit", "namespace", "names", "now"}, params)
	assert.PanicsWithValue(t, "sqlkit: a statement has the unknown parameter :nobody", func() { SQLite.render(`:nobody`) })
}
