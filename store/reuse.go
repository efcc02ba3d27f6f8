package store

import (
	"bytes"
	"fmt"
)

// Reuse says when an external id that a run holds is free for another run.
//
// P8: a run holds its external id, together with its suffix and namespace, while it is
// active; one of [ReuseNever] holds it for as long as it is kept, which is until it is
// purged. Of any number of runs one at most holds it, however they were made: created,
// fired, imported, restarted. Cases: create/external-id-for-ever,
// create/external-id-for-ever-race, create/external-id-for-ever-after-others, create/external-id-free-after-purge,
// restart/external-id-for-ever, import/for-ever.
type Reuse uint8

// The policies.
const (
	ReuseAfterEnd Reuse = iota // when the run is final
	ReuseNever                 // when the run is purged
)

// DigestScheme is how many bytes at the start of a [NewRun.Digest] say how the rest was
// made.
const DigestScheme = 8

// MaxDigest bounds a [NewRun.Digest], in bytes.
const MaxDigest = 64

// Meets is the outcome of creating r where a run stands in its way: one of the same ID,
// or the one that holds its external id. Stores call it, so that all of them decide
// alike; the lease of a repeated start is theirs to add.
//
// A request with a Digest conflicts (ErrConflict) with a run of another workflow, and
// with one whose digest begins with the same [DigestScheme] bytes and goes on
// differently. A request with MustBeNew that meets another run gives ErrAlreadyExists.
// The result's ID is that of the run met in any case. Cases:
// create/digest-conflicts, create/digest-of-a-repeat, create/must-be-new,
// create/reuse-refused.
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

// alike reports whether two digests were made alike.
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
		return Invalid("digest", fmt.Sprintf("it has %d bytes; none, or %d to %d are possible", n, DigestScheme, MaxDigest))
	}
	return nil
}
