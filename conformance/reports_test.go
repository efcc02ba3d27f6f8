package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

const (
	reportsPage  = "../docs/backends.md"
	reportsBegin = "<!-- The table is written from docs/reports by go generate ./conformance. -->\n"
	reportsEnd   = "<!-- end of the table -->"
)

// The table of docs/backends.md is what the published reports say. With -update it is written.
func TestReportsAreListed(t *testing.T) {
	files, err := filepath.Glob("../docs/reports/*.json")
	require.NoError(t, err)
	table := "| backend | contract | promises kept | cases passed | exceptions | left out | version | date |\n|---|---|---|---|---|---|---|---|\n"
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var r Report
		require.NoError(t, d.Decode(&r), file)
		require.NoError(t, checkReport(&r), file)
		table += reportRow(strings.TrimSuffix(filepath.Base(file), ".json"), &r)
	}
	page, err := os.ReadFile(reportsPage)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), reportsBegin)
	require.True(t, found, "docs/backends.md has no place for the table")
	got, after, found := strings.Cut(rest, reportsEnd)
	require.True(t, found, "docs/backends.md has no end of the table")
	if *updateFlag {
		require.NoError(t, os.WriteFile(reportsPage, []byte(before+reportsBegin+table+reportsEnd+after), 0o644))
		return
	}
	require.Equal(t, table, got, "docs/backends.md is not what docs/reports says; run go generate ./conformance")
}

// checkReport tells what keeps a report from being published.
func checkReport(r *Report) error {
	switch {
	case r.Format != 1:
		return fmt.Errorf("format %d, want 1", r.Format)
	case r.Contract < 1 || r.Contract > store.ContractVersion:
		return fmt.Errorf("contract %d, want 1 to %d", r.Contract, store.ContractVersion)
	case !r.Passed:
		return fmt.Errorf("the suite did not pass")
	case r.Promise != "":
		return fmt.Errorf("only %s was checked", r.Promise)
	}
	for _, tier := range []string{"store", "random", "linearizable", "engine"} {
		if !slices.ContainsFunc(r.Tiers, func(t TierReport) bool { return t.Tier == tier }) {
			return fmt.Errorf("no %s tier", tier)
		}
	}
	for _, tier := range r.Tiers {
		sum := Tally{}
		for _, n := range tier.Promises {
			sum = Tally{sum.Passed + n.Passed, sum.Failed + n.Failed, sum.Excepted + n.Excepted, sum.LeftOut + n.LeftOut, sum.Waiting + n.Waiting}
		}
		if tier.Promises != nil && sum != tier.Cases {
			return fmt.Errorf("%s: the promises have the cases %+v, the tier %+v", tier.Test, sum, tier.Cases)
		}
	}
	return nil
}

// reportRow is the row of a backend. A promise is kept if at least one case of it has passed, and none has failed
// or is excepted.
func reportRow(name string, r *Report) string {
	kept, broken := map[string]bool{}, map[string]bool{}
	var passed, left []string
	exceptions := map[string]bool{}
	for _, tier := range r.Tiers {
		for p, n := range tier.Promises {
			kept[p] = kept[p] || n.Passed > 0
			broken[p] = broken[p] || n.Failed+n.Excepted > 0
		}
		passed = append(passed, fmt.Sprintf("%s %d", tier.Tier, tier.Cases.Passed))
		if n := tier.Cases.LeftOut; n > 0 {
			left = append(left, fmt.Sprintf("%s %d", tier.Tier, n))
		}
		for name := range tier.Exceptions {
			exceptions["`"+name+"`"] = true
		}
	}
	delete(kept, "") // of no numbered promise
	maps.DeleteFunc(kept, func(p string, ok bool) bool { return !ok || broken[p] })
	list := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("| [%s](reports/%s.json) | %d | %d | %s | %s | %s | %s | %s |\n", name, name, r.Contract, len(kept), list(passed),
		list(slices.Collect(maps.Keys(exceptions))), list(left), strings.TrimSpace(r.Version+" "+r.Platform), r.Began.Format("2006-01-02"))
}

// A report that does not show that the backend is conformant is not published.
func TestReportsThatAreNotPublished(t *testing.T) {
	good := Report{Format: 1, Contract: store.ContractVersion, Passed: true, Tiers: []TierReport{
		{Tier: "store", Cases: Tally{Passed: 3, Excepted: 1, LeftOut: 2}, Exceptions: map[string]string{"claim/fifo": "why"},
			Promises: map[string]Tally{"P1": {Passed: 2}, "P2": {Passed: 1, Excepted: 1}, "P3": {LeftOut: 1}, "": {LeftOut: 1}}},
		{Tier: "random", Cases: Tally{Passed: 1}}, {Tier: "linearizable", Cases: Tally{Passed: 1}}, {Tier: "engine", Cases: Tally{Passed: 7}},
	}}
	require.NoError(t, checkReport(&good))
	require.Equal(t, fmt.Sprintf("| [x](reports/x.json) | %d", store.ContractVersion)+" | 1 | engine 7, linearizable 1, random 1, store 3 | `claim/fifo` | store 2 |  | 0001-01-01 |\n", reportRow("x", &good))
	for says, spoil := range map[string]func(r *Report){
		"format 2":                    func(r *Report) { r.Format = 2 },
		"contract 0":                  func(r *Report) { r.Contract = 0 },
		"did not pass":                func(r *Report) { r.Passed = false },
		"only P9":                     func(r *Report) { r.Promise = "P9" },
		"no engine tier":              func(r *Report) { r.Tiers = r.Tiers[:3] },
		"the promises have the cases": func(r *Report) { r.Tiers[0].Cases.Passed++ },
	} {
		bad := good
		bad.Tiers = slices.Clone(good.Tiers)
		spoil(&bad)
		require.ErrorContains(t, checkReport(&bad), says)
	}
}
