package sqlitecore

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// micros returns a time as it is stored; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// blob distinguishes nil and empty.
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

// text returns a string as it is stored; the empty one is NULL.
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

// The types below scan a column into the contract's types.

// runColumns returns the columns that scanRun reads. Input, meta and output are expressions:
// readers that do not need one pass NULL.
func runColumns(input, meta, output string) string {
	return runHead + `failure` + runPolicy + input + `, ` + meta + `, ` + output
}

// runColumnsIf is runColumns if a condition holds; otherwise the large columns are NULL.
func runColumnsIf(condition, input, meta, output string) string {
	only := func(column string) string {
		if column == "NULL" {
			return column
		}
		return `iif(` + condition + `, ` + column + `, NULL)`
	}
	return runHead + only("failure") + runPolicy + only(input) + `, ` + only(meta) + `, ` + only(output)
}

// bareColumns is runColumns without the large columns.
var bareColumns = runHead + `NULL` + runPolicy + `NULL, NULL, NULL`

var runPolicy = `, reuse, digest, pinned, ` + runBuild + sqlkit.Text(`, under, CASE WHEN status<{final} THEN step_under END, tags, `)

// runBuild is the build that recorded the last step: under the last lease, if its holder has
// recorded one, or else under an earlier lease.
var runBuild = sqlkit.Text(`CASE WHEN parts & {partRecorded} THEN lease_build ELSE build END`)

var runHead = sqlkit.Text(`id, namespace, workflow, queue, status, priority, external_id, suffix, parent, grp, ordinal, on_close,
	attempt, crashes, generation, epoch, iif(leased OR parts & {partEnded}, worker, NULL), events, pausing, visible_at, created_at, started_at, finished_at,
	deadline, forked_from, `)

// anyInput reads an input wherever it is stored.
var anyInput = sqlkit.Text(`CASE WHEN parts & {partLargeInput} THEN (SELECT data FROM large_inputs WHERE run_id = runs.id) ELSE input END`)

func scanRun(scan func(...any) error, r *store.Run, more ...any) error {
	return scan(append([]any{
		sqlkit.ID(&r.ID), &r.Namespace, &r.Workflow, &r.Queue, &r.Status, &r.Priority, sqlkit.TextOrNull(&r.ExternalID), &r.Suffix,
		sqlkit.ID(&r.Parent), sqlkit.TextOrNull(&r.Group), &r.Ordinal, &r.OnClose,
		&r.Attempt, &r.Crashes, &r.Generation, &r.Epoch, sqlkit.TextOrNull(&r.Worker), &r.Events, &r.Pausing, sqlkit.Time(&r.VisibleAt),
		sqlkit.Time(&r.CreatedAt), sqlkit.Time(&r.StartedAt), sqlkit.Time(&r.FinishedAt), sqlkit.Time(&r.Deadline), sqlkit.ID(&r.ForkedFrom),
		sqlkit.Failure(&r.Failure), &r.Reuse, sqlkit.Blob(&r.Digest), sqlkit.Pin(&r.Pin), sqlkit.TextOrNull(&r.Build), sqlkit.Uses(&r.Under), sqlkit.Uses(&r.StepUnder), sqlkit.TagsOf(&r.Tags), sqlkit.Blob(&r.Input), sqlkit.Blob(&r.Meta), sqlkit.Blob(&r.Output),
	}, more...)...)
}

// stepColumnsIf is [sqlkit.StepColumns], without the large columns if z.fits is false.
var stepColumnsIf = strings.Replace(sqlkit.StepColumns, `s.output, s.failure`, `iif(z.fits, s.output, NULL), iif(z.fits, s.failure, NULL)`, 1)

func scanStep(scan func(...any) error, s *store.Step, first ...any) error {
	return sqlkit.ScanStep(scan, s, sqlkit.Blob(&s.Output), first...)
}

func scanSignal(scan func(...any) error, first ...any) (s store.Signal, err error) {
	err = sqlkit.ScanSignal(scan, &s, sqlkit.Blob(&s.Payload), first...)
	return s, err
}

func scanEntry(scan func(...any) error, first ...any) (e store.StateEntry, err error) {
	err = sqlkit.ScanEntry(scan, &e, sqlkit.Blob(&e.Value), first...)
	return e, err
}

// failure returns a failure as it is stored.
func failure(f *store.Failure) any { return text(sqlkit.FailureText(f)) }

// count returns a number as it is stored; nil is NULL.
func count(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}
