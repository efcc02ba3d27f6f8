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
	{sqliteCore + "limitsql.go", "AND (p.queue=r.queue AND p.workflow='' OR p.queue='' AND p.workflow=r.workflow)))", " AND p.workflow=''", "", same, "what is paused is a queue or a workflow, never both"},
	{sqliteCore + "create.go", "if err == nil && made.leased+made.pending == 0 {", "err == nil && made.leased+made.pending == 0", "made.leased+made.pending == 0", same, "after an error the call returns no results"},
	{sqliteCore + "claim.go", "EXISTS (SELECT 1 FROM mine WHERE parts<>0) THEN 1 ELSE", "1", "0", same, "only whether the statement fails is read"},
	{sqliteCore + "claim.go", "AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0)), ", " AND x.visible_at IS NOT NULL", "", pace, "min ignores NULL; the planner needs it for the partial index"},
	{sqliteCore + "commit.go", "part = part[:min(len(part), maxApart)]", "part = part[:min(len(part), maxApart)]", "", pace, "a longer transaction does the same; only Turso limits its time"},
	{sqlKit + "registry.go", "`SELECT max(l.owner), max(l.until) FROM pawl.locks", "max", "min", same, "there is at most one row"},
	{sqliteCore + "create.go", "SELECT id, ? FROM runs WHERE id=? AND namespace=? AND parts & {partLargeInput} ON CONFLICT", " AND parts & {partLargeInput}", "", same, "a row is read only if the run's part says so, and putInput replaces it"},
	{pg + "create.go", "m.leased && m.worker == r.Worker", "m.leased && m.worker == r.Worker", "m.leased", same, "of two items of one id the first is inserted, and reported first"},
	{pg + "commit.go", "AND r.seq=c.seq-1 AND r.leased", " AND r.leased", "", same, "a running run is leased"},
	{pg + "commit.go", "if ends && wants || bytes > maxStatement {", "ends && wants || bytes > maxStatement", "!(ends && wants || bytes > maxStatement)", pace, "both ways do the same; no valid commit wants an external id"},
	{pg + "commit.go", "list, plain = append(list, plain...), nil", "list, plain = append(list, plain...), nil", "", pace, "both ways do the same; no valid commit wants an external id"},
	{pg + "claim.go", "SELECT r.id, r.visible_at FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT $7::bigint) c", " ORDER BY r.visible_at, r.id", "", same, "the index that the planner takes has this order"},
	{pg + "children.go", "WHERE p.id=$2::uuid AND p.stamp=$4::bigint AND p.status>={final}", "{final}", "{canceling}", same, "with the stamp of the commit that ends it, the run is final"},
	{pg + "children.go", "WHERE r.id = ANY(ARRAY(SELECT id FROM tree ORDER BY id)) AND r.status<{final}", " ORDER BY id", "", pace, "without the order of locks two calls may deadlock, and one of them is repeated"},
	{sqlKit + "rank.go", "WHERE r.namespace=:namespace AND r.queue=:queue AND r.workflow=:workflow AND r.pin=level.pin AND r.priority>level.priority", " AND r.workflow=:workflow", "", pace, "a level without runs of the workflow adds nothing to the count"},
	{sqlKit + "commit.go", "a.Failures > 0 && a.Failures < f {", "<", "<=", same, "it sets the number that it has"},
	{"backends/sqlite/tx.go", "case !isBusy(err) || time.Now().After(deadline):", "!isBusy(err) || time.Now().After(deadline)", "time.Now().After(deadline)", pace, "the same error is returned later"},
	{sqliteCore + "control.go", "crashes=0, wakes=0, visible_at=?, deadline=NULL,", "wakes=0, ", "", same, "a restarted run is due already, and its next sleep says anew what wakes it"},
	{sqliteCore + "control.go", "\t\toutput=NULL, failure=NULL, finished_at=NULL, grp=NULL", "output=NULL, ", "", same, "a failed or canceled run has no output"},
	{sqliteCore + "children.go", "(SELECT parent FROM runs WHERE id=? AND stamp=? AND status>={final})", " AND stamp=?", "", same, "an await that a final child meets has ended when the child did"},
	{sqliteCore + "create.go", "if err == nil && made.leased+made.pending == 0 {", "err == nil && made.leased+made.pending == 0", "err == nil", same, "SQLite does not run the statement if the run was made"},
	{pg + "commit.go", "bytes += m.Size()", "bytes += m.Size()", "", pace, "one larger statement does the same"},
	{pg + "control.go", "SET status={pending}, attempt=1, epoch=epoch+1, seq=0, worker=NULL", "0", "1", same, "the next claim sets seq, and before it nobody has a lease"},
	{pg + "workers.go", "_ = s.write(ctx, stmt{sql: setChannel, args: []any{[]string{p.Namespace}, []string{p.Worker.ID}, channel}})", "_ = s.write(ctx, stmt{sql: setChannel, args: []any{[]string{p.Namespace}, []string{p.Worker.ID}, channel}})", "", pace, "hints to a worker without a channel go to all"},
	{pg + "claim.go", "if !c.p.Bare && c.win.meetsNew() {", "!c.p.Bare && c.win.meetsNew()", "!(!c.p.Bare && c.win.meetsNew())", pace, "it guesses whether one statement will be enough; the claim goes on if it was not"},
	{pg + "claim.go", "return len(t.Steps)+len(in.State)+len(in.Signals)+len(in.Groups) > 0 || t.MoreSteps || in.MoreState || in.MoreSignals || in.MoreGroups", "", "", pace, "it tells what the next claim will probably meet"},
	{pg + "create.go", "\ts.publishAll(h)\n\treturn nil, fmt.Errorf(\"postgres: runs with external id", "s.publishAll(h)", "", pace, "a hint may be lost"},
	{pg + "create.go", "\t\tif len(open) > 0 {\n\t\t\tif open, err = s.meetAll(", ">", ">=", pace, "it asks for none"},
	{pg + "signals.go", "{reuseAfterEnd} AND p.parts & {partSignals} <> 0 AND EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=p.id AND s.id=$3::uuid)", " AND p.parts & {partSignals} <> 0", "", pace, "a run with the signal has the part"},
	{pg + "signals.go", "AND r.status>={final} AND r.reuse={reuseAfterEnd}) q", " AND r.reuse={reuseAfterEnd}", "", same, "the other part of the union has these rows, too, and one is taken"},
	{pg + "claim.go", "SELECT FROM pawl.runs r WHERE ` + dueInLane + ` ORDER BY r.visible_at, r.id LIMIT 1) c)", " ORDER BY r.visible_at, r.id", "", same, "it asks only whether there is one"},
	{pg + "create.go", "FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=p.queue AND", " AND x.queue=p.queue", "", pace, "the search of priorities begins higher, with a lane too many"},
	{pg + "create.go", "if named || s.in != nil || len(own) < n {", "named || s.in != nil", "s.in != nil", pace, "the bold insert then meets the conflict, and the other one follows"},
	{pg + "commit.go", "if b.final() {\n\t\t\tfinals = append(", "b.final()", "!(b.final())", pace, "without the order of locks two calls may deadlock, and one of them is repeated"},
	{pg + "commit.go", "if ends && wants || bytes > maxStatement {", "ends && wants", "wants", pace, "both ways do the same; no valid commit wants an external id"},
	{pg + "commit.go", "if ends && wants || bytes > maxStatement {", ">", ">=", pace, "one statement of this size does the same"},
	{pg + "claim.go", "c.isDue() && wait < patience; wait *= 2 {", "<", "<=", pace, "it looks once more"},
	{pg + "claim.go", "c.statements(wait >= brief)", ">=", ">", pace, "the look into all lanes comes a millisecond later"},
	{pg + "children.go", "AND namespace=$3::text AND status<{final} AND status<>{canceling} AND ` + isLocked", "{final}", "{canceling}", same, "canceling is the last status that is not final"},
	{pg + "signals.go", "!stored[i] && res.Err == nil", "!stored[i] && res.Err == nil", "res.Err == nil", pace, "what was stored is asked for, and found"},
	{sqliteCore + "claim.go", "AND r.visible_at=?4 AND r.visible_at IS NOT NULL AND", " AND r.visible_at IS NOT NULL", "", same, "the equality implies it, for the planner, too"},
	{sqlKit + "schedules.go", "{unpaused} AND s.next_at IS NOT NULL AND NOT", " AND s.next_at IS NOT NULL", "", same, "the comparison implies it, for the planner, too"},
	{sqlKit + "rank.go", "AND x.visible_at IS NOT NULL AND x.status<>{paused} AND (x.flow IS NULL OR x.leased) AND x.visible_at<=CASE WHEN l.priority=:priority THEN :visible ELSE :now END\n\t\t\tAND (l.priority>:priority OR x.visible_at<:visible OR x.id<:run) LIMIT :limit) c", "", "", same, "it is PostgreSQL's form, which SQLite does not run"},
	{sqliteCore + "control.go", "crashes=0, wakes=0, visible_at=?, deadline=NULL,", "0", "1", same, "a restarted run is due already, and its next sleep says anew what wakes it"},
	{sqliteCore + "control.go", "seq=iif(leased, 0, seq)", "0", "1", same, "the next claim sets seq, and before it nobody has a lease"},
	{sqliteCore + "commit.go", "payload=NULL WHERE run_id=? AND id=? AND consumed=0 AND", " AND consumed=0", "", same, "a consumed signal has no payload any more"},
	{sqliteCore + "claim.go", "AND x.workflow=lane.workflow AND x.pin=lane.pin AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0) FROM lane", " AND x.limited=0", "", pace, "a level without runs adds nothing"},
	{sqliteCore + "claim.go", "sum(size)<=?9 AS fits", "9", "4", pace, "the sizes are added up one by one although all of the runs fit"},
	{sqliteCore + "limitsql.go", "WHERE namespace=?1 AND stamp=?2 AND version=?3+1)`", " AND version=?3+1", "", same, "the plan has its stamp only where it was applied"},
	{sqliteCore + "limitclaim.go", "if o := last[k]; o == nil || f.fair == \"\" && f.head().after(o.head()) || f.fair != \"\" && cmp.Or(cmp.Compare(f.turn, o.turn), cmp.Compare(f.fairUse.key, o.fairUse.key)) > 0 {", "o == nil || f.fair == \"\" && f.head().after(o.head()) || f.fair != \"\" && cmp.Or(cmp.Compare(f.turn, o.turn), cmp.Compare(f.fairUse.key, o.fairUse.key)) > 0", "o == nil || f.fair == \"\" && f.head().after(o.head())", pace, "each plan takes fewer runs, and the claim makes more plans"},
	{sqliteCore + "limitsql.go", "AND p.wake_at IS NOT NULL AND p.wake_at<=?3 LIMIT ?7+0)", " AND p.wake_at<=?3", "", pace, "the index has the due parks first, and another one costs a look"},
	{sqliteCore + "limitsql.go", "planFreed = `UPDATE limit_parks SET wake_at=-1 WHERE namespace=?1 AND", "namespace=?1", "true", pace, "those who wait elsewhere look once more"},
	{sqliteCore + "limitsql.go", "AND x.priority=level.priority AND x.head_at<=?3 AND x.state=0 ORDER BY", " AND x.head_at<=?3", "", pace, "flows that are not due come last, and have no due run"},
	{sqliteCore + "limitsql.go", "AND x.priority=level.priority AND x.head_at<=?3 AND x.state=0 ORDER BY", "3", "1", pace, "each number is less than a text, and flows that are not due have no due run"},
	{sqliteCore + "limitsql.go", "k.namespace=?2 AND k.name=u.name AND k.key=u.key)", " AND k.name=u.name", "", pace, "keys of other limits are read and not used"},
	{sqliteCore + "limitsql.go", "SET wake_at=0 WHERE namespace=?1 AND wake_at=-1", "0", "1", same, "both are due"},
	{sqliteCore + "limitclaim.go", "if !a.cut || len(a.flows) == 0 {", "!a.cut || len(a.flows) == 0", "len(a.flows) == 0", pace, "a bound too many makes the claim plan again"},
	{sqliteCore + "limitclaim.go", "l.core.expected = min(2*l.core.expected, 1<<20)", "l.core.expected = min(2*l.core.expected, 1<<20)", "", pace, "each plan reads as few runs of a flow as the last one"},
	{sqliteCore + "limitclaim.go", "if len(l.awake) >= l.loose {\n\t\tw.more", "len(l.awake) >= l.loose", "!(len(l.awake) >= l.loose)", pace, "the claim plans once more, or the next claim goes on"},
	{sqlKit + "outbox.go", "SELECT (SELECT min(w.subscription) FROM pawl.changes w WHERE w.namespace=:namespace)", "w.namespace=:namespace", "true", same, "a name without changes in the namespace has none to drop"},
	{sqlKit + "values.go", "	step.Earlier = nil\n", "step.Earlier = nil", "", same, "each row is read into a new step"},
	{sqlKit + "limits.go", "e.SetEscapeHTML(false)", "e.SetEscapeHTML(false)", "", same, "the text is longer and has the same value"},
	{sqlKit + "outbox.go", "v.namespace=w.namespace ORDER BY v.seq LIMIT 1)", " ORDER BY v.seq", "", same, "the index of a run's changes has this order"},
	{sqlKit + "outbox.go", "WHERE n.namespace=:namespace ORDER BY n.name`)", " ORDER BY n.name", "", same, "the primary key has this order"},
	{sqlKit + "outbox.go", "return more && err == nil, err", "more && err == nil", "more", same, "after an error the answer is not read"},
	{sqlKit + "outbox.go", "if err != nil || len(list) == 0 {\n\t\treturn nil, err\n\t}\n\tvar stmts", "err != nil || len(list) == 0", "err != nil", pace, "a write of no statements changes nothing"},
	{sqlKit + "outbox.go", "(SELECT min(w.subscription) FROM pawl.changes w WHERE w.namespace=:namespace AND w.subscription>t.name)", "w.namespace=:namespace", "true", same, "a name without changes in the namespace has none to drop"},
	{sqliteCore + "limitplan.go", "if every := u.rule.Every(); every > 0 && u.tokens > 0 {", "every > 0 && u.tokens > 0", "every > 0", same, "a bucket that is full stays full"},
	{sqliteCore + "limitclaim.go", "again = l.plan.more || w.more || woken > 0", ">", ">=", pace, "the claim plans once more"},
	{sqliteCore + "limitclaim.go", "hints.WholeQueue(queue)", "hints.WholeQueue(queue)", "", pace, "a hint may be lost"},
	{sqliteCore + "limitclaim.go", "!a.cut || len(a.flows) == 0", "!a.cut || len(a.flows) == 0", "!a.cut", same, "a list that was cut has flows"},
	{sqliteCore + "limitclaim.go", "l.core.expected = max(l.core.expected/2, fewRuns+2*int64(len(l.runs)))", "l.core.expected = max(l.core.expected/2, fewRuns+2*int64(len(l.runs)))", "", pace, "plans read more runs of a flow"},
	{sqliteCore + "limitclaim.go", "c.busy.Store(len(l.runs) > 0)", ">", ">=", pace, "another claim waits a little for more"},
	{sqliteCore + "limitclaim.go", "f.runs = f.runs[:most]", "f.runs = f.runs[:most]", "", pace, "one more run is known"},
	{sqliteCore + "limitclaim.go", "if l.idle = *l.out; l.core.config.Batched {", "l.core.config.Batched", "!(l.core.config.Batched)", pace, "the answer is read with the plan"},
	{sqliteCore + "limitsql.go", "planFreed = `UPDATE limit_parks SET wake_at=-1", "1", "0", pace, "a hint may be lost"},
	{sqliteCore + "limitsql.go", "f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin\n\t\t\tAND f.fair>''", "", "", pace, "a fair limit without flows in the lane adds nothing"},
	{sqliteCore + "limitsql.go", "f.namespace=?2 AND f.queue=lane.queue AND f.workflow=lane.workflow AND f.pin=lane.pin\n\t\t\tAND f.fair='' AND f.turn=0 AND f.fair_key=''", "", "", pace, "a priority without flows in the lane adds nothing, and under no fair limit there is no turn"},
	{sqliteCore + "limitsql.go", "f.namespace=?2 AND f.queue=level.queue AND f.workflow=level.workflow AND f.pin=level.pin\n\t\t\tAND f.fair='' AND f.turn=0 AND f.fair_key=''", "", "", pace, "a priority without flows in the lane adds nothing, and under no fair limit there is no turn"},
	{sqliteCore + "limitsql.go", "x.state=2 AND x.fair='' AND x.turn=0 AND x.fair_key=''", " AND x.turn=0", "", same, "under no fair limit there is no turn"},
	{sqliteCore + "limitsql.go", "max(2, min(?6, ?5/max(1, count(*))))", "5", "2", pace, "each plan reads two runs of a flow"},
	{sqliteCore + "limitverbs.go", "hasLimit    = `SELECT 1 FROM", "1", "0", same, "only whether there is a row is read"},
	{sqliteCore + "limitverbs.go", "SET state=0, park_name='', park_key='', park_tokens=0 WHERE namespace=?1", "namespace=?1", "true", pace, "flows elsewhere are looked at, and wait where they did"},
	{sqliteCore + "limitverbs.go", "AND r.limited=1\n\t\t\tLIMIT ?7+0)", "0", "1", same, "the sum is cut as well"},
	{sqliteCore + "limitverbs.go", "WHERE limit_flows.id=j.id AND limit_flows.namespace=?1", " AND limit_flows.namespace=?1", "", same, "the ids are of the namespace"},
}
