package postgres

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/pawlhq/pawl/store"
)

// stateEvent counts the writes if all comparisons hold.
const stateEvent = `UPDATE pawl.runs r SET events=r.events+$4::bigint, stamp=$5::bigint, parts=r.parts | 2,
		visible_at=CASE WHEN r.status IN (3,4) AND r.wakes & $6::smallint <> 0 THEN least(coalesce(r.visible_at, ` + now + `), ` + now + `) ELSE r.visible_at END
	WHERE r.id=$2::uuid AND r.namespace=$3::text AND r.status<6 AND NOT EXISTS (SELECT 1 FROM unnest($7::text[], $8::bigint[]) w(key, version)
		WHERE coalesce((SELECT s.version FROM pawl.state s WHERE s.run_id=r.id AND s.key=w.key), 0)<>w.version)
	RETURNING r.id, r.queue, r.status=3 AND r.visible_at<=` + now + `, r.events, ` + now

// SetState implements store.Coordination.
func (s *Store) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	if err := p.Validate(s.config.limits); err != nil {
		return nil, err
	}
	keys, versions := []string{}, []int64{}
	for _, w := range p.Writes {
		if w.IfVersion != nil {
			keys, versions = append(keys, w.Key), append(versions, *w.IfVersion)
		}
	}
	var wakes int16
	if len(p.Writes) > 0 {
		wakes = int16(store.WakeState)
	}
	var id store.ID
	var events, found int64
	var status int16
	var updated time.Time
	h, stamp, done, at := newHints(p.Namespace), newStamp(), false, setNow(p.Now)
	stmts := []stmt{
		lockRuns(p.Namespace, []store.ID{p.Run}, func(n int64) { done, found, *h = false, n, *newHints(p.Namespace) }),
		{
			sql:  stateEvent,
			args: []any{at, uuid(p.Run), p.Namespace, int64(len(p.Writes)), stamp, wakes, keys, versions},
			rows: func(scan func(...any) error) error {
				done = true
				return wokenRow(scan, &id, h, &events, scanTime(&updated))
			},
		},
	}
	stmts = append(putState(stmts, at, p.Run, stamp, p.Writes), stmt{
		sql:  `SELECT status FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text`,
		args: []any{uuid(p.Run), p.Namespace}, rows: one(&status),
	})
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	switch {
	case done:
	case found == 0:
		return nil, notFound("run %v", p.Run)
	case store.Status(status).Final():
		return nil, finished(p.Run, store.Status(status))
	default:
		return nil, conflict("state of run %v is not at the version that the write expects", p.Run)
	}
	h.send(ctx, s)
	entries := make([]store.StateEntry, len(p.Writes))
	for i, w := range p.Writes {
		e := &entries[i]
		e.Key, e.Version = w.Key, events-int64(len(p.Writes)-1-i)
		if !w.Delete {
			e.Value, e.UpdatedAt = w.Value, updated
		}
	}
	return entries, nil
}

func scanEntry(scan func(...any) error, first ...any) (e store.StateEntry, err error) {
	err = scan(append(first, &e.Key, &e.Value, &e.Version, scanTime(&e.UpdatedAt))...)
	return e, err
}

// GetState implements store.Coordination.
func (s *Store) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var entries []store.StateEntry
	found, fits, more := false, false, false
	keys := p.Keys
	if keys == nil {
		keys = []string{}
	}
	err := s.read(ctx, exists1(p.Namespace, p.Run, &found), stmt{
		sql: someState, args: []any{uuid(p.Run), atMost(p.MaxBytes), p.After, len(keys) == 0, keys, cmp.Or(int64(p.Limit), math.MaxInt32)},
		rows: func(scan func(...any) error) error {
			e, err := scanEntry(scan, &fits)
			keep(&entries, &more, e, fits)
			return err
		},
	})
	if err == nil && !found {
		return nil, notFound("run %v", p.Run)
	}
	return entries, err
}
