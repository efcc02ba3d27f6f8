//go:build !race

package bolt_test

import (
	"testing"

	"github.com/pawlhq/pawl/conformance"
)

// The race detector makes the simulation several times slower.
func TestSimulation(t *testing.T) { conformance.RunSimulation(t, harness()) }
