package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Reuse says what happens to a start whose external id another run has: see [ExternalID].
type Reuse uint8

// The policies of [Reuse].
const (
	// Forever allows one run of an external id for as long as that run is kept: a start
	// finds it after its end, too. A run is kept until retention or [Engine.Purge] deletes
	// it; without them it is kept for ever.
	Forever Reuse = iota
	// WhileActive frees the external id when the run is final, however it ended. The
	// next start then creates another run.
	WhileActive
	// Reject is like Forever, but where Forever returns the existing run it fails with
	// store.ErrAlreadyExists.
	Reject
)

// ExternalID gives the run an external id, which makes its start idempotent. Of all starts with the
// same id in a namespace, the first creates a run, and the others return that run, with
// [Started].Existing set. The policy says for how long; it is [Forever] unless another is
// given.
//
//	engine.ExternalID("order-42")                     // one run for this order
//	engine.ExternalID("reindex", engine.WhileActive)  // one run at a time
//
// A start that finds a run of another workflow, or of another input, fails with
// store.ErrConflict, whatever the policy. Inputs are compared by a hash of their encoding,
// if the codec can make one (see [Digester]); [AnyInput] turns the comparison off. How
// long a run holds the id is decided by the policy of its own start, not by that of later starts.
// An empty id means none. An id has at most 512 bytes of UTF-8.
func ExternalID(id string, reuse ...Reuse) StartOption {
	return func(r *store.NewRun) {
		policy := Forever
		if n := len(reuse); n > 0 {
			policy = reuse[n-1]
		}
		r.ExternalID, r.Reuse, r.MustBeNew = id, store.ReuseAfterEnd, false
		if id == "" {
			return // none
		}
		switch policy {
		case Forever:
			r.Reuse = store.ReuseNever
		case Reject:
			r.Reuse, r.MustBeNew = store.ReuseNever, true
		case WhileActive:
		default:
			r.Reuse = store.Reuse(policy) // refused by Validate
		}
	}
}

// AnyInput lets a start with an [ExternalID] or [RunID] find a run that was started with another
// input. The run must still be of the same workflow.
func AnyInput() StartOption { return func(r *store.NewRun) { r.Digest = anyInput } }

// Digests begin with eight bytes that say how they were made.
var (
	anyInput   = make([]byte, store.DigestScheme)
	jsonScheme = []byte("json/256")
	byteScheme = []byte("data/256")
)

// Digester is implemented by codecs whose inputs can be compared, so that a start fails if
// the run that has its id was started with another input.
type Digester interface {
	// Digest returns a hash of a value that Marshal has encoded: the same for equal
	// values, whatever else went into the encoding. It begins with eight bytes that say
	// how it was made; others are not compared with it. It is stored as it is, so a codec
	// that encrypts returns a hash with a key.
	Digest(data []byte) ([]byte, error)
}

// Digest implements [Digester]. White space between the tokens does not count.
func (JSON) Digest(data []byte) ([]byte, error) {
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return DigestOf(data), nil // an input that was encoded elsewhere
	}
	return hashed(jsonScheme, compact.Bytes()), nil
}

// DigestOf returns a digest of the bytes as they are, in the form that [Digester] asks for.
func DigestOf(data []byte) []byte { return hashed(byteScheme, data) }

func hashed(scheme, data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(scheme), sum[:]...)
}

// compare gives a run that has an id of the program's own what it is compared by.
func (e *Engine) compare(run *store.NewRun, fresh bool) error {
	if fresh && run.ExternalID == "" || run.Debounce != "" {
		run.Digest = nil
		return nil
	}
	if run.Digest != nil {
		return nil
	}
	run.Digest = anyInput
	d, ok := e.codec.(Digester)
	if !ok {
		return nil
	}
	digest, err := d.Digest(run.Input)
	if err != nil {
		return fmt.Errorf("start of workflow %q: cannot compare the input with that of the existing run: %w", run.Workflow, err)
	}
	run.Digest = digest
	return nil
}
