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
}

func TestSplitTriggers(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"CREATE TRIGGER a BEGIN\n\n UPDATE t SET x=CASE WHEN y THEN 1 END;\n SELECT ';END;'; END", "SELECT 1"},
		sqlkit.Split("CREATE TRIGGER a BEGIN\n-- it's; one\n UPDATE t SET x=CASE WHEN y THEN 1 END;\n SELECT ';END;'; END;\nSELECT 1;"))
}
