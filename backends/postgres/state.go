package postgres

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// The version of a write is the run's event count after it. The first statement of the list has
// already counted all of the list's writes.
var (
	// Parameters: $1 now, $2 run, $3 stamp, $4 key, $5 value, $6 the number of writes that follow.
	writeState = `INSERT INTO pawl.state (run_id, key, value, version, updated_at)
		SELECT r.id, $4::text, $5::bytea, r.events-$6::bigint, ` + now + ` FROM pawl.runs r WHERE r.id=$2::uuid AND r.stamp=$3::bigint
		` + stateConflict
	stateConflict = `ON CONFLICT (run_id, key) DO UPDATE SET value=excluded.value, version=excluded.version, updated_at=excluded.updated_at`
	deleteState   = `DELETE FROM pawl.state WHERE run_id=$1::uuid AND key=$3::text AND` + applied12
)

// putState adds the writes of state to a list whose first statement leaves its stamp.
func putState(stmts []stmt, setnow any, id store.ID, stamp int64, writes []store.StateWrite) []stmt {
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			stmts = append(stmts, stmt{sql: deleteState, args: []any{uuid(id), stamp, w.Key}})
			continue
		}
		later := int64(len(writes) - 1 - i)
		stmts = append(stmts, stmt{sql: writeState, args: []any{setnow, uuid(id), stamp, w.Key, w.Value, later}})
	}
	return stmts
}

// stateEvent counts the writes if all comparisons hold. Parameters: $1 now, $2 run, $3 namespace, $4
// the number of writes, $5 stamp, $6 the events that these belong to, $7 and $8 the keys and
// versions to compare.
var stateEvent = sqlkit.Text(`UPDATE pawl.runs r SET events=r.events+$4::bigint, stamp=$5::bigint, parts=r.parts | {partState},
		visible_at=CASE WHEN r.status IN ({sleeping},{paused}) AND r.wakes & $6::smallint <> 0 THEN least(coalesce(r.visible_at, ` + now + `), ` + now + `) ELSE r.visible_at END
	WHERE r.id=$2::uuid AND r.namespace=$3::text AND r.status<{final} AND NOT EXISTS (SELECT 1 FROM unnest($7::text[], $8::bigint[]) w(key, version)
		WHERE coalesce((SELECT s.version FROM pawl.state s WHERE s.run_id=r.id AND s.key=w.key), 0)<>w.version)
	RETURNING r.id, r.queue, r.status={sleeping} AND r.visible_at<=` + now + `, r.events, ` + now)

const runStatus = `SELECT status FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text`

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
	h, stamp, done, at := sqlkit.NewHints(p.Namespace), sqlkit.NewStamp(), false, setNow(p.Now)
	stmts := []stmt{
		lockRuns(p.Namespace, []store.ID{p.Run}, func(n int64) { done, found, *h = false, n, *sqlkit.NewHints(p.Namespace) }),
		{
			sql:  stateEvent,
			args: []any{at, uuid(p.Run), p.Namespace, int64(len(p.Writes)), stamp, wakes, keys, versions},
			rows: func(scan func(...any) error) error {
				done = true
				return h.WokenRow(scan, &id, &events, sqlkit.Time(&updated))
			},
		},
	}
	stmts = append(putState(stmts, at, p.Run, stamp, p.Writes), own(s.journal(p.Namespace, p.Now, p.Record).Stamped([]store.ID{p.Run}, stamp))...)
	stmts = append(stmts, stmt{
		sql:  runStatus,
		args: []any{uuid(p.Run), p.Namespace}, rows: sqlkit.One(&status),
	})
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	switch {
	case done:
	case found == 0:
		return nil, sqlkit.NotFound("run %v", p.Run)
	default:
		return nil, sqlkit.StateRefused(p.Run, store.Status(status))
	}
	s.publishAll(h)
	return sqlkit.StateEntries(p.Writes, events, updated), nil
}
