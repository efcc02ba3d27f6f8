package store

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"time"
)

// A cursor's bytes: version, eight of a hash over what was asked, the position.
const cursorVersion = 1

// EncodeCursor makes the cursor that goes on behind pos in the listing of that
// kind and query. The query is whatever must be the same on the next call, in a
// form that encoding/json can write.
func EncodeCursor(kind string, query any, pos []byte) string {
	b := append([]byte{cursorVersion}, cursorHash(kind, query)...)
	return base64.RawURLEncoding.EncodeToString(append(b, pos...))
}

// DecodeCursor reads back the position of a cursor that [EncodeCursor] made for
// the same kind and query; an empty cursor gives nil. Its errors match
// [ErrInvalid].
func DecodeCursor(kind string, query any, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 9 || b[0] != cursorVersion {
		return nil, Invalid("cursor", "it was not made by a listing of this store; start without one")
	}
	if string(b[1:9]) != string(cursorHash(kind, query)) {
		return nil, Invalid("cursor", "it belongs to another query; repeat the query that it came from, or start without one")
	}
	return b[9:], nil
}

func cursorHash(kind string, query any) []byte {
	h := fnv.New64a()
	h.Write([]byte(kind))
	q, err := json.Marshal(query)
	if err != nil {
		panic("store: cursor query cannot be written as JSON: " + err.Error()) // a backend's mistake
	}
	h.Write(q)
	return h.Sum(nil)
}

// Cursor kinds, shared so that a cursor survives a change of backend.
const (
	cursorRuns      = "runs"
	cursorSchedules = "schedules"
	cursorFirings   = "firings"
)

// query is what must stay the same over the pages of a listing. Times are
// numbers: JSON cannot write every time.
func (p *ListParams) query() any {
	f := p.Filter
	f.CreatedAfter, f.CreatedBefore, f.FinishedAfter, f.FinishedBefore = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return []any{p.Namespace, f, p.Filter.CreatedAfter.UnixMicro(), p.Filter.CreatedBefore.UnixMicro(),
		p.Filter.FinishedAfter.UnixMicro(), p.Filter.FinishedBefore.UnixMicro(), p.OldestFirst, p.ByEnd}
}

// Position decodes the cursor: the ID of the last run seen, zero at the start.
func (p *ListParams) Position() (ID, error) {
	_, id, err := p.EndPosition()
	return id, err
}

// EndPosition decodes the cursor: the ID of the last run seen and, with ByEnd, its
// end; zero at the start.
func (p *ListParams) EndPosition() (end time.Time, id ID, err error) {
	pos, err := DecodeCursor(cursorRuns, p.query(), p.Cursor)
	if err != nil || pos == nil {
		return end, id, err
	}
	if p.ByEnd && len(pos) > endSize {
		end = time.UnixMicro(int64(binary.BigEndian.Uint64(pos))).UTC()
		pos = pos[endSize:]
	}
	if copy(id[:], pos) != len(id) {
		err = Invalid("cursor", "it is cut short; start without one")
	}
	return end, id, err
}

// endSize is the bytes of an end in a cursor.
const endSize = 8

// NextCursor makes the cursor behind a page's last run, in the order of IDs.
func (p *ListParams) NextCursor(last ID) string {
	return EncodeCursor(cursorRuns, p.query(), last[:])
}

// CursorBehind makes the cursor behind a page's last run, in the listing's order.
func (p *ListParams) CursorBehind(last *Run) string {
	if !p.ByEnd {
		return p.NextCursor(last.ID)
	}
	pos := binary.BigEndian.AppendUint64(nil, uint64(last.FinishedAt.UnixMicro()))
	return EncodeCursor(cursorRuns, p.query(), append(pos, last.ID[:]...))
}

// Position decodes the cursor: the name of the last schedule seen.
func (p *ListSchedulesParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorSchedules, []any{p.Namespace, p.Names}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor behind a page's last schedule.
func (p *ListSchedulesParams) NextCursor(last string) string {
	return EncodeCursor(cursorSchedules, []any{p.Namespace, p.Names}, []byte(last))
}

// Position decodes the cursor: the fire time of the last firing seen, in its
// text form; empty at the start.
func (p *ListFiringsParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorFirings, []any{p.Namespace, p.Schedule}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor behind a page's last firing.
func (p *ListFiringsParams) NextCursor(last string) string {
	return EncodeCursor(cursorFirings, []any{p.Namespace, p.Schedule}, []byte(last))
}
