package sqlkit

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// actionRows are the rows of [ActionsText].
var actionRows = [dialects]string{
	PostgreSQL: `(SELECT CAST(v->>0 AS uuid) AS id, v->>1 AS actor, v->>2 AS origin, v->>3 AS verb, v->>4 AS target, CAST(nullif(v->>5, '') AS uuid) AS run,
		v->>6 AS details, v->>7 AS outcome, CAST(nullif(v->>8, '') AS uuid) AS subject, CAST(v->>9 AS bigint) AS stamp FROM json_array_elements(CAST(%actions AS json)) v)`,
	SQLite: `(SELECT unhex(value->>0) AS id, value->>1 AS actor, value->>2 AS origin, value->>3 AS verb, value->>4 AS target, unhex(nullif(value->>5, '')) AS run,
		value->>6 AS details, value->>7 AS outcome, unhex(nullif(value->>8, '')) AS subject, CAST(value->>9 AS integer) AS stamp FROM json_each(%actions))`,
}

// ActionInsert says where the actions of a statement come from, in SQL. The actions are the rows a.
type ActionInsert struct {
	Namespace, Now, Actions string // the parameters
	Run                     string // the run; empty: that of the action
	Outcome                 string
	Rest                    string // joins, and the condition
}

// Text returns the statement.
func (i ActionInsert) Text(d Dialect) string {
	if i.Run == "" {
		i.Run = "a.run"
	}
	rows := strings.ReplaceAll(actionRows[d], "%actions", i.Actions)
	return `INSERT INTO pawl.actions (id, namespace, at, actor, origin, verb, target, run, details, outcome)
		SELECT a.id, ` + i.Namespace + `, ` + i.Now + `, a.actor, a.origin, a.verb, a.target, ` + i.Run + `, a.details, ` + i.Outcome + `
		FROM ` + rows + ` a ` + i.Rest + ` ON CONFLICT DO NOTHING`
}

// Outcomes in SQL.
const (
	WasDone = `'` + store.Done + `'`
	noop    = `'` + store.NoChange + `'`
)

// DoneIf is the outcome of a call that changes something if a condition holds.
func DoneIf(condition string) string {
	return `CASE WHEN ` + condition + ` THEN ` + WasDone + ` ELSE ` + noop + ` END`
}

// recording makes a statement that records actions.
func recording(name string, i ActionInsert) *Query {
	i.Namespace, i.Now, i.Actions = ":namespace", ":now", ":actions"
	return newQuery(name, [dialects]string{PostgreSQL: i.Text(PostgreSQL), SQLite: i.Text(SQLite)})
}

// ofRuns records actions on the runs of a call, which are locked, before the call changes them.
func ofRuns(name, outcome, applies string) *Query {
	return recording(name, ActionInsert{Outcome: outcome, Rest: `JOIN pawl.runs r ON r.id=a.subject WHERE r.namespace=:namespace AND {locked} AND ` + applies})
}

var (
	recordActions = recording("record actions", ActionInsert{Outcome: `a.outcome`, Rest: `WHERE true`})
	forgetActions = newQuery("forget actions", [dialects]string{
		PostgreSQL: `DELETE FROM pawl.actions WHERE id=ANY(ARRAY(SELECT a.id FROM pawl.actions a WHERE a.namespace=:namespace AND a.at<:now-:keep
			ORDER BY a.at LIMIT 1000 FOR UPDATE SKIP LOCKED))`,
		SQLite: `DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE namespace=:namespace AND at<:now-:keep ORDER BY at LIMIT 1000)`,
	})

	recordCancel = ofRuns("record cancels", DoneIf(`r.status<{final} AND (r.status<>{canceling} OR :force)`), `r.status NOT IN ({completed},{failed})`)
	recordPause  = ofRuns("record pauses", DoneIf(`r.status IN ({pending},{sleeping}) OR r.status={running} AND NOT r.pausing`), `r.status<{final}`)
	recordResume = ofRuns("record resumes", DoneIf(`r.status={paused} OR r.pausing`), `r.status<{final}`)
	recordUnpin  = ofRuns("record unpins", WasDone, `r.pin<>'' AND r.status<{final}`)

	// It follows the statements that leave stamps.
	recordStamped = recording("record stamped", ActionInsert{Outcome: WasDone, Rest: `JOIN pawl.runs r ON r.id=a.subject WHERE r.namespace=:namespace AND r.stamp=a.stamp`})
)

// ActionsText returns actions as the statements of this file read them, with an outcome (empty: their
// own) and, if there are any, the runs that the items concern, and the stamps that the call leaves in them.
func ActionsText(actions []store.Action, outcome string, subjects []store.ID, stamps []int64) string {
	rows := make([][]string, len(actions))
	for i := range actions {
		a := &actions[i]
		row := []string{hexID(a.ID), a.Actor, a.From, a.Verb, a.Target, hexID(a.Run), a.Details, outcome, "", "0"}
		if len(subjects) > 0 {
			row[8] = hexID(subjects[i])
		}
		if len(stamps) > 0 {
			row[9] = strconv.FormatInt(stamps[i], 10)
		}
		if outcome == "" {
			row[7] = a.Outcome
		}
		rows[i] = row
	}
	return JSON(rows)
}

func hexID(id store.ID) string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// Journal makes the statements that record the actions of a call. Each method returns none for a call
// without a Record.
type Journal struct {
	DB        DB
	Namespace string
	Now       any // the moment of the call, as the database takes it
	Record    []store.Action
}

func (j Journal) stmts(q *Query, actions string, more ...Arg) []Stmt {
	return []Stmt{q.stmt(j.DB, append(Args{{"namespace", j.Namespace}, {"now", j.Now}, {"actions", actions}}, more...), nil)}
}

func (j Journal) runs(q *Query, ids []store.ID, more ...Arg) []Stmt {
	if len(j.Record) == 0 {
		return nil
	}
	return j.stmts(q, ActionsText(j.Record, "", ids, nil), more...)
}

// Cancels records cancels, before they are done.
func (j Journal) Cancels(p *store.CancelParams) []Stmt {
	return j.runs(recordCancel, p.IDs, Arg{"force", p.Force})
}

// Pauses records pauses or resumes, before they are done.
func (j Journal) Pauses(p *store.PauseParams) []Stmt {
	if p.Resume {
		return j.runs(recordResume, p.IDs)
	}
	return j.runs(recordPause, p.IDs)
}

// Unpins records unpins, before they are done.
func (j Journal) Unpins(p *store.UnpinParams) []Stmt { return j.runs(recordUnpin, p.IDs) }

// Stamped records what was done to the runs that have the stamps.
func (j Journal) Stamped(ids []store.ID, stamps ...int64) []Stmt {
	if len(j.Record) == 0 {
		return nil
	}
	return j.stmts(recordStamped, ActionsText(j.Record, "", ids, stamps))
}

// As records actions with an outcome that is known.
func (j Journal) As(outcome string) []Stmt {
	if len(j.Record) == 0 {
		return nil
	}
	return j.stmts(recordActions, ActionsText(j.Record, outcome, nil, nil))
}

// recorded is a statement that changes one thing or none, and may record it.
type recorded struct {
	plain, record *Query
}

// newRecorded makes the statement. always says that a record is also made if nothing has changed.
func newRecorded(name, text string, always bool) recorded {
	i := ActionInsert{Namespace: ":namespace", Now: ":now", Actions: ":actions", Outcome: WasDone}
	of := func(d Dialect, did string) string {
		i := i
		i.Rest = `WHERE ` + did
		if always {
			i.Outcome, i.Rest = DoneIf(did), `WHERE true`
		}
		return i.Text(d)
	}
	return recorded{NewQuery(name, text), newQuery(name+", recorded", [dialects]string{
		PostgreSQL: `WITH did AS (` + text + ` RETURNING 1), rec AS (` + of(PostgreSQL, `EXISTS (SELECT 1 FROM did)`) + `) SELECT count(*) FROM did`,
		SQLite:     of(SQLite, `changes()>0`), // it follows the plain statement
	})}
}

// stmts returns the statements. changed receives how much has changed.
func (r recorded) stmts(db DB, args Args, record []store.Action, changed *int64) []Stmt {
	plain := r.plain.stmt(db, args, nil)
	plain.Affected = changed
	if len(record) == 0 {
		return []Stmt{plain}
	}
	args = append(args, Arg{"actions", ActionsText(record, "", nil, nil)})
	if db.Dialect() == PostgreSQL {
		return []Stmt{r.record.stmt(db, args, One(changed))}
	}
	return []Stmt{plain, r.record.stmt(db, args, nil)}
}

// Record implements store.Journal.
func (v Verbs) Record(ctx context.Context, p store.RecordParams) error {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	args := Args{{"namespace", p.Namespace}, {"now", now}, {"keep", Span(p.KeepFor)}}
	var stmts []Stmt
	if len(p.Actions) > 0 {
		stmts = append(stmts, recordActions.stmt(v.db, append(args, Arg{"actions", ActionsText(p.Actions, "", nil, nil)}), nil))
	}
	if p.KeepFor > 0 {
		stmts = append(stmts, forgetActions.stmt(v.db, args, nil))
	}
	return v.db.Write(ctx, stmts...)
}
