package sqlkit

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/pawlhq/pawl/store"
)

// A write leaves a stamp in the rows that it has changed. Later statements of the same write, and a
// claim that is sent again, find the rows by the stamp.

// MaxStamp is the greatest stamp. Stamps of consecutive items are counted up from it without
// an overflow.
const MaxStamp = 1 << 62

// NewStamp draws a stamp from 1 to [MaxStamp], which no other write has.
func NewStamp() int64 { return rand.Int64N(MaxStamp) + 1 }

// ClaimStamp returns the stamp of a claim, the same one each time the claim is sent. A ClaimID
// belongs to its worker: claims of two workers have different stamps even if their ids are the
// same, except for a chance of one in MaxStamp.
func ClaimStamp(p *store.ClaimParams) int64 {
	if p.ClaimID == 0 {
		return NewStamp()
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.Worker))
	return (p.ClaimID^int64(h.Sum64()))&(MaxStamp-1) + 1
}
