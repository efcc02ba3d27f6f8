package turso

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
)

// versions is a link to a database of which only the version of the schema exists.
type versions struct {
	link
	now   int64
	apply func() error
}

func (v *versions) Read(_ context.Context, stmts []sqlitecore.Stmt) error {
	return stmts[0].Rows(func(to ...any) error {
		switch to := to[0].(type) {
		case *bool:
			*to = true
		case **int64:
			*to = &v.now
		}
		return nil
	})
}

func (v *versions) migrate(context.Context, sqlitecore.Migration, int64) error { return v.apply() }

// TestMigratedMeanwhile checks that a migration that fails because another process has applied it is no error, even if it is
// the second failure.
func TestMigratedMeanwhile(t *testing.T) {
	t.Parallel()
	list, err := sqlitecore.Migrations()
	require.NoError(t, err)
	newest, lost := list[len(list)-1].Version, errors.New("no such trigger")
	c, library := &config{migrate: true}, ""

	calls := 0
	v := &versions{now: newest - 1}
	v.apply = func() error {
		if calls++; calls == 2 {
			v.now = newest
		}
		return lost
	}
	require.NoError(t, migrate(t.Context(), v, c, &library))
	require.Equal(t, 2, calls)

	calls = 0
	v = &versions{now: newest - 1, apply: func() error { calls++; return lost }}
	require.ErrorIs(t, migrate(t.Context(), v, c, &library), lost)
	require.Equal(t, 2, calls)
}
