package store

import (
	"cmp"
	"slices"
)

// CountTally makes the rows of Count from groups of runs that a backend has looked at. The backend
// looks at runs in parts of one or more statuses, at no more than MaxScan in each part, and groups
// them: the runs that the filter selects by the fields of RunCount, the others by part.
type CountTally struct {
	rows    []RunCount
	scanned []int64 // by part
}

// Add adds a group of runs of a part. Only selected runs are counted.
func (t *CountTally) Add(part int, group RunCount, selected bool) {
	for len(t.scanned) <= part {
		t.scanned = append(t.scanned, 0)
	}
	t.scanned[part] += group.Count
	if selected {
		t.rows = append(t.rows, group)
	}
}

// Rows returns the rows in order. parts contains the statuses of each part.
func (t *CountTally) Rows(maxScan int, parts [][]Status) []RunCount {
	for part, n := range t.scanned {
		if n < int64(maxScan) || part >= len(parts) {
			continue
		}
		for _, s := range parts[part] {
			t.cap(s)
		}
	}
	slices.SortFunc(t.rows, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status), cmp.Compare(a.FailureCode, b.FailureCode))
	})
	return t.rows
}

// cap marks the rows of a status as capped, at least one row.
func (t *CountTally) cap(s Status) {
	found := false
	for i := range t.rows {
		if t.rows[i].Status == s {
			t.rows[i].Capped, found = true, true
		}
	}
	if !found {
		t.rows = append(t.rows, RunCount{Status: s, Capped: true})
	}
}
