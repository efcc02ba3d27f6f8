package turso

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
)

// The rest of this file writes and reads Hrana 3, the protocol of libSQL's server, in its JSON form
// over HTTP: a pipeline of requests in one round trip, on a stream.

// pipeline is the body of a round trip.
type pipeline struct {
	buf      []byte
	requests int
	steps    int // of the batch that is open
	on       *stream
	before   int // requests that come before the first batch
}

// newPipeline begins a body for lists of statements, on a stream that the request uses alone. SQL
// that the stream sees a second time is stored in it, and sent by its number from then on.
func newPipeline(on *stream, jobs []*job) *pipeline {
	p := &pipeline{buf: make([]byte, 0, 4096), on: on}
	p.buf = append(p.buf, `{"requests":[`...)
	for _, j := range jobs {
		for i := range j.stmts {
			sql := j.stmts[i].SQL
			if _, stored := on.ids[sql]; stored {
				continue
			}
			if !on.seen[sql] || len(on.ids) == maxStored || len(sql) >= maxStoredBytes {
				on.note(sql)
				continue
			}
			delete(on.seen, sql)
			id := len(on.ids) + 1
			on.ids[sql] = id
			p.request()
			p.buf = fmt.Appendf(p.buf, `{"type":"store_sql","sql_id":%d,"sql":`, id)
			p.buf = append(appendString(p.buf, sql), '}')
		}
	}
	p.before = p.requests
	return p
}

func (p *pipeline) request() {
	if p.requests++; p.requests > 1 {
		p.buf = append(p.buf, ',')
	}
}

func (p *pipeline) batch(steps func()) {
	p.request()
	p.steps = 0
	p.buf = append(p.buf, `{"type":"batch","batch":{"steps":[`...)
	steps()
	p.buf = append(p.buf, `]}}`...)
}

// Conditions decide whether a step of a batch is run.
const (
	inTransaction = `{"type":"not","cond":{"type":"is_autocommit"}}`
	never         = `{"type":"and","conds":[{"type":"ok","step":0},{"type":"error","step":0}]}`
)

func ok(step int) string { return `{"type":"ok","step":` + strconv.Itoa(step) + `}` }

func notOK(step int) string { return `{"type":"not","cond":` + ok(step) + `}` }

func failed(step int) string { return `{"type":"error","step":` + strconv.Itoa(step) + `}` }

func either(a, b string) string { return `{"type":"or","conds":[` + a + `,` + b + `]}` }

func both(a, b string) string { return `{"type":"and","conds":[` + a + `,` + b + `]}` }

// step adds a step to the open batch. Without a condition, the step always runs.
func (p *pipeline) step(condition, sql string, rows bool, args ...any) {
	if p.steps++; p.steps > 1 {
		p.buf = append(p.buf, ',')
	}
	p.buf = append(p.buf, '{')
	if condition != "" {
		p.buf = append(append(append(p.buf, `"condition":`...), condition...), ',')
	}
	p.buf = append(p.buf, `"stmt":{`...)
	if id, stored := p.on.ids[sql]; stored {
		p.buf = strconv.AppendInt(append(p.buf, `"sql_id":`...), int64(id), 10)
	} else {
		p.buf = appendString(append(p.buf, `"sql":`...), sql)
	}
	if len(args) > 0 {
		p.buf = append(p.buf, `,"args":[`...)
		for i, a := range args {
			if i > 0 {
				p.buf = append(p.buf, ',')
			}
			p.buf = appendValue(p.buf, a)
		}
		p.buf = append(p.buf, ']')
	}
	p.buf = append(strconv.AppendBool(append(p.buf, `,"want_rows":`...), rows), "}}"...)
}

// list adds a list of statements. The first runs under the given condition, each other one if the
// statement before it succeeded. It returns the condition that holds when the list is done: its
// last statement has run, or a gate has said that the rest is not needed.
func (p *pipeline) list(condition string, stmts []sqlitecore.Stmt) (done string) {
	gate := ""
	for i := range stmts {
		s := &stmts[i]
		p.step(condition, s.SQL, s.Rows != nil, s.Args...)
		condition = ok(p.steps - 1)
		if s.Gate {
			gate = failed(p.steps - 1)
		}
	}
	if gate != "" {
		return either(condition, gate)
	}
	return condition
}

// end returns the body. If the stream is to be kept, the last request asks whether it is in a
// transaction; otherwise it closes the stream.
func (p *pipeline) end(keep bool) []byte {
	p.request()
	last := `{"type":"close"}`
	if keep {
		last = `{"type":"get_autocommit"}`
	}
	return p.on.appendBaton(append(append(p.buf, last...), ']'))
}

// closing returns the body of a request that only closes the stream.
func (st *stream) closing() []byte {
	return st.appendBaton([]byte(`{"requests":[{"type":"close"}]`))
}

func (st *stream) appendBaton(body []byte) []byte {
	if st.baton == "" {
		return append(body, `,"baton":null}`...)
	}
	return append(appendString(append(body, `,"baton":`...), st.baton), '}')
}

// appendValue writes an argument. Integers are sent as text, because JSON numbers have 53 bits.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, `{"type":"null"}`...)
	case int64:
		return append(strconv.AppendInt(append(b, `{"type":"integer","value":"`...), v, 10), `"}`...)
	case string:
		return append(appendString(append(b, `{"type":"text","value":`...), v), '}')
	case []byte:
		return append(base64.StdEncoding.AppendEncode(append(b, `{"type":"blob","base64":"`...), v), `"}`...)
	}
	panic(fmt.Sprintf("turso: an argument of type %T", v)) // a mistake in sqlitecore
}

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD, as they would at the
// server.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		i++
	}
	return append(b, '"')
}

// answer is the answer to a pipeline.
type answer struct {
	Results []result `json:"results"` // of the batches, once the answer is read
	Baton   string   `json:"baton"`
	BaseURL string   `json:"base_url"` // where the stream's next request must be sent; empty: to the same address
}

// result is the answer to one request.
type result struct {
	Type     string       `json:"type"` // ok, error
	Error    *serverError `json:"error"`
	Response struct {
		Result     batchResult `json:"result"`
		Autocommit bool        `json:"is_autocommit"`
	} `json:"response"`
}

type batchResult struct {
	Steps  []*stepResult  `json:"step_results"` // nil: not run, or failed
	Errors []*serverError `json:"step_errors"`
	// Index is the database's count of changes; nil if the server does not count.
	Index *index `json:"replication_index"`
}

type stepResult struct {
	Rows        [][]value `json:"rows"`
	Affected    int64     `json:"affected_row_count"`
	RowsRead    int64     `json:"rows_read"`
	RowsWritten int64     `json:"rows_written"`
}

// billed returns what the server's statistics add for a statement.
func (s *stepResult) billed() int64 {
	if s.RowsRead == 0 && s.RowsWritten == 0 {
		return 1
	}
	return s.RowsRead
}

// serverError is an error as the server reports it.
type serverError struct {
	Message string `json:"message"`
	Code    string `json:"code"`
}

func (e *serverError) Error() string {
	if e.Code == "" || strings.Contains(e.Message, e.Code) {
		return e.Message
	}
	return e.Message + " (" + e.Code + ")"
}

// index is sent as a number or as text.
type index uint64

func (i *index) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 64)
	*i = index(n)
	return err
}

// value is an SQLite value: nil, int64, float64, string or []byte (not nil).
type value struct{ any }

func (v *value) UnmarshalJSON(b []byte) error {
	if v.usual(b) {
		return nil
	}
	return v.anyForm(b)
}

// anyForm reads a value in any valid form.
func (v *value) anyForm(b []byte) error {
	var raw struct {
		Type   string          `json:"type"`
		Value  json.RawMessage `json:"value"`
		Base64 string          `json:"base64"`
	}
	err := json.Unmarshal(b, &raw)
	if err != nil {
		return err
	}
	switch raw.Type {
	case "null":
		v.any = nil
	case "integer":
		v.any, err = strconv.ParseInt(strings.Trim(string(raw.Value), `"`), 10, 64)
	case "float":
		v.any, err = strconv.ParseFloat(string(raw.Value), 64)
	case "text":
		var s string
		err = json.Unmarshal(raw.Value, &s)
		v.any = s
	case "blob":
		blob := []byte{}
		blob, err = base64.RawStdEncoding.AppendDecode(blob, []byte(strings.TrimRight(raw.Base64, "=")))
		v.any = blob
	default:
		err = fmt.Errorf("a value of type %q", raw.Type)
	}
	return err
}

// usual reads a value in the form that the server writes most often, because most of an answer
// consists of such values. It returns false if the value has another form.
func (v *value) usual(b []byte) bool {
	text, ok := bytes.CutPrefix(b, []byte(`{"type":"`))
	if !ok {
		return false
	}
	kind, text, ok := bytes.Cut(text, []byte(`"`))
	if !ok {
		return false
	}
	if string(kind) == "null" {
		v.any = nil
		return string(text) == "}"
	}
	if text, ok = bytes.CutSuffix(text, []byte(`"}`)); !ok {
		return false
	}
	switch string(kind) {
	case "integer":
		if text, ok = bytes.CutPrefix(text, []byte(`,"value":"`)); ok {
			n, err := strconv.ParseInt(string(text), 10, 64)
			v.any, ok = n, err == nil
		}
	case "text":
		if text, ok = bytes.CutPrefix(text, []byte(`,"value":"`)); ok {
			if ok = bytes.IndexByte(text, '\\') < 0 && bytes.IndexByte(text, '"') < 0 && utf8.Valid(text); ok {
				v.any = string(text)
			}
		}
	case "blob":
		if text, ok = bytes.CutPrefix(text, []byte(`,"base64":"`)); ok {
			blob, err := base64.RawStdEncoding.AppendDecode([]byte{}, bytes.TrimRight(text, "="))
			v.any, ok = blob, err == nil
		}
	default:
		return false
	}
	return ok
}
