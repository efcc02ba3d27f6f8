package runner

import (
	"flag"
	"sync"
	"testing"
)

// Together is how the suite runs under the race detector, which counts races and does not
// tell whose they are: the testing package lays each on every test that is running. So the
// tests of the cases only stand by while their work is done in one other test, which a race
// fails alone; and when there was one, each case is run once more by itself, and fails if
// its work has a race.
type Together struct{ jobs []job }

type job struct {
	t   *testing.T
	run func(t testing.TB)
}

// StandBy makes a subtest of a case that is done by work; its own time begins and ends
// with no work at all.
func (a *Together) StandBy(t *testing.T, run func(testing.TB)) {
	a.jobs = append(a.jobs, job{t, run})
	t.Parallel() // until the test above it returns
}

// work does the jobs, n at a time.
func (a *Together) work(n int) {
	jobs := make(chan job)
	var wg sync.WaitGroup
	for range min(len(a.jobs), n) {
		wg.Go(func() {
			for j := range jobs {
				j.run(j.t)
			}
		})
	}
	for _, j := range a.jobs {
		jobs <- j
	}
	close(jobs)
	wg.Wait()
}

// RunTogether runs jobs under the race detector, and alone, one after the other, if there
// was a race.
func (a *Together) RunTogether(t *testing.T, n int, alone func(t *testing.T, i int)) {
	worked, raced := false, false
	work := func(t *testing.T) {
		worked = true
		a.work(n)
		raced = t.Failed()
	}
	t.Run("together", work)
	if !worked { // -run has left it out
		work(t)
		return
	}
	if raced {
		t.Run("alone", func(t *testing.T) {
			for i := range a.jobs {
				alone(t, i)
			}
		})
	}
}

// AtATime is how many tests run in parallel.
func AtATime() int {
	if f := flag.Lookup("test.parallel"); f != nil {
		if n, ok := f.Value.(flag.Getter).Get().(int); ok && n > 0 {
			return n
		}
	}
	return 1
}
