package cli

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/upgrade"
)

// TestMigratePlan: the plan of an upgrade from version 1 names what is locked, and the
// plan of an up-to-date schema is empty.
func TestMigratePlan(t *testing.T) {
	for _, b := range upgrade.Backends() {
		if b.Name == "turso" {
			continue // its server is reached by a dialer; TestPlan of package upgrade has it
		}
		t.Run(b.Name, func(t *testing.T) {
			s := newShell(t, b.At(t, 1, true).URL)
			place := regexp.MustCompile(`(?m)^(schema "pawl" of database|/).*$`)
			golden(t, filepath.Join("testdata", "migrate_plan_"+b.Name+".txt"), place.ReplaceAllString(s.must("migrate", "plan"), "PLACE"))
			var p planJSON
			require.NoError(t, json.Unmarshal([]byte(s.must("migrate", "plan", "--json")), &p))
			require.Equal(t, int64(1), p.Version)
			require.NotEmpty(t, p.Steps)
			s.must("migrate", "up")
			require.Contains(t, s.run("migrate", "plan").err, "Nothing to do")
		})
	}
}
