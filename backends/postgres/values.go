package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// micros returns a time as it is stored; the zero time is NULL.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	v := t.UnixMicro()
	return &v
}

// text returns a string as it is stored; the empty one is NULL.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// uuid returns an ID for a parameter $n::uuid; zero is NULL.
func uuid(id store.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// uuids returns IDs for a parameter $n::uuid[].
func uuids(ids []store.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	return out
}

// column makes an array for unnest with a value for each of n rows. If all rows have the default
// value, the array is NULL, and so is each value. Most columns of most batches are like that, and a
// NULL is neither encoded nor parsed.
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

// payloads is column for payloads, which usually are all present or all absent.
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

// runColumns returns the columns that a row of [newRunRow] reads. Input, meta and output are
// expressions: readers that do not need one pass NULL::bytea. The table is called r.
func runColumns(input, meta, output string) string {
	return sqlkit.RunColumns(`r.failure`, input, meta, output)
}

// bareColumns is runColumns without the large columns.
var bareColumns = sqlkit.RunColumns(`NULL::text`, noPayload, noPayload, noPayload)

const (
	withAll   = `r.input,r.meta,r.output`
	noPayload = `NULL::bytea`
)

// cols is runColumns for three expressions in one string.
func cols(list string) string {
	p := strings.Split(list, ",")
	return runColumns(p[0], p[1], p[2])
}

// newRunRow returns a reader of rows that have more columns after those of a run.
func newRunRow(more ...any) *sqlkit.RunReader { return sqlkit.NewRunReader(db{}.Blob, more...) }

func appendRun(runs *[]store.Run) func(func(...any) error) error {
	row := newRunRow()
	return func(scan func(...any) error) error {
		r, err := row.Read(scan)
		*runs = append(*runs, r)
		return err
	}
}

const (
	stepColumns   = sqlkit.StepColumns
	signalColumns = sqlkit.SignalColumns
	stateColumns  = sqlkit.StateColumns
	groupColumns  = sqlkit.GroupColumns
)

func scanStep(scan func(...any) error, s *store.Step, first ...any) error {
	return sqlkit.ScanStep(scan, s, &s.Output, first...)
}

func scanSignal(scan func(...any) error, first ...any) (s store.Signal, err error) {
	err = sqlkit.ScanSignal(scan, &s, &s.Payload, first...)
	return s, err
}

func scanEntry(scan func(...any) error, first ...any) (e store.StateEntry, err error) {
	err = sqlkit.ScanEntry(scan, &e, &e.Value, first...)
	return e, err
}

// failure returns a failure as it is stored.
func failure(f *store.Failure) *string { return text(sqlkit.FailureText(f)) }
