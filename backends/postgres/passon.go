package postgres

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A commit that passes permits on takes no lock of the limits and writes neither keys nor flows: as many permits are
// held afterwards as before. The row of the flow still names a run that no longer waits as its first one, which is a
// bound for those that do. The next claim that looks at the flow corrects it.

// passStamp is the stamp of the run that gets the permits of a run, a row. A repeated commit finds it by that.
func passStamp(run string) string {
	return `hashtextextended(` + run + `.id || ' ' || ` + run + `.epoch, 21)`
}

var (
	// passPermits leases runs in place of those that the transaction has ended, of which the mark of each, not yet
	// committed, is the proof. It deletes these marks, so that the permits do not end. Parameters: $1 now, $2
	// namespace, $3 the duration of the leases, $4 the bytes of all runs together, $5 the number of marks to look
	// through.
	passPermits = sqlkit.Text(`WITH own AS MATERIALIZED (SELECT m.seq, m.run FROM (SELECT x.seq, x.run, x.freed, x.freed_step, x.xmin AS by FROM pawl.limit_marks x
				WHERE x.namespace=$2::text ORDER BY x.seq DESC LIMIT $5::bigint) m WHERE m.by=pg_current_xact_id()::xid AND m.freed IS NOT NULL AND m.freed_step IS NULL),
		ended AS MATERIALIZED (SELECT r.flow, r.pin, r.worker, r.lease_build, min(r.namespace) AS namespace, min(r.queue) AS queue, min(r.workflow) AS workflow, min(r.priority) AS priority,
				min(r.under) AS under, count(*) AS n, array_agg(own.seq ORDER BY own.seq) AS seqs, array_agg(r.id ORDER BY own.seq) AS ids, array_agg(` + passStamp(`r`) + ` ORDER BY own.seq) AS stamps
			FROM own CROSS JOIN LATERAL (SELECT x.* FROM pawl.runs x WHERE x.id=ANY(ARRAY[own.run]) AND x.flow IS NOT NULL OFFSET 0) r GROUP BY 1, 2, 3, 4),
		named AS MATERIALIZED (SELECT g.*, ` + flowOf(`g.`, `g.under`, `NULL`, `false`) + ` AS waits FROM ended g WHERE g.flow=` + flowOf(`g.`, `g.under`, `NULL`, `true`) + `),
		open AS MATERIALIZED (SELECT g.* FROM named g
			WHERE g.pin IN ('', g.lease_build) AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND (p.queue=g.queue AND p.workflow='' OR p.queue='' AND p.workflow=g.workflow))
			AND NOT EXISTS (SELECT 1 FROM ` + usesOf(`g.under`, `NULL`) + ` e(value)
				LEFT JOIN LATERAL (SELECT * FROM pawl.limits l WHERE l.namespace=$2::text AND l.name=e.value->>0 OFFSET 0) l ON true
				LEFT JOIN LATERAL (SELECT * FROM pawl.limit_keys k WHERE k.namespace=$2::text AND k.name=e.value->>0 AND k.key=e.value->>1 OFFSET 0) k ON true
				WHERE l.name IS NULL OR l.fair OR l.every>0 OR k.held IS NULL OR l.concurrency>0 AND k.held>l.concurrency
					OR EXISTS (SELECT 1 FROM pawl.limit_flows f WHERE f.namespace=$2::text AND f.limit_name=e.value->>0 AND f.limit_key=e.value->>1 AND (f.flow, f.pin)<>(g.waits, g.pin)))),
		head AS MATERIALIZED (SELECT f.flow, f.worker, f.lease_build, f.seqs[c.nth] AS seq, f.ids[c.nth] AS id, f.stamps[c.nth] AS stamp, c.id AS next, c.good AND c.total<=$4::bigint/f.flows AS fits
			FROM (SELECT *, count(*) OVER () AS flows FROM open) f CROSS JOIN LATERAL (SELECT h.*, row_number() OVER first AS nth, bool_and(h.fresh) OVER first AS good, sum(h.size) OVER first AS total FROM (
				SELECT x.id, x.visible_at, x.status={pending} AND x.parts & {partsToReplay} = 0 AS fresh, ` + lengths(`x`) + ` AS size
				FROM pawl.runs x WHERE x.flow=f.waits AND x.flow IS NOT NULL AND x.pin=f.pin AND NOT x.leased AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.visible_at<=` + now + `
				ORDER BY x.visible_at, x.id LIMIT f.n FOR NO KEY UPDATE SKIP LOCKED) h WINDOW first AS (ORDER BY h.visible_at, h.id)) c),
		fit AS MATERIALIZED (SELECT * FROM head WHERE head.fits),
		passed AS (DELETE FROM pawl.limit_marks m WHERE m.namespace=$2::text AND m.seq=ANY((SELECT array_agg(fit.seq) FROM fit)::bigint[]))
		UPDATE pawl.runs r SET status={running}, epoch=r.epoch+1, seq=0, stamp=fit.stamp, worker=fit.worker, leased=true, taken=true, flow=fit.flow, due_at=r.visible_at,
			visible_at=` + now + `+$3::bigint, started_at=coalesce(r.started_at, ` + now + `), build=` + sqlkit.RunBuild + `, lease_build=fit.lease_build, parts=r.parts & ~{partRecorded}::smallint
		FROM fit WHERE r.id=ANY(ARRAY[fit.next]) RETURNING ` + cols(`r.input,r.meta,NULL::bytea`) + `, fit.id`)

	// passedBefore finds the runs that have got the permits of ended ones, $2, and that are still leased: $1 now.
	passedBefore = sqlkit.Text(`SELECT ` + cols(`r.input,r.meta,NULL::bytea`) + `, e.id FROM unnest($2::uuid[]) t(id)
		CROSS JOIN LATERAL (SELECT x.* FROM pawl.runs x WHERE x.id=ANY(ARRAY[t.id]) OFFSET 0) e
		JOIN pawl.runs r ON r.namespace=e.namespace AND r.queue=e.queue AND r.workflow=e.workflow AND r.pin=e.pin AND r.priority=e.priority AND r.visible_at IS NOT NULL AND r.visible_at>` + now + `
			AND r.status<>{paused} AND (r.flow IS NULL OR r.leased) AND r.leased AND r.stamp=` + passStamp(`e`) + ` AND r.worker=e.worker`)
)

// passing is what the commits of a call pass on.
type passing struct {
	span int64                          // of the leases; 0: nothing is passed on
	ends int                            // runs
	runs map[store.ID]*store.ClaimedRun // that the transaction has leased, by those that it has ended
}

// passingOf returns what a list of commits is to pass on. All of those that end their runs must ask for the same, because
// the statement cannot tell their marks from one another.
func (s *Store) passingOf(list []*commit) *passing {
	p, try := &passing{}, false
	for _, b := range list {
		if !b.final() || s.in != nil {
			continue
		}
		var pass bool
		_, b.under, pass = s.permits.Of(b.Commit)
		try = try || pass
		span := sqlkit.Span(b.Transition.PassOn)
		if p.ends++; p.ends > 1 && span != p.span {
			return &passing{}
		}
		p.span = span
	}
	if !try {
		p.span = 0
	}
	return p
}

// marksToPass is how many of the last marks of a namespace are looked through for those of the transaction, beside
// twice as many as it may have left.
const marksToPass = 64

// after returns the transaction of a statement that ends runs.
func (p *passing) after(ends stmt, setnow any, namespace string) []stmt {
	if p.span == 0 {
		return []stmt{ends}
	}
	rows := ends.rows
	ends.rows = func(scan func(...any) error) error {
		p.runs = nil // the transaction may have begun again
		return rows(scan)
	}
	args := []any{setnow, namespace, p.span, int64(store.DefaultClaimBytes), int64(marksToPass + 2*p.ends)}
	return []stmt{ends, {sql: passPermits, args: args, rows: p.row(sqlkit.Passed)}}
}

func (p *passing) row(passed func(store.Run) *store.ClaimedRun) func(func(...any) error) error {
	var ended store.ID
	row := newRunRow(sqlkit.ID(&ended))
	return func(scan func(...any) error) error {
		run, err := row.Read(scan)
		if p.runs == nil {
			p.runs = map[store.ID]*store.ClaimedRun{}
		}
		p.runs[ended] = passed(run)
		return err
	}
}

// give notes the runs at the commits that have passed permits on to them.
func (s *Store) give(p *passing, list []*commit) {
	if p.span == 0 {
		return
	}
	for _, b := range list {
		if b.final() && b.passed == nil {
			b.passed = p.runs[b.Lease.Run]
			s.permits.Tried(b.under, b.passed)
		}
	}
	p.runs = nil
}

// allPassed reports whether each run that has ended has passed its permits on.
func allPassed(list []*commit) bool {
	return !slices.ContainsFunc(list, func(b *commit) bool { return b.final() && b.passed == nil })
}

// passedAgain finds the runs to which repeated commits have passed permits on.
func (s *Store) passedAgain(ctx context.Context, setnow any, list []*commit) error {
	var ids []store.ID
	for _, b := range list {
		if b.res.Repeated && b.Transition != nil && b.Transition.PassOn > 0 {
			ids = append(ids, b.Lease.Run)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	p := &passing{}
	if err := s.read(ctx, stmt{sql: passedBefore, args: []any{setnow, uuids(ids)}, rows: p.row(sqlkit.PassedBefore)}); err != nil {
		return err
	}
	for _, b := range list {
		b.res.Next = p.runs[b.Lease.Run]
	}
	return nil
}
