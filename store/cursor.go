package store

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"time"
)

// A cursor consists of the version, eight bytes of a hash of the query, and the position.
const cursorVersion = 1

// EncodeCursor makes the cursor that continues after pos in the listing of that kind and query. The
// query contains whatever must be the same on the next call, in a form that encoding/json can
// write.
func EncodeCursor(kind string, query any, pos []byte) string {
	b := append([]byte{cursorVersion}, cursorHash(kind, query)...)
	return base64.RawURLEncoding.EncodeToString(append(b, pos...))
}

// DecodeCursor returns the position of a cursor that [EncodeCursor] made for the same kind and
// query; for an empty cursor it returns nil. Its errors match [ErrInvalid].
func DecodeCursor(kind string, query any, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 9 || b[0] != cursorVersion {
		return nil, Invalid("cursor", "no listing of this store has returned it; start without a cursor")
	}
	if string(b[1:9]) != string(cursorHash(kind, query)) {
		return nil, Invalid("cursor", "it belongs to another query; repeat the query that returned it, or start without a cursor")
	}
	return b[9:], nil
}

func cursorHash(kind string, query any) []byte {
	h := fnv.New64a()
	h.Write([]byte(kind))
	q, err := json.Marshal(query)
	if err != nil {
		panic("store: cursor query cannot be written as JSON: " + err.Error()) // a mistake in the backend
	}
	h.Write(q)
	return h.Sum(nil)
}

// Cursor kinds are shared, so that a cursor survives a change of backend.
const (
	cursorRuns      = "runs by creation"
	cursorSchedules = "schedules"
	cursorFirings   = "firings"
	cursorWorkers   = "workers"
	cursorWorkflows = "workflows"
	cursorPaused    = "paused"
	cursorBuilds    = "builds"
	cursorLimits    = "limits"
	cursorLimitKeys = "keys of a limit"
)

// query is what must stay the same for all pages of a listing. Times are numbers, because JSON
// cannot represent every time.
func (p *ListParams) query() any {
	f := p.Filter
	f.CreatedAfter, f.CreatedBefore, f.FinishedAfter, f.FinishedBefore = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return []any{p.Namespace, f, p.Filter.CreatedAfter.UnixMicro(), p.Filter.CreatedBefore.UnixMicro(),
		p.Filter.FinishedAfter.UnixMicro(), p.Filter.FinishedBefore.UnixMicro(), p.OldestFirst, p.ByEnd}
}

// RunPosition is the place of a run in a listing: its creation or its end, then its ID.
type RunPosition struct {
	At time.Time
	ID ID
}

// PositionOf returns the position of a run.
func (p *ListParams) PositionOf(r *Run) RunPosition {
	if p.ByEnd {
		return RunPosition{r.FinishedAt, r.ID}
	}
	return RunPosition{r.CreatedAt, r.ID}
}

// Compare orders positions, the oldest first.
func (p RunPosition) Compare(q RunPosition) int {
	return cmp.Or(p.At.Compare(q.At), bytes.Compare(p.ID[:], q.ID[:]))
}

// Position decodes the cursor: the position of the last run seen, zero at the start.
func (p *ListParams) Position() (RunPosition, error) {
	pos, err := DecodeCursor(cursorRuns, p.query(), p.Cursor)
	if err != nil || pos == nil {
		return RunPosition{}, err
	}
	var last RunPosition
	if len(pos) != atSize+len(last.ID) {
		return last, Invalid("cursor", "its length is wrong; start without a cursor")
	}
	last.At = time.UnixMicro(int64(binary.BigEndian.Uint64(pos))).UTC()
	copy(last.ID[:], pos[atSize:])
	return last, nil
}

// NextCursor makes the cursor that continues after a position.
func (p *ListParams) NextCursor(last RunPosition) string {
	pos := binary.BigEndian.AppendUint64(nil, uint64(last.At.UnixMicro()))
	return EncodeCursor(cursorRuns, p.query(), append(pos, last.ID[:]...))
}

// CursorBehind makes the cursor that continues after a page's last run.
func (p *ListParams) CursorBehind(last *Run) string { return p.NextCursor(p.PositionOf(last)) }

// Position decodes the cursor: the name of the last schedule seen.
func (p *ListSchedulesParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorSchedules, []any{p.Namespace, p.Names}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last schedule.
func (p *ListSchedulesParams) NextCursor(last string) string {
	return EncodeCursor(cursorSchedules, []any{p.Namespace, p.Names}, []byte(last))
}

// Position decodes the cursor: the fire time of the last firing seen, in its
// text form; empty at the start.
func (p *ListFiringsParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorFirings, []any{p.Namespace, p.Schedule}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last firing.
func (p *ListFiringsParams) NextCursor(last string) string {
	return EncodeCursor(cursorFirings, []any{p.Namespace, p.Schedule}, []byte(last))
}

// Position decodes the cursor: the ID of the last worker seen.
func (p *ListWorkersParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorWorkers, p.Namespace, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last worker.
func (p *ListWorkersParams) NextCursor(last string) string {
	return EncodeCursor(cursorWorkers, p.Namespace, []byte(last))
}

// Position decodes the cursor: the name of the last workflow seen.
func (p *ListWorkflowsParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorWorkflows, []any{p.Namespace, p.Names}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last workflow.
func (p *ListWorkflowsParams) NextCursor(last string) string {
	return EncodeCursor(cursorWorkflows, []any{p.Namespace, p.Names}, []byte(last))
}

// Position decodes the cursor: the queue and the workflow of the last target seen.
func (p *ListPausedParams) Position() (PausedTarget, error) {
	var last PausedTarget
	pos, err := DecodeCursor(cursorPaused, p.Namespace, p.Cursor)
	if err != nil || pos == nil {
		return last, err
	}
	// Names have no control characters.
	queue, workflow, ok := bytes.Cut(pos, []byte{0})
	if !ok {
		return last, Invalid("cursor", "it names neither a queue nor a workflow; start without a cursor")
	}
	last.Queue, last.Workflow = string(queue), string(workflow)
	return last, nil
}

// NextCursor makes the cursor that continues after a page's last target.
func (p *ListPausedParams) NextCursor(last PausedTarget) string {
	return EncodeCursor(cursorPaused, p.Namespace, []byte(last.Queue+"\x00"+last.Workflow))
}
