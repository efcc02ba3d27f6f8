//go:build long

package turso_test

import (
	"testing"

	"github.com/pawlhq/pawl/conformance"
)

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inNamespace(t))
}

// TestReplica checks that a store on a replica never returns data that the replica has not caught
// up with.
func TestReplica(t *testing.T) {
	t.Parallel()
	h := onReplica(t)
	h.Exceptions = map[string]string{
		"payload/at-the-limit": "it commits five payloads of 2 MB at once, and a replica passes on no more than 4 MB to its primary",
		"payload/large-commit": "it is one commit of 6 MB, and a replica passes on no more than 4 MB to its primary",
	}
	conformance.Run(t, h)
}
