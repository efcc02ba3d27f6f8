package sqlkit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawlhq/pawl/store"
)

func TestClaimStamp(t *testing.T) {
	t.Parallel()
	of := func(worker string, id int64) int64 {
		return ClaimStamp(&store.ClaimParams{Worker: worker, ClaimID: id})
	}
	assert.Equal(t, of("w1", 42), of("w1", 42), "a claim that is sent again")
	assert.NotEqual(t, of("w1", 42), of("w2", 42), "one id of two workers")
	assert.NotEqual(t, of("w1", 42), of("w1", 43), "two ids of one worker")
	assert.NotEqual(t, of("w1", 0), of("w1", 0), "claims without an id")
	for _, id := range []int64{1, 42, MaxStamp, math.MaxInt64} {
		assert.Positive(t, of("w1", id), "the stamp of id %d", id)
		assert.LessOrEqual(t, of("w1", id), int64(MaxStamp), "the stamp of id %d", id)
	}
}
