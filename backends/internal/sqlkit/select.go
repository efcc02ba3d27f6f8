package sqlkit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// pick returns the text of a dialect.
func (d Dialect) pick(postgres, sqlite string) string {
	if d == SQLite {
		return sqlite
	}
	return postgres
}

// selection is a filter in SQL: conditions on runs, r.
type selection struct {
	db        DB
	d         Dialect
	args      []any
	namespace string          // the condition on the namespace
	bound     []string        // conditions on the time that gives the order: the limits of an index search
	rest      []string        // conditions that are checked for each run
	builds    []string        // the builds of PinnedTo, if an index on the build is read
	tag       *store.TagMatch // the tag whose index is read; nil: none
}

func newSelection(db DB, namespace string) *selection {
	q := &selection{db: db, d: db.Dialect()}
	q.namespace = "r.namespace=" + q.arg(namespace, "text")
	return q
}

// arg adds an argument of a PostgreSQL type.
func (q *selection) arg(v any, typ string) string {
	q.args = append(q.args, v)
	n := strconv.Itoa(len(q.args))
	return q.d.pick("$"+n+"::"+typ, "?"+n)
}

// id adds an ID, which may be zero.
func (q *selection) id(id store.ID) string { return q.arg(q.db.ID(id), "uuid") }

func (q *selection) time(t time.Time) string { return q.arg(t.UnixMicro(), "bigint") }

func (q *selection) look(cond string) { q.rest = append(q.rest, cond) }

// Conditions on an external id, with one index each, and on a run's steps. The latter are followed
// by a value and a closing parenthesis.
var (
	holdsID       = Text(`r.external_id IS NOT NULL AND (r.status<{final} OR r.reuse={reuseNever})`)
	heldID        = Text(`r.external_id IS NOT NULL AND r.status>={final} AND r.reuse={reuseAfterEnd}`)
	hasFailedStep = Text(`EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id=r.id AND f.status={stepFailed} AND f.name=`)
	hasOpenStep   = Text(`EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id=r.id AND f.status<{stepFinal} AND f.attempt>=`)
)

// failureField is a field of a run's failure. A failure's JSON may contain U+0000, which
// PostgreSQL's text type does not allow.
func (d Dialect) failureField(name string) string {
	return d.pick(`replace(r.failure, '\u0000', '\ufffd')::json`, `r.failure`) + `->>'` + name + `'`
}

// unindexed returns a time column in a form that uses no index.
func (d Dialect) unindexed(column string) string { return d.pick("("+column+"+0)", "abs("+column+")") }

// selectRuns translates a filter, without its statuses, into SQL. The order is by the column.
func selectRuns(db DB, namespace string, f *store.RunFilter, column string) (*selection, error) {
	q := newSelection(db, namespace)
	if f.Workflow != "" {
		q.look("r.workflow=" + q.arg(f.Workflow, "text"))
	}
	if f.Queue != "" {
		q.look("r.queue=" + q.arg(f.Queue, "text"))
	}
	q.few(f)
	if f.IDPrefix != "" {
		lo, hi, err := store.IDRange(f.IDPrefix)
		if err != nil {
			return nil, err
		}
		q.look("r.id>=" + q.id(lo) + " AND r.id<=" + q.id(hi))
	}
	q.tagged(f, column)
	between := func(of string, after, before time.Time) {
		to := &q.rest
		if f.Few() {
			of = q.d.unindexed(of)
		} else if of == column {
			to = &q.bound
			_, of, _ = q.from(column)
		}
		if !after.IsZero() {
			*to = append(*to, of+">"+q.time(after))
		}
		if !before.IsZero() {
			*to = append(*to, of+"<"+q.time(before))
		}
	}
	between("r.created_at", f.CreatedAfter, f.CreatedBefore)
	between("r.finished_at", f.FinishedAfter, f.FinishedBefore)
	q.pinned(f)
	if f.FailureCode != "" {
		q.look(q.d.failureField("code") + "=" + q.arg(f.FailureCode, "text"))
	}
	if f.FailureText != "" {
		q.look(q.d.pick("strpos", "instr") + "(" + q.d.failureField("message") + ", " + q.arg(f.FailureText, "text") + ")>0")
	}
	if f.FailedStep != "" {
		q.look(hasFailedStep + q.arg(f.FailedStep, "text") + ")")
	}
	if f.MinAttempt > 0 {
		n := q.arg(int64(f.MinAttempt), "bigint")
		q.look("(r.attempt>=" + n + " OR " + hasOpenStep + n + "))")
	}
	return q, nil
}

// pinned adds the conditions on the pin. Those that arms add are left out.
func (q *selection) pinned(f *store.RunFilter) {
	if len(f.PinnedTo) > 0 {
		q.builds = slices.Compact(slices.Sorted(slices.Values(f.PinnedTo)))
		if !f.ByBuild() {
			q.look(q.ofBuilds())
			q.builds = nil
		}
	} else if f.Pinned {
		q.look("r.pin<>''")
	}
}

// ofBuilds is the condition that a run is pinned to one of the builds.
func (q *selection) ofBuilds() string {
	list := any(q.builds)
	if q.d == SQLite {
		list = JSON(q.builds)
	}
	n := q.arg(list, "text[]")
	return "r.pin" + q.d.pick("=ANY("+n+")", " IN (SELECT value FROM json_each("+n+"))")
}

// few adds the conditions on a parent and on an external id, which select few runs. On PostgreSQL
// these are looked up first; otherwise the planner might read all runs in the order of their
// creation.
func (q *selection) few(f *store.RunFilter) {
	if !f.Parent.IsZero() {
		parent := "r.parent=" + q.id(f.Parent)
		q.look(q.d.pick("r.id=ANY(ARRAY(SELECT r.id FROM pawl.runs r WHERE "+parent+" AND r.parent IS NOT NULL))", parent))
	}
	if f.ExternalID != "" {
		// Each branch uses an index of its own.
		of := "r.external_id=" + q.arg(f.ExternalID, "text") + " AND "
		q.look(q.d.pick("r.id=ANY(ARRAY(SELECT r.id FROM pawl.runs r WHERE "+q.namespace+" AND "+of+holdsID+
			" UNION ALL SELECT r.id FROM pawl.runs r WHERE "+q.namespace+" AND "+of+heldID+"))",
			q.namespace+" AND (("+of+holdsID+") OR ("+of+heldID+"))"))
	}
}

// fewRuns is the condition for the runs of a filter that selects few, using its own index. On
// SQLite a plus sign before a column prevents the use of other indexes.
func (q *selection) fewRuns(f *store.RunFilter) string {
	conds := append([]string{q.d.pick("", "+") + q.namespace}, q.rest...)
	if len(f.Statuses) > 0 {
		conds = append(conds, q.d.pick("", "+")+among(f.Statuses))
	}
	return All(append(conds, q.bound...))
}

// among is the condition that a run has one of these statuses. The statuses are literals, because
// the planners compare them with the conditions of the indexes.
func among(statuses []store.Status) string {
	if len(statuses) == 1 {
		return "r.status=" + strconv.Itoa(int(statuses[0]))
	}
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = strconv.Itoa(int(s))
	}
	return "r.status IN (" + strings.Join(list, ", ") + ")"
}

// arm is a set of runs that one index returns in the order of a listing.
type arm struct {
	cond     string // the condition of the index, in its own words
	rest     string // conditions that are checked for each run; may be empty
	statuses []store.Status
}

// armOf returns an arm of some statuses.
func armOf(cond, rest string, statuses ...store.Status) arm { return arm{cond, rest, statuses} }

// arms divides the runs that a filter may select into arms. If apart is set, each final status has
// an arm of its own. With PinnedTo, each build has an arm of its unfinished runs; these arms have
// the same statuses.
func (q *selection) arms(f *store.RunFilter, column string, apart bool) (list []arm) {
	var active, final []store.Status
	for _, s := range store.Statuses() {
		switch {
		case !f.Wants(s):
		case s.Final():
			final = append(final, s)
		case column != "r.finished_at":
			active = append(active, s)
		}
	}
	if q.tag != nil {
		if len(active)+len(final) == 0 {
			return nil
		}
		return q.byTag(append(active, final...))
	}
	if len(q.builds) == 0 {
		return q.byStatus(active, final, column, apart)
	}
	if len(active) > 0 {
		list = q.byBuild(active)
	}
	if len(final) > 0 {
		of := q.ofBuilds()
		for _, a := range q.byStatus(nil, final, column, apart) {
			a.rest = All([]string{a.rest, of})
			list = append(list, a)
		}
	}
	return list
}

// unfinished is how many statuses are not final.
const unfinished = 5

// byBuild returns an arm of unfinished runs for each build: runs_pinned.
func (q *selection) byBuild(active []store.Status) (list []arm) {
	rest := ""
	if len(active) < unfinished {
		rest = among(active)
	}
	for _, b := range q.builds {
		list = append(list, armOf(q.namespace+" AND r.pin="+q.arg(b, "text")+Text(` AND r.pin<>'' AND r.status<{final}`), rest, active...))
	}
	return list
}

// byStatus returns arms of statuses.
func (q *selection) byStatus(active, final []store.Status, column string, apart bool) (list []arm) {
	ended := q.namespace + " AND r.finished_at IS NOT NULL"
	if column == "r.finished_at" {
		if !apart && len(final) > 0 && final[0] == store.Completed { // runs_finished
			rest := among(final)
			if len(final) == 3 {
				rest = ""
			}
			return []arm{armOf(ended, rest, final...)}
		}
		for _, s := range final {
			is := among([]store.Status{s})
			if s == store.Completed { // runs_finished
				list = append(list, armOf(ended, is, s))
			} else { // runs_failed
				list = append(list, armOf(q.namespace+Text(" AND r.status >= {failed} AND ")+is, "", s))
			}
		}
		return list
	}
	if q.d == SQLite { // runs_active, runs_ended
		if len(active) == unfinished {
			list = append(list, armOf(q.namespace+" AND r.finished_at IS NULL", "", active...))
		} else if len(active) > 0 {
			list = append(list, armOf(q.namespace+" AND r.finished_at IS NULL", among(active), active...))
		}
		for _, s := range final {
			list = append(list, armOf(ended+" AND "+among([]store.Status{s}), "", s))
		}
		return list
	}
	for _, s := range append(active, final...) { // runs_created
		list = append(list, armOf(partOfCreated(strings.TrimPrefix(q.namespace, "r.namespace="), s), "", s))
	}
	return list
}

// partOfCreated is the condition on runs of a status, in the words of PostgreSQL's runs_created. Two
// namespaces may have the same hash, so the namespace is compared too; as an expression, so that no
// other index is used.
func partOfCreated(namespace string, s store.Status) string {
	return "(CAST(hashtext(r.namespace) AS bigint) << 8 | r.status)=(CAST(hashtext(" + namespace + ") AS bigint) << 8 | " + strconv.Itoa(int(s)) + ") AND (r.namespace || '')=" + namespace
}

// where is the condition of an arm's runs, with the bounds on the time.
func (q *selection) where(a arm) string { return All(append([]string{a.cond}, q.bound...)) }

// selected is an expression that says, for a run of an arm, whether the filter selects it; true if
// it always does.
func (q *selection) selected(a arm) string {
	rest := All(append([]string{a.rest}, q.rest...))
	if rest == "" {
		return "true"
	}
	return "(" + rest + ") IS TRUE"
}

// merged returns a statement that reads the first runs of some arms together. item begins the
// statement of an arm, with the columns at and id. SQLite merges the results of the indexes.
// PostgreSQL sorts what it takes from each.
func (q *selection) merged(arms []arm, item func(arm) string, sorted, most string) string {
	first := sorted + " LIMIT " + most
	parts := make([]string, len(arms))
	for i, a := range arms {
		parts[i] = item(a) + q.where(a)
		parts[i] = q.d.pick("("+parts[i]+first+")", parts[i])
	}
	union := strings.Join(parts, " UNION ALL ")
	switch {
	case q.d == SQLite:
		return union + first
	case len(parts) > 1:
		return "SELECT * FROM (" + union + ") r" + first
	}
	return union
}

// text returns a statement in the dialect.
func (q *selection) text(sql string) string {
	return q.d.pick(sql, strings.ReplaceAll(sql, "pawl.", ""))
}
