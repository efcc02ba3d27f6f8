package batch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawlhq/pawl/internal/batch"
)

// slow is a call that takes a second and answers each item with its text.
type slow struct {
	mu        sync.Mutex
	calls     [][]int
	now, most int
}

func (s *slow) do(items []int) []string {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(items))
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	out := make([]string, len(items))
	for i, n := range items {
		out[i] = fmt.Sprint(n)
	}
	return out
}

// What comes while a call is under way shares the next ones, in order, no more than
// fits; each gets its own answer.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := batch.New(4, 1, s.do)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				got, sent, err := g.Do(t.Context(), i)
				assert.NoError(t, err)
				assert.True(t, sent)
				assert.Equal(t, fmt.Sprint(i), got)
			})
			if i == 0 {
				synctest.Wait() // the first has gone out
			}
		}
		wg.Wait()
		var sizes []int
		for _, c := range s.calls {
			sizes = append(sizes, len(c))
		}
		assert.Equal(t, []int{1, 4, 4, 1}, sizes)
		assert.Equal(t, 1, s.most)
	})
}

// So many calls may be under way at the same time, and no more.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := batch.New(2, 3, s.do)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { _, _, _ = g.Do(t.Context(), i) })
		}
		wg.Wait()
		assert.Equal(t, 3, s.most)
	})
}

// An item whose caller gives up before it went out is taken back; afterwards its outcome
// is unknown.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := batch.New(10, 1, s.do)
		brief, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, sent, err := g.Do(brief, 1)
			assert.True(t, sent)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		_, sent, err := g.Do(brief, 2)
		assert.False(t, sent)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		got, _, err := g.Do(t.Context(), 3)
		assert.NoError(t, err)
		assert.Equal(t, "3", got)
		wg.Wait()
		assert.Equal(t, [][]int{{1}, {3}}, s.calls)
	})
}
