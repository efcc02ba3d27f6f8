package peers

import (
	"fmt"
	"time"
)

// A scenario is a limit and what happens to the processes that work under it.
type scenario struct {
	name      string
	atOnce    int  // jobs at work at one time; 0: any number
	byKey     bool // atOnce counts for each key
	perSecond int  // jobs that begin in a second; 0: any number
	stops     bool // processes are stopped until their leases have run out, rather than killed
	part      int  // of the jobs, one in so many
}

// lease is how long a job of a process that has died or stopped stays its own, with engines that have leases.
const lease = time.Second

// keys is how many keys the jobs have.
const keys = 20

var scenarios = []scenario{
	{name: "10 at once", atOnce: 10, part: 1},
	{name: "1 at once for each of 20 keys", atOnce: 1, byKey: true, part: 1},
	{name: "10 a second", perSecond: 10, part: 4},
	{name: "10 at once, processes stop and go on", atOnce: 10, stops: true, part: 1},
}

// A job is work that takes a while.
type job struct {
	ID  int
	Key string
	For time.Duration
}

// jobs are n jobs of 10 to 90 ms.
func jobs(n int) []job {
	list := make([]job, n)
	for i := range list {
		list[i] = job{ID: i, Key: fmt.Sprint("k", i%keys), For: time.Duration(10+i*37%81) * time.Millisecond}
	}
	return list
}

// probeFrom is the first ID of the jobs that show what a limit gives in the end.
const probeFrom = 1_000_000

// probe are twice as many jobs as the limit permits at one time, long enough to be at work together.
func (s *scenario) probe() []job {
	n := 2 * s.atOnce
	if s.byKey {
		n *= keys
	}
	list := make([]job, n)
	for i := range list {
		list[i] = job{ID: probeFrom + i, Key: fmt.Sprint("k", i%keys), For: 500 * time.Millisecond}
	}
	return list
}
