// Package overruns judges limits by what processes did, not by what a store says: it looks for moments
// with more at work at one time than a limit permits, and for the most that began within a period.
package overruns

import (
	"cmp"
	"fmt"
	"slices"
)

// Work is one piece of work under limits, from its beginning to its end. Times are microseconds by a
// clock that all processes share.
type Work struct {
	Run      string   // pieces of work of one run at one time count as one
	Uses     []string // the limits, with their keys, under which it is
	From, To int64
}

// Verdict is what the work shows.
type Verdict struct {
	Overruns []string       // each time when work began beyond what is permitted
	Most     map[string]int // runs at work at one time, by use
}

// Judge looks for moments with more runs at work under a use than it permits. Work that ends when
// other work begins is not at work at one time with it, and work that ends before it begins is none.
func Judge(all []Work, permitted func(use string) int) Verdict {
	type moment struct {
		at    int64
		run   string
		delta int
	}
	moments := map[string][]moment{}
	for _, w := range all {
		if w.To <= w.From {
			continue
		}
		for _, use := range w.Uses {
			moments[use] = append(moments[use], moment{w.From, w.Run, 1}, moment{w.To, w.Run, -1})
		}
	}
	v := Verdict{Most: map[string]int{}}
	for use, list := range moments {
		slices.SortFunc(list, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
		active := map[string]int{}
		for _, m := range list {
			if active[m.run] += m.delta; active[m.run] == 0 {
				delete(active, m.run)
			}
			v.Most[use] = max(v.Most[use], len(active))
			if n := permitted(use); m.delta > 0 && len(active) > n {
				v.Overruns = append(v.Overruns, fmt.Sprintf("%d runs at work under %s at %d, permitted are %d", len(active), use, m.at, n))
			}
		}
	}
	return v
}

// MostWithin returns how many of the times lie in one period at most. A time at which the period ends
// is no longer in it.
func MostWithin(times []int64, period int64) int {
	sorted := slices.Sorted(slices.Values(times))
	most, first := 0, 0
	for i, at := range sorted {
		for at-sorted[first] >= period {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
