package sqlkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"CREATE TABLE a (\n  b TEXT DEFAULT ';--', \n  c)", `SELECT "x;y"`, "SELECT 'it''s;'"},
		sqlkit.Split("-- a; comment\nCREATE TABLE a (\n  b TEXT DEFAULT ';--', -- it's; quoted\n  c);\n\nSELECT \"x;y\"; ;SELECT 'it''s;'\n-- end"))
	require.Equal(t, []string{"CREATE FUNCTION f() AS $$ a; -- b\n $$", "SELECT 1"}, sqlkit.Split("CREATE FUNCTION f() AS $$ a; -- b\n $$;\nSELECT 1;"))
}
