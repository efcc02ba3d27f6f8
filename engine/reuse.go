package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Reuse says what becomes of a start whose external id a run has already: see [ID].
type Reuse uint8

// The policies.
const (
	// Forever makes one run of an external id for as long as that run is kept: a start
	// finds it after its end, too. It is kept until retention or Purge deletes it;
	// without retention that is for ever.
	Forever Reuse = iota
	// WhileActive frees the external id when the run is final, however it ended: the
	// next start makes another run.
	WhileActive
	// Reject is Forever, and fails with store.ErrAlreadyExists where Forever gives back
	// the run that is there.
	Reject
)

// ID gives the run an external id, which makes its start idempotent: of all starts with
// one id in a namespace, the first makes a run, and the others get that run, with
// [Started].Existing. The policy, [Forever] unless another is given, says for how long.
//
//	engine.ID("order-42")                     // one run for this order
//	engine.ID("reindex", engine.WhileActive)  // one run at a time
//
// A start that meets a run of another workflow, or of another input, fails with
// store.ErrConflict, whatever the policy. Inputs are compared by a hash of their
// encoding, where the codec can make one (see [Digester]); [AnyInput] does without. The
// run's own policy decides how long it holds the id, not that of later starts.
func ID(id string, reuse ...Reuse) StartOption {
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

// AnyInput lets a start with an [ID] or [RunID] find a run that was started with another
// input. Its workflow must be the same all the same.
func AnyInput() StartOption { return func(r *store.NewRun) { r.Digest = anyInput } }

// Digests begin with eight bytes that say how they were made.
var (
	anyInput   = make([]byte, store.DigestScheme)
	jsonScheme = []byte("json/256")
	byteScheme = []byte("data/256")
)

// Digester is implemented by codecs whose inputs can be compared, so that a start with an
// id is told from one with another input.
type Digester interface {
	// Digest returns a hash of a value that Marshal has encoded: the same for equal
	// values, whatever else went into the encoding. It begins with eight bytes that say
	// how it was made; others are not compared with it. It is stored as it is, so a codec
	// that encrypts returns a hash with a key.
	Digest(data []byte) ([]byte, error)
}

// Digest implements [Digester]: white space between the tokens does not count.
func (JSON) Digest(data []byte) ([]byte, error) {
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return DigestOf(data), nil // an input that was encoded elsewhere
	}
	return hashed(jsonScheme, compact.Bytes()), nil
}

// DigestOf is a [Digester]'s digest of bytes as they are.
func DigestOf(data []byte) []byte { return hashed(byteScheme, data) }

func hashed(scheme, data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(scheme), sum[:]...)
}

// compare gives a run that has an id of the program's own what it is compared by.
func (e *Engine) compare(run *store.NewRun, fresh bool) error {
	if fresh && run.ExternalID == "" {
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
		return fmt.Errorf("start of workflow %q: the input cannot be compared: %w", run.Workflow, err)
	}
	run.Digest = digest
	return nil
}
