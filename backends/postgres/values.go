package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/store"
)

// micros is a time as it is stored; the zero time is NULL.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	v := t.UnixMicro()
	return &v
}

// span is a duration in microseconds, rounded up: nothing is to happen before its
// time.
func span(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func micro(t int64) time.Time { return time.UnixMicro(t).UTC() }

// text is a string whose empty value is NULL.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// uuid is an ID for a parameter $n::uuid; zero is NULL.
func uuid(id store.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// uuids are IDs for a parameter $n::uuid[].
func uuids(ids []store.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	return out
}

// column makes an array for unnest, a value for each of n rows; or none, which is NULL
// and makes NULL of each, when all have the usual value. Most columns of most batches
// are like that, and what is not sent is neither encoded nor taken apart.
func column[T comparable](n int, usual T, at func(i int) T) []T {
	for i := range n {
		if at(i) != usual {
			out := make([]T, n)
			for k := range out {
				out[k] = at(k)
			}
			return out
		}
	}
	return nil
}

// payloads is column for payloads, of which most are there or none is.
func payloads(n int, at func(i int) []byte) [][]byte {
	out, some := make([][]byte, n), false
	for i := range out {
		out[i] = at(i)
		some = some || out[i] != nil
	}
	if !some {
		return nil
	}
	return out
}

// storedFailure has the tags that keep empty details apart from none.
type storedFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Stack   string `json:"stack"`
	Details []byte `json:"details"`

	Permanent bool `json:"permanent"`
}

func failure(f *store.Failure) *string {
	if f == nil {
		return nil
	}
	s := jsonText(storedFailure(*f))
	return &s
}

// storedStepFailure is what a step's failure column holds when attempts failed before: a
// storedFailure with more.
type storedStepFailure struct {
	storedFailure
	None    bool            `json:"none,omitempty"` // the step has no failure
	Earlier []storedAttempt `json:"earlier,omitempty"`
}

type storedAttempt struct {
	Attempt int    `json:"attempt"`
	At      int64  `json:"at"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func stepFailure(f *store.Failure, earlier []store.FailedAttempt) *string {
	if len(earlier) == 0 {
		return failure(f)
	}
	s := storedStepFailure{None: f == nil}
	if f != nil {
		s.storedFailure = storedFailure(*f)
	}
	for _, a := range earlier {
		s.Earlier = append(s.Earlier, storedAttempt{a.Attempt, a.StartedAt.UnixMicro(), a.Code, a.Message})
	}
	text := jsonText(s)
	return &text
}

func (s *storedStepFailure) read(text string, step *store.Step) error {
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return fmt.Errorf("stored failure of a step: %w", err)
	}
	if step.Failure = nil; !s.None {
		step.Failure = (*store.Failure)(&s.storedFailure)
	}
	step.Earlier = nil
	for _, a := range s.Earlier {
		step.Earlier = append(step.Earlier, store.FailedAttempt{Attempt: a.Attempt, StartedAt: time.UnixMicro(a.At).UTC(), Code: a.Code, Message: a.Message})
	}
	return nil
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("postgres: " + err.Error()) // only plain structs and slices come here
	}
	return string(b)
}

// dest scans a column into what the contract uses: a Scanner by a function.
type dest func(v any) error

// Scan implements sql.Scanner.
func (d dest) Scan(v any) error { return d(v) }

func wrong(what string, v any) error { return fmt.Errorf("%s stored as %T", what, v) }

func scanTime(dst *time.Time) dest {
	return func(v any) error {
		switch v := v.(type) {
		case nil:
			*dst = time.Time{}
		case int64:
			*dst = micro(v)
		default:
			return wrong("time", v)
		}
		return nil
	}
}

func scanID(dst *store.ID) dest {
	return func(v any) error {
		switch v := v.(type) {
		case nil:
			*dst = store.ID{}
		case string:
			id, err := store.ParseID(v)
			*dst = id
			return err
		case [16]byte:
			*dst = v
		default:
			return wrong("id", v)
		}
		return nil
	}
}

func scanText(dst *string) dest {
	return func(v any) error {
		switch v := v.(type) {
		case nil:
			*dst = ""
		case string:
			*dst = v
		default:
			return wrong("text", v)
		}
		return nil
	}
}

func scanFailure(dst **store.Failure) dest {
	return func(v any) error {
		s, ok := v.(string)
		if v == nil {
			*dst = nil
			return nil
		}
		var f storedFailure
		if !ok {
			return wrong("failure", v)
		}
		if err := json.Unmarshal([]byte(s), &f); err != nil {
			return fmt.Errorf("stored failure: %w", err)
		}
		*dst = (*store.Failure)(&f)
		return nil
	}
}

func scanStepFailure(step *store.Step) dest {
	return func(v any) error {
		switch v := v.(type) {
		case nil:
			step.Failure, step.Earlier = nil, nil
			return nil
		case string:
			var s storedStepFailure
			return s.read(v, step)
		}
		return wrong("failure", v)
	}
}

func scanJSON(dst any) dest {
	return func(v any) error {
		s, ok := v.(string)
		if !ok {
			return wrong("JSON", v)
		}
		return json.Unmarshal([]byte(s), dst)
	}
}

// runColumns are the columns that runRow reads. Input, meta and output are
// expressions: readers that do without them pass NULL::bytea. The table is
// called r.
func runColumns(input, meta, output string) string {
	return runHead + `r.failure` + runPolicy + input + `, ` + meta + `, ` + output
}

// bareColumns are runColumns without all that has a size.
const bareColumns = runHead + `NULL::text` + runPolicy + `NULL::bytea, NULL::bytea, NULL::bytea`

const runPolicy = `, r.reuse, r.digest, `

const runHead = `r.id, r.namespace, r.workflow, r.queue, r.status, r.priority, r.external_id, r.suffix, r.parent, r.grp, r.ordinal, r.on_close,
	r.attempt, r.crashes, r.generation, r.epoch, CASE WHEN r.leased OR (r.parts & 64)<>0 THEN r.worker END, r.events, r.pausing, r.visible_at, r.created_at,
	r.started_at, r.finished_at, r.deadline, r.forked_from, `

const (
	withAll   = `r.input,r.meta,r.output`
	noPayload = `NULL::bytea`
)

// cols is runColumns for three expressions in one string.
func cols(list string) string {
	p := strings.Split(list, ",")
	return runColumns(p[0], p[1], p[2])
}

// runRow reads rows of runColumns, one after the other: its destinations are made once
// for all rows.
type runRow struct {
	run                       store.Run
	status, onClose, priority int16
	reuse                     int16
	dests                     []any
}

// newRunRow makes one for rows that have more columns behind those of a run.
func newRunRow(more ...any) *runRow {
	w := &runRow{}
	r := &w.run
	w.dests = append([]any{
		scanID(&r.ID), &r.Namespace, &r.Workflow, &r.Queue, &w.status, &w.priority, scanText(&r.ExternalID), &r.Suffix,
		scanID(&r.Parent), scanText(&r.Group), &r.Ordinal, &w.onClose,
		&r.Attempt, &r.Crashes, &r.Generation, &r.Epoch, scanText(&r.Worker), &r.Events, &r.Pausing, scanTime(&r.VisibleAt),
		scanTime(&r.CreatedAt), scanTime(&r.StartedAt), scanTime(&r.FinishedAt), scanTime(&r.Deadline), scanID(&r.ForkedFrom),
		scanFailure(&r.Failure), &w.reuse, &r.Digest, &r.Input, &r.Meta, &r.Output,
	}, more...)
	return w
}

// read reads the next row.
func (w *runRow) read(scan func(...any) error) (store.Run, error) {
	w.run = store.Run{} // so that no run shares a payload with the one before
	err := scan(w.dests...)
	w.run.Status, w.run.OnClose, w.run.Priority, w.run.Reuse = store.Status(w.status), store.ClosePolicy(w.onClose), int(w.priority), store.Reuse(w.reuse)
	return w.run, err
}

func appendRun(runs *[]store.Run) func(func(...any) error) error {
	row := newRunRow()
	return func(scan func(...any) error) error {
		r, err := row.read(scan)
		*runs = append(*runs, r)
		return err
	}
}

const stepColumns = `s.branch, s.name, s.occurrence, s.kind, s.status, s.position, s.idx, s.attempt, s.epoch, s.output, s.failure,
	s.started_at, s.finished_at, s.due_at`

// scanStep reads stepColumns behind what first reads.
func scanStep(scan func(...any) error, s *store.Step, first ...any) error {
	var kind, status int16
	err := scan(append(first,
		&s.Branch, &s.Name, &s.Occurrence, &kind, &status, &s.Position, &s.Index, &s.Attempt, &s.Epoch, &s.Output,
		scanStepFailure(s), scanTime(&s.StartedAt), scanTime(&s.FinishedAt), scanTime(&s.DueAt))...)
	s.Kind, s.Status = store.StepKind(kind), store.StepStatus(status)
	return err
}

// one reads a single row.
func one(dests ...any) func(func(...any) error) error {
	return func(scan func(...any) error) error { return scan(dests...) }
}
