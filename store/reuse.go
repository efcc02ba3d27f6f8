package store

import (
	"bytes"
	"fmt"
)

// Reuse says when another run may have an external id that a run holds.
//
// P8: a run holds its external id, together with its suffix and namespace, while it is active:
// until it is final, however it ends. A run with [ReuseNever] holds it until the run is purged,
// against runs of either policy. At most one of any number of runs holds it, however they were
// created: by a start, a firing, an import or a restart. A run that gave up its external id when it
// ended does not conflict with any run.
type Reuse uint8

// The policies.
const (
	ReuseAfterEnd Reuse = iota // when the run is final
	ReuseNever                 // when the run is purged
)

// DigestScheme is the number of bytes at the start of a [NewRun.Digest] that say how the rest was
// made.
const DigestScheme = 8

// MaxDigest limits the size of a [NewRun.Digest], in bytes.
const MaxDigest = 64

// Meets returns the outcome of creating r when another run is in the way: one of the same ID, or
// the one that holds its external id. Stores call it, so that all of them decide alike. The store
// itself adds the lease of a repeated start.
//
// A request with a Digest conflicts (ErrConflict) with a run of another workflow, and with a run
// whose digest begins with the same [DigestScheme] bytes and differs in the rest. A request with
// MustBeNew that finds another run gets ErrAlreadyExists. The result's ID is always that of the run
// in the way. For a request with a Signal, see [NewRun.Reaches] instead.
func (r *NewRun) Meets(id ID, workflow string, digest []byte) CreateResult {
	name := fmt.Sprintf("run id %s", id)
	if id != r.ID {
		name = fmt.Sprintf("external id %q", clip(r.ExternalID))
	}
	switch {
	case len(r.Digest) > 0 && workflow != r.Workflow:
		return CreateResult{ID: id, Err: fmt.Errorf("%s belongs to run %s of workflow %q: %w", name, id, clip(workflow), ErrConflict)}
	case len(r.Digest) > 0 && alike(r.Digest, digest) && !bytes.Equal(r.Digest, digest):
		return CreateResult{ID: id, Err: fmt.Errorf("%s belongs to run %s, which was started with another input: %w", name, id, ErrConflict)}
	case id != r.ID && r.MustBeNew:
		return CreateResult{ID: id, Err: fmt.Errorf("%s belongs to run %s: %w", name, id, ErrAlreadyExists)}
	}
	return CreateResult{ID: id, Created: id == r.ID, Repeated: id == r.ID}
}

// alike reports whether two digests were made in the same way.
func alike(a, b []byte) bool {
	return len(b) >= DigestScheme && bytes.Equal(a[:DigestScheme], b[:DigestScheme])
}

func (r *NewRun) validateReuse() error {
	switch n := len(r.Digest); {
	case r.Reuse > ReuseNever:
		return Invalid("reuse policy", "it is neither after the end nor never")
	case r.ExternalID == "" && (r.Reuse != ReuseAfterEnd || r.MustBeNew):
		return Invalid("reuse policy", "it needs an external id")
	case n > MaxDigest || n > 0 && n < DigestScheme:
		return Invalid("digest", fmt.Sprintf("it has %d bytes; want 0, or %d to %d", n, DigestScheme, MaxDigest))
	}
	return nil
}
