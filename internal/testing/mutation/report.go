package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// report counts results by the kind of the change and by file.
type report struct {
	kinds, files map[string]map[string]int
	alive        []Result
}

func (r *report) add(res Result) {
	if r.kinds == nil {
		r.kinds, r.files = map[string]map[string]int{}, map[string]map[string]int{}
	}
	count(r.kinds, res.Kind, res.Outcome)
	count(r.files, res.File, res.Outcome)
	if res.Outcome == survived || res.Outcome == unsure {
		r.alive = append(r.alive, res)
	}
}

func count(table map[string]map[string]int, row, outcome string) {
	if table[row] == nil {
		table[row] = map[string]int{}
	}
	table[row][outcome]++
}

func (r *report) survivors() int {
	n := 0
	for _, outcomes := range r.kinds {
		n += outcomes[survived] + outcomes[unsure] + outcomes[invalid]
	}
	return n
}

// print writes the tables, and the survivors. The share does not include changes that do not compile, nor
// those that no caller can see.
func (r *report) print(w io.Writer, left int) {
	printTable(w, "kind", r.kinds)
	printTable(w, "file", r.files)
	slices.SortStableFunc(r.alive, func(a, b Result) int {
		return slices.Compare([]string{a.File, fmt.Sprintf("%06d", a.Line)}, []string{b.File, fmt.Sprintf("%06d", b.Line)})
	})
	if len(r.alive) > 0 {
		fmt.Fprintln(w)
	}
	for _, res := range r.alive {
		fmt.Fprintln(w, res)
	}
	if left > 0 {
		fmt.Fprintf(w, "\n%d more were not tried\n", left)
	}
}

func printTable(w io.Writer, what string, rows map[string]map[string]int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n%s\tkilled\tsometimes\tsurvived\tshare killed\texcluded\tinvalid\t\n", what)
	all := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		printRow(t, name, rows[name])
		for outcome, n := range rows[name] {
			all[outcome] += n
		}
	}
	printRow(t, "all", all)
	t.Flush()
}

func printRow(w io.Writer, name string, n map[string]int) {
	share := "-"
	if tried := n[killed] + n[unsure] + n[survived]; tried > 0 {
		share = fmt.Sprintf("%.0f%%", 100*float64(n[killed])/float64(tried))
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\t%d\t\n", name, n[killed], n[unsure], n[survived], share, n[excluded], n[invalid])
}
