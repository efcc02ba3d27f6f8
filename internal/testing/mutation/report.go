package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// report counts results by the kind of the change.
type report struct{ kinds map[string]map[string]int }

func (r *report) add(res Result) {
	if r.kinds == nil {
		r.kinds = map[string]map[string]int{}
	}
	if r.kinds[res.Kind] == nil {
		r.kinds[res.Kind] = map[string]int{}
	}
	r.kinds[res.Kind][res.Outcome]++
}

func (r *report) survivors() int {
	n := 0
	for _, outcomes := range r.kinds {
		n += outcomes[survived] + outcomes[unsure] + outcomes[invalid]
	}
	return n
}

// print writes a table. The share does not include changes that do not compile.
func (r *report) print(w io.Writer, left int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nkind\tkilled\tsometimes\tsurvived\tshare killed\tinvalid\t")
	all := map[string]int{}
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		printRow(t, kind, r.kinds[kind])
		for outcome, n := range r.kinds[kind] {
			all[outcome] += n
		}
	}
	printRow(t, "all", all)
	t.Flush()
	if left > 0 {
		fmt.Fprintf(w, "%d more were not tried\n", left)
	}
}

func printRow(w io.Writer, kind string, n map[string]int) {
	share := "-"
	if tried := n[killed] + n[unsure] + n[survived]; tried > 0 {
		share = fmt.Sprintf("%.0f%%", 100*float64(n[killed])/float64(tried))
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\t\n", kind, n[killed], n[unsure], n[survived], share, n[invalid])
}
