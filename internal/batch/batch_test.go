package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

func (s *slow) do(items []int) ([]string, error) {
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
	return out, nil
}

// What comes while a call is under way shares the next ones, in order, no more than
// fits; each gets its own answer.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := batch.New(batch.Config[int, string]{Items: 4, Call: s.do})
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
		g := batch.New(batch.Config[int, string]{Items: 2, InFlight: 3, Call: s.do})
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
		g := batch.New(batch.Config[int, string]{Items: 10, Call: s.do})
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

// A call of several items is no larger than the bound; an item that is larger goes on
// its own.
func TestBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := batch.New(batch.Config[int, string]{Items: 100, Bytes: 10, Size: func(n int) int { return n }, Call: s.do})
		handIn(t, g, 1, 4, 5, 2, 30, 3, 7, 1)
		assert.Equal(t, [][]int{{1}, {4, 5}, {2}, {30}, {3, 7}, {1}}, s.calls)
	})
}

// handIn hands in items in this order, the first of them before the others.
func handIn(t *testing.T, g *batch.Group[int, string], items ...int) {
	var wg sync.WaitGroup
	for _, n := range items {
		wg.Go(func() {
			got, sent, err := g.Do(t.Context(), n)
			assert.NoError(t, err)
			assert.True(t, sent)
			assert.Equal(t, fmt.Sprint(n), got)
		})
		synctest.Wait()
	}
	wg.Wait()
}

var errDown = errors.New("down")

// again sends every item of a failed call again.
func again(_ int, before string, _ batch.Failure) (string, bool) { return before, false }

// A call that fails is made smaller; calls that succeed make it grow again.
func TestSmallerAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		most := 2 // more than so many fail
		var sizes []int
		g := batch.New(batch.Config[int, string]{Items: 16, Failed: again, Call: func(items []int) ([]string, error) {
			sizes = append(sizes, len(items))
			if len(items) > most {
				return nil, errDown
			}
			if len(sizes) > 6 {
				most = 16
			}
			return s.do(items)
		}})
		var all []int
		for i := range 17 {
			all = append(all, i)
		}
		handIn(t, g, all...)
		assert.Equal(t, []int{1, 16, 8, 4, 2, 4, 2, 4, 8}, sizes)
		var got []int
		for _, c := range s.calls {
			got = append(got, c...)
		}
		slices.Sort(got)
		assert.Equal(t, all, got, "each is applied once")
	})
}

// An item whose call always fails stops no other, and is tried until its caller gives up.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		var tries atomic.Int64
		g := batch.New(batch.Config[int, string]{Items: 8, Failed: again, Call: func(items []int) ([]string, error) {
			if slices.Contains(items, 13) {
				tries.Add(1)
				return nil, errDown
			}
			return s.do(items)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var poison sync.WaitGroup
		poison.Go(func() {
			_, sent, err := g.Do(ctx, 13)
			assert.True(t, sent)
			assert.ErrorIs(t, err, context.Canceled)
		})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			if i == 13 {
				continue
			}
			wg.Go(func() { _, _, _ = g.Do(t.Context(), i) })
		}
		wg.Wait()
		assert.Less(t, time.Since(began), time.Minute, "one call of a second each, or so")
		began = time.Now()
		for i := range 20 {
			_, _, _ = g.Do(t.Context(), 100+i)
		}
		assert.InDelta(t, 20, time.Since(began).Seconds(), 0.1, "it is out of the way")
		assert.Greater(t, tries.Load(), int64(10), "it is still tried")
		cancel()
		poison.Wait()
		<-time.After(2 * time.Second)
		before := tries.Load()
		<-time.After(time.Minute)
		assert.Equal(t, before, tries.Load(), "nobody waits for it")
	})
}

// While every call fails, no item is sent apart: there is one call at a time.
func TestAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		var up atomic.Bool
		calls, now := 0, 0
		g := batch.New(batch.Config[int, string]{Items: 8, Failed: again, Call: func(items []int) ([]string, error) {
			now++
			defer func() { now-- }()
			assert.Equal(t, 1, now)
			if !up.Load() {
				calls++
				<-time.After(time.Millisecond)
				return nil, errDown
			}
			return s.do(items)
		}})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { _, _, _ = g.Do(t.Context(), i) })
		}
		<-time.After(time.Minute)
		synctest.Wait()
		assert.InDelta(t, 70, calls, 15, "one in a second")
		up.Store(true)
		wg.Wait()
	})
}

// What the caller decides about an item of a failed call is its result; what it keeps it
// gets again.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := batch.New(batch.Config[int, string]{Items: 8,
			Call: func([]int) ([]string, error) { return nil, errDown },
			Failed: func(n int, before string, f batch.Failure) (string, bool) {
				assert.ErrorIs(t, f.Err, errDown)
				return before + fmt.Sprint(n), len(before) == 3
			}})
		got, _, err := g.Do(t.Context(), 7)
		assert.NoError(t, err)
		assert.Equal(t, "7777", got)
	})
}

// Stop ends the pauses.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		tries := 0
		g := batch.New(batch.Config[int, string]{Items: 8, Stop: stop,
			Call: func([]int) ([]string, error) { tries++; return nil, errDown },
			Failed: func(_ int, before string, _ batch.Failure) (string, bool) {
				select {
				case <-stop:
					return "stopped", true
				default:
					return before, false
				}
			}})
		done := make(chan string)
		go func() {
			got, _, _ := g.Do(t.Context(), 7)
			done <- got
		}()
		<-time.After(20*time.Second + time.Millisecond)
		before := time.Now()
		close(stop)
		assert.Equal(t, "stopped", <-done)
		assert.Zero(t, time.Since(before))
	})
}
