package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/exec"
)

// What is written out here, so that users see it, is what package exec records.
func TestStatusesOfGeneratorsAreThoseRecorded(t *testing.T) {
	require.EqualValues(t, exec.GeneratorStarted, GeneratorStarted)
	require.EqualValues(t, exec.GeneratorComplete, GeneratorComplete)
	require.EqualValues(t, exec.GeneratorFailed, GeneratorFailed)
}
