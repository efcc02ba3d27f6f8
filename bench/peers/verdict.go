package peers

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/pawlhq/pawl/internal/testing/overruns"
)

// A verdict is what the journals of one trial show.
type verdict struct {
	Most      int // at work at one time, of what the limit counts together
	MostInAll int // the same without regard to keys and processes
	Overruns  int // times when a job began beyond the limit
	PerSecond int // jobs begun for the first time within a second, at most
	Surely    int // the same within a second less what jobs may take from the claim to their first line
	AnyBegin  int // the same within a second, with those that are begun again because their process died
	Again     int // jobs that were begun more than once
	Cut       int // jobs that a kill cut off
	Given     int // of the jobs after all that, at work at one time; with keys: keys that had one
}

// judge examines what the processes did. A job is at work until it ends, until its process was killed, or
// until another process begins it: from then on it counts for that one.
func (e *engine) judge(s *scenario, all []line, killed map[int]int64) verdict {
	ends := map[line]int64{} // by the line of the beginning
	begins := map[int][]line{}
	var v verdict
	var last int64
	for _, l := range all {
		last = max(last, l.From, l.To)
		if l.To > 0 {
			ends[line{Job: l.Job, Key: l.Key, PID: l.PID, From: l.From}] = l.To
			continue
		}
		begins[l.Job] = append(begins[l.Job], l)
	}
	var load, probe []overruns.Work
	for id, list := range begins {
		if len(list) > 1 && id < probeFrom {
			v.Again++
		}
		for _, l := range list {
			end, ended := ends[l]
			if !ended {
				end = cmp.Or(killed[l.PID], last)
				if id < probeFrom {
					v.Cut++
				}
			}
			for _, other := range list {
				if other.From > l.From && other.From < end {
					end = other.From
				}
			}
			w := overruns.Work{Run: strconv.Itoa(id), Uses: []string{"all", e.use(s, l)}, From: l.From, To: end}
			if id < probeFrom {
				load = append(load, w)
			} else {
				probe = append(probe, w)
			}
		}
	}
	v.pace(begins)
	v.count(s, load)
	v.Given = given(s, probe)
	return v
}

// pace looks at when the jobs were begun.
func (v *verdict) pace(begins map[int][]line) {
	var first, every []int64
	for id, list := range begins {
		if id >= probeFrom {
			continue
		}
		at := list[0].From
		for _, l := range list {
			at = min(at, l.From)
			every = append(every, l.From)
		}
		first = append(first, at)
	}
	const second, late = 1_000_000, 200_000
	v.PerSecond, v.AnyBegin = overruns.MostWithin(first, second), overruns.MostWithin(every, second)
	v.Surely = overruns.MostWithin(first, second-late)
}

// use names what the limit counts together.
func (e *engine) use(s *scenario, l line) string {
	switch {
	case e.perProcess:
		return fmt.Sprint("limit of process ", l.PID)
	case s.byKey:
		return "limit of key " + l.Key
	}
	return "limit"
}

func (v *verdict) count(s *scenario, load []overruns.Work) {
	const unlimited = math.MaxInt
	found := overruns.Judge(load, func(use string) int {
		if use == "all" || s.atOnce == 0 {
			return unlimited
		}
		return s.atOnce
	})
	v.Overruns = len(found.Overruns)
	for use, most := range found.Most {
		if use == "all" {
			v.MostInAll = most
		} else {
			v.Most = max(v.Most, most)
		}
	}
}

func given(s *scenario, probe []overruns.Work) int {
	most := overruns.Judge(probe, func(string) int { return len(probe) }).Most
	if s.byKey {
		return len(most) - min(1, len(most)) // without the use of all
	}
	return most["all"]
}
