package sqlkit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Stmt is one statement of a list that runs as a whole, without Go between the statements.
type Stmt struct {
	SQL  string
	Args []any
	// Rows reads one row; nil for a statement without any.
	Rows func(Scan) error
	// Affected receives the number of rows changed by a statement that returns no rows.
	Affected *int64
	// Unneeded tells a runner that has run the statements before this one that it may skip this
	// one. PostgreSQL, whose statements are sent together, never asks.
	Unneeded func() bool
	// Gate says that this statement only serves to fail if all later statements are unneeded; that
	// failure is not an error of the list. It is for runners that send the list as a whole; other
	// runners skip it.
	Gate bool
}

// Dialect is the SQL of a database.
type Dialect int

// Dialects.
const (
	PostgreSQL Dialect = iota
	SQLite
	dialects
)

// words are the words in braces that differ between dialects.
var words = map[string][dialects]string{
	"greatest": {"greatest", "max"},
	"in":       {"=", "IN"},                                                                       // before a list: name {in} :names
	"lock":     {"FOR NO KEY UPDATE", ""},                                                         // SQLite has one writer
	"unpaused": {"NOT s.paused", "s.paused=0"},                                                    // a schedule; the words of the index
	"unread":   {"NOT s.consumed", "s.consumed=0"},                                                // a signal; the words of the index
	"locked":   {"strpos(current_setting('pawl_tx.locked', true), CAST(r.id AS text))>0", "true"}, // a run r that the write has locked
	"leased":   {"r.leased", "r.leased=1 AND r.limited=0"},                                        // a run; the words of the index
}

// present is the time of a statement on PostgreSQL: the time that the caller has set, or that of
// the transaction.
const present = `coalesce($%d::bigint, (date_part('epoch', now())*1000000)::bigint)`

// types are the parameters of shared statements with their types on PostgreSQL. A name has the same
// type everywhere.
var types = map[string]string{
	"now": present, "late": present,

	"namespace": "text", "name": "text", "after": "text", "names": "text[]", "except": "text[]", "all": "bool",
	"limit": "bigint", "bytes": "bigint", "before": "bigint",
	"queue": "text", "workflow": "text", "run": "uuid",

	"worker": "text", "host": "text", "pid": "bigint", "queues": "text", "workflows": "text", "labels": "text", "slots": "bigint",
	"limits": "text", "takes": "text", "status": "bigint", "ttl": "bigint", "answers": "bigint", "silent": "bigint", "bare": "bool",
	"owner": "text", "lasts": "bigint",
	"spec": "text", "input": "bytea", "meta": "bytea", "paused": "bool", "next": "bigint", "schedule": "text",
	"priority": "bigint", "visible": "bigint", "build": "text", "pins": "text[]", "pinlist": "text", "most": "bigint",
	"actions": "text", "force": "bool", "keep": "bigint",
	"position": "bigint", "stream": "text", "signal": "text", "group": "text", "keys": "text[]", "key": "text",
	"kinds": "bigint", "settled": "text", "delivered": "bool", "failed": "bool", "error": "text",
}

// Query is a statement that the dialects share. Its text is written once. It contains numbers and
// words in braces, as in [Text], and named parameters: ":namespace".
type Query struct {
	name   string
	texts  [dialects]string
	params [dialects][]string
}

// queries holds all of them by name.
var queries = map[string]*Query{}

// NewQuery makes a statement when a package is initialized. It panics if the text contains an
// unknown name, or if another statement has the same name.
func NewQuery(name, text string) *Query {
	return newQuery(name, [dialects]string{text, text})
}

func newQuery(name string, texts [dialects]string) *Query {
	if queries[name] != nil {
		panic("sqlkit: two statements are called " + name)
	}
	q := &Query{name: name}
	for d := range dialects {
		q.texts[d], q.params[d] = d.render(texts[d])
	}
	queries[name] = q
	return q
}

// Queries returns the texts of the shared statements in a dialect, by their names.
func Queries(d Dialect) map[string]string {
	texts := map[string]string{}
	for name, q := range queries {
		texts[name] = q.texts[d]
	}
	return texts
}

// render writes a text in a dialect, and lists the parameters in the order of their numbers.
func (d Dialect) render(text string) (string, []string) {
	for word, in := range words {
		text = strings.ReplaceAll(text, "{"+word+"}", in[d])
	}
	if text = Text(text); d == SQLite {
		text = strings.ReplaceAll(text, "pawl.", "") // the schema
	}
	var b strings.Builder
	var params []string
	for {
		before, after, found := strings.Cut(text, ":")
		b.WriteString(before)
		if !found {
			return b.String(), params
		}
		n := strings.IndexFunc(after+" ", func(c rune) bool { return c < 'a' || c > 'z' })
		name := after[:n]
		i := slices.Index(params, name)
		if i < 0 {
			i, params = len(params), append(params, name)
		}
		b.WriteString(d.param(name, i+1))
		text = after[n:]
	}
}

// param writes the n-th parameter.
func (d Dialect) param(name string, n int) string {
	typ, ok := types[name]
	list := strings.HasSuffix(typ, "[]")
	switch {
	case !ok:
		panic("sqlkit: a statement has the unknown parameter :" + name)
	case d == PostgreSQL && typ == present:
		return fmt.Sprintf(present, n)
	case d == PostgreSQL && list:
		return "ANY($" + strconv.Itoa(n) + "::" + typ + ")"
	case d == PostgreSQL:
		return "$" + strconv.Itoa(n) + "::" + typ
	case list:
		return "(SELECT value FROM json_each(?" + strconv.Itoa(n) + "))"
	}
	return "?" + strconv.Itoa(n)
}

// Args are the arguments of a statement by the names of its parameters. Values are int64, string,
// bool, []byte, []string, [store.ID], [time.Time], and nil for NULL. A zero [store.ID] or
// [time.Time] is NULL.
type Args []Arg

// Arg is one argument.
type Arg struct {
	name  string
	value any
}

// bind returns the argument of a name as the driver takes it. It keeps the converted argument for
// the other statements of the call.
func (a Args) bind(db DB, d Dialect, name string) any {
	for i := range a {
		if a[i].name == name {
			a[i].value = bind(db, d, a[i].value)
			return a[i].value
		}
	}
	panic("sqlkit: there is no argument " + name)
}

// stmt binds arguments. rows reads the rows of the statement, if it returns any.
func (q *Query) stmt(db DB, args Args, rows func(Scan) error) Stmt {
	d := db.Dialect()
	list := make([]any, len(q.params[d]))
	for i, name := range q.params[d] {
		list[i] = args.bind(db, d, name)
	}
	return Stmt{SQL: q.texts[d], Args: list, Rows: rows}
}

// bind converts a value into what the driver takes.
func bind(db DB, d Dialect, v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return nil
		}
		return v.UnixMicro()
	case store.ID:
		if v.IsZero() {
			return nil
		}
		return db.ID(v)
	case []byte:
		if v == nil {
			return nil
		}
	case bool:
		if d == SQLite {
			return flag(v)
		}
	case []string:
		if v == nil {
			v = []string{}
		}
		if d == SQLite {
			return JSON(v)
		}
		return v
	}
	return v
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
