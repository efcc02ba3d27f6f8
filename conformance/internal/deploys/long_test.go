//go:build long

package deploys_test

import "testing"

// TestRollingDeploysOf200Pairs is [TestRollingDeploys] of more programs.
func TestRollingDeploysOf200Pairs(t *testing.T) { rolling(t, 1000, 1200) }
