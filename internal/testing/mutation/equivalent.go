package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Equivalent is a generated mutation that no test of the contract can find, with the reason. Old
// and New are those of the mutation, and In is a text around it that occurs once in the file. Without
// Old and New, each mutation inside In is meant.
type Equivalent struct {
	File, In, Old, New string
	Why                why
	Reason             string
}

// why says what kind of change it is that cannot be found.
type why string

const (
	// same: callers see the same results in every case.
	same why = "same"
	// pace: only time, memory or the number of calls to the database changes, within what the contract allows.
	pace why = "pace"
	// words: only the text of an error or of a log line changes.
	words why = "words"
)

// excused marks the mutations that the entries explain, and returns the entries that explain none.
func excused(root string, list []Mutation, entries []Equivalent) (idle []Equivalent, err error) {
	for _, e := range entries {
		src, err := os.ReadFile(filepath.Join(root, e.File))
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(src), e.In); n != 1 {
			return nil, fmt.Errorf("%s has %d places %q, want one", e.File, n, e.In)
		}
		from := strings.Index(string(src), e.In)
		used := false
		for i := range list {
			m := &list[i]
			if m.File == e.File && m.At >= from && m.At+len(m.Old) <= from+len(e.In) && (e.Old == "" && e.New == "" || e.Old == m.Old && e.New == m.New) {
				m.Excuse, used = string(e.Why)+": "+e.Reason, true
			}
		}
		if !used {
			idle = append(idle, e)
		}
	}
	return idle, nil
}

// equivalents are the generated mutations that no test of the contract can find.
var equivalents = []Equivalent{
	{sqliteCore + "commit.go", " AND leased=1 AND status={running} AND pausing=0 AND events=?", " AND leased=1", "", same, "a running run is leased"},
	{sqliteCore + "commit.go", " AND leased=1 AND status={running} AND events=? AND grp IS NULL", " AND leased=1", "", same, "a running run is leased"},
	{sqliteCore + "create.go", "if len(stmts) > 0 {", ">", ">=", pace, "a write of no statements changes nothing"},
	{sqlKit + "commit.go", "(t == nil || t.Kind == store.CompleteRun || t.Kind == store.FailRun)", "t == nil || t.Kind == store.CompleteRun", "t == nil", pace, "a commit that is not plain does the same in more statements"},
	{sqliteCore + "runs.go", "if err := ctx.Err(); err != nil || len(stmts) == 0 {", "err != nil || len(stmts) == 0", "len(stmts) == 0", same, "the runner returns the context's error, too"},
	{pg + "runs.go", "r.suffix = $3::text AND r.external_id IS NOT NULL AND (r.status < {final}", " AND r.external_id IS NOT NULL", "", pace, "external_id = $2 implies it; the planner needs it for the partial index"},
	{pg + "create.go", "SELECT l.queue, l.workflow, l.pin, (SELECT x.priority FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=l.queue AND", " AND x.queue=l.queue", "", pace, "a lane too many costs claims a look and nothing else"},
	{pg + "create.go", "(!ok || then != failures)", "!ok || then != failures", "then != failures", same, "what is not found is nil, which differs from each number"},
	{pg + "signals.go", "externals, suffixes = append(externals, g.ExternalID), append(suffixes, g.Suffix)", "externals, suffixes = append(externals, g.ExternalID), append(suffixes, g.Suffix)", "", pace, "without the order of locks two calls may deadlock, and one of them is repeated"},
	{pg + "claim.go", "if p.Now.IsZero() && !p.Again {", "p.Now.IsZero() && !p.Again", "!(p.Now.IsZero() && !p.Again)", pace, "a window hides nothing until looks become slow; TestClaimsShareTheirWindow and its neighbors are about it"},
}
