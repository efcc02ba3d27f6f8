package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// mostQuick bounds the cases that are likely to find a mutation.
const mostQuick = 24

// quick knows which cases have found faults in a file. They run before all others, because
// most mutations of the file are found by one of them.
type quick struct {
	store string // the test that runs the store tier
	mu    sync.Mutex
	found map[string]map[string]int // of each file, how often each case has found a fault in it
}

// newQuick begins with the cases that must find the planted faults.
func newQuick(b *backend) *quick {
	q := &quick{store: b.store, found: map[string]map[string]int{}}
	for _, p := range b.patches {
		if !isTest(p.Case) {
			q.learn(p.File, b.store+"/"+p.Case)
		}
	}
	return q
}

// learn notes that a test has found a fault in a file.
func (q *quick) learn(file, test string) {
	name, ok := strings.CutPrefix(test, q.store+"/")
	if parts := strings.Split(name, "/"); !ok || len(parts) < 2 || parts[0] == "bubble" {
		return
	} else {
		name = strings.Join(parts[:2], "/")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.found[file] == nil {
		q.found[file] = map[string]int{}
	}
	q.found[file][name]++
}

// tier returns the cases that have found most faults in a file.
func (q *quick) tier(file string) (tier, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := q.found[file]
	if len(found) == 0 {
		return tier{}, false
	}
	names := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(found[b], found[a]), strings.Compare(a, b))
	})
	var list []Mutation
	for _, name := range names[:min(len(names), mostQuick)] {
		list = append(list, Mutation{Case: name})
	}
	return patterns(q.store, list)[0], true
}
