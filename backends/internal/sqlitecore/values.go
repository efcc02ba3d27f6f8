package sqlitecore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// micros is a time as it is stored; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// blob keeps nil and empty apart.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func idBlob(id store.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// text is a string whose empty value is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
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

func failure(f *store.Failure) any {
	if f == nil {
		return nil
	}
	return jsonText(storedFailure(*f))
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

func stepFailure(f *store.Failure, earlier []store.FailedAttempt) any {
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
	return jsonText(s)
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
		panic("sqlitecore: " + err.Error()) // only plain structs and slices come here
	}
	return string(b)
}

// The types below scan a column into what the contract uses.

type scanTime struct{ dst *time.Time }

func (s scanTime) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.dst = time.Time{}
	case int64:
		*s.dst = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("time stored as %T", v)
	}
	return nil
}

type scanBlob struct{ dst *[]byte }

// Scan is not left to database/sql because drivers hand over an empty blob as a
// nil slice that is not NULL.
func (s scanBlob) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.dst = nil
	case []byte:
		*s.dst = append(make([]byte, 0, len(v)), v...)
	default:
		return fmt.Errorf("bytes stored as %T", v)
	}
	return nil
}

type scanID struct{ dst *store.ID }

func (s scanID) Scan(v any) error {
	b, ok := v.([]byte)
	if v == nil {
		*s.dst = store.ID{}
		return nil
	}
	if !ok || copy(s.dst[:], b) != len(s.dst) {
		return fmt.Errorf("run id stored as %T of %d bytes", v, len(b))
	}
	return nil
}

type scanText struct{ dst *string }

func (s scanText) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.dst = ""
	case string:
		*s.dst = v
	default:
		return fmt.Errorf("text stored as %T", v)
	}
	return nil
}

type scanFailure struct{ dst **store.Failure }

func (s scanFailure) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.dst = nil
	case string:
		var f storedFailure
		if err := json.Unmarshal([]byte(v), &f); err != nil {
			return fmt.Errorf("stored failure: %w", err)
		}
		*s.dst = (*store.Failure)(&f)
	default:
		return fmt.Errorf("failure stored as %T", v)
	}
	return nil
}

type scanStepFailure struct{ step *store.Step }

func (s scanStepFailure) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		s.step.Failure, s.step.Earlier = nil, nil
		return nil
	case string:
		var stored storedStepFailure
		return stored.read(v, s.step)
	}
	return fmt.Errorf("failure stored as %T", v)
}

type scanJSON struct{ dst any }

func (s scanJSON) Scan(v any) error {
	t, ok := v.(string)
	if !ok {
		return fmt.Errorf("JSON stored as %T", v)
	}
	return json.Unmarshal([]byte(t), s.dst)
}

// runColumns are the columns that scanRun reads. Input, meta and output are
// expressions: readers that do without them pass NULL.
func runColumns(input, meta, output string) string {
	return runHead + `failure` + runPolicy + input + `, ` + meta + `, ` + output
}

// runColumnsIf are runColumns where a condition holds, and otherwise without all that
// has a size.
func runColumnsIf(condition, input, meta, output string) string {
	only := func(column string) string {
		if column == "NULL" {
			return column
		}
		return `iif(` + condition + `, ` + column + `, NULL)`
	}
	return runHead + only("failure") + runPolicy + only(input) + `, ` + only(meta) + `, ` + only(output)
}

// bareColumns are runColumns without all that has a size.
const bareColumns = runHead + `NULL` + runPolicy + `NULL, NULL, NULL`

const runPolicy = `, reuse, digest, `

const runHead = `id, namespace, workflow, queue, status, priority, external_id, suffix, parent, grp, ordinal, on_close,
	attempt, crashes, generation, epoch, iif(leased OR parts & 64, worker, NULL), events, pausing, visible_at, created_at, started_at, finished_at,
	deadline, forked_from, `

// anyInput reads an input wherever it stands.
const anyInput = `CASE WHEN parts & 16 THEN (SELECT data FROM large_inputs WHERE run_id = runs.id) ELSE input END`

func scanRun(scan func(...any) error, r *store.Run, more ...any) error {
	return scan(append([]any{
		scanID{&r.ID}, &r.Namespace, &r.Workflow, &r.Queue, &r.Status, &r.Priority, scanText{&r.ExternalID}, &r.Suffix,
		scanID{&r.Parent}, scanText{&r.Group}, &r.Ordinal, &r.OnClose,
		&r.Attempt, &r.Crashes, &r.Generation, &r.Epoch, scanText{&r.Worker}, &r.Events, &r.Pausing, scanTime{&r.VisibleAt},
		scanTime{&r.CreatedAt}, scanTime{&r.StartedAt}, scanTime{&r.FinishedAt}, scanTime{&r.Deadline}, scanID{&r.ForkedFrom},
		scanFailure{&r.Failure}, &r.Reuse, scanBlob{&r.Digest}, scanBlob{&r.Input}, scanBlob{&r.Meta}, scanBlob{&r.Output},
	}, more...)...)
}

const stepColumns = `s.branch, s.name, s.occurrence, s.kind, s.status, s.position, s.idx, s.attempt, s.epoch, s.output, s.failure,
	s.started_at, s.finished_at, s.due_at`

// stepColumnsIf are stepColumns, without all that has a size where z.fits is false.
var stepColumnsIf = strings.Replace(stepColumns, `s.output, s.failure`, `iif(z.fits, s.output, NULL), iif(z.fits, s.failure, NULL)`, 1)

func stepDest(s *store.Step) []any {
	return []any{
		&s.Branch, &s.Name, &s.Occurrence, &s.Kind, &s.Status, &s.Position, &s.Index, &s.Attempt, &s.Epoch, scanBlob{&s.Output},
		scanStepFailure{s}, scanTime{&s.StartedAt}, scanTime{&s.FinishedAt}, scanTime{&s.DueAt},
	}
}

// span is a duration in microseconds, rounded up: nothing is to happen before its
// time.
func span(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
