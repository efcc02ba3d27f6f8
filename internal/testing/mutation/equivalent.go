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
	{sqliteCore + "create.go", "if err == nil && made.leased+made.pending == 0 {", "err == nil && made.leased+made.pending == 0", "made.leased+made.pending == 0", same, "after an error the call returns no results"},
	{sqliteCore + "claim.go", "EXISTS (SELECT 1 FROM mine WHERE parts<>0) THEN 1 ELSE", "1", "0", same, "only whether the statement fails is read"},
	{sqliteCore + "claim.go", "AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused}))", " AND x.visible_at IS NOT NULL", "", pace, "min ignores NULL; the planner needs it for the partial index"},
	{sqliteCore + "commit.go", "part = rest[:min(len(rest), maxApart)]", "part = rest[:min(len(rest), maxApart)]", "", pace, "a longer transaction does the same; only Turso limits its time"},
	{sqlKit + "registry.go", "`SELECT max(l.owner), max(l.until) FROM pawl.locks", "max", "min", same, "there is at most one row"},
	{sqliteCore + "create.go", "SELECT id, ? FROM runs WHERE id=? AND namespace=? AND parts & {partLargeInput} ON CONFLICT", " AND parts & {partLargeInput}", "", same, "a row is read only if the run's part says so, and putInput replaces it"},
	{pg + "create.go", "m.leased && m.worker == r.Worker", "m.leased && m.worker == r.Worker", "m.leased", same, "of two items of one id the first is inserted, and reported first"},
	{pg + "commit.go", "AND r.seq=c.seq-1 AND r.leased", " AND r.leased", "", same, "a running run is leased"},
	{pg + "commit.go", "if ends && wants || bytes > maxStatement {", "ends && wants || bytes > maxStatement", "!(ends && wants || bytes > maxStatement)", pace, "both ways do the same; no valid commit wants an external id"},
	{pg + "commit.go", "list, plain = append(list, plain...), nil", "list, plain = append(list, plain...), nil", "", pace, "both ways do the same; no valid commit wants an external id"},
	{pg + "claim.go", "SELECT r.id, r.visible_at FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT $7::bigint) c", " ORDER BY r.visible_at, r.id", "", same, "the index that the planner takes has this order"},
	{pg + "children.go", "WHERE p.id=$2::uuid AND p.stamp=$4::bigint AND p.status>={final}", "{final}", "{canceling}", same, "with the stamp of the commit that ends it, the run is final"},
	{pg + "children.go", "WHERE r.id = ANY(ARRAY(SELECT id FROM tree ORDER BY id)) AND r.status<{final}", " ORDER BY id", "", pace, "without the order of locks two calls may deadlock, and one of them is repeated"},
}
