package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// claimLanes are the lanes that a claim may take from: a queue, a workflow in it
// and a priority in use there. Parameters: $1 now, $2 namespace, $3 to $6 the
// demands' numbers, queues, workflows and bounds.
const claimLanes = `WITH lane AS MATERIALIZED (
		SELECT w.d, w.n, l.queue, l.workflow, l.priority
		FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[]) w(d, queue, workflow, n)
		CROSS JOIN LATERAL (SELECT x.queue, x.workflow, x.priority FROM pawl.lanes x
			WHERE x.namespace=$2::text AND x.queue=w.queue AND x.workflow=w.workflow OFFSET 0) l
		WHERE NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue=w.queue AND p.workflow='')
		AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace=$2::text AND p.queue='' AND p.workflow=w.workflow))`

const (
	inLane = `x.namespace=$2::text AND x.queue=lane.queue AND x.workflow=lane.workflow AND x.priority=lane.priority
		AND x.visible_at IS NOT NULL AND x.status<>4`

	// What is at the heads of the lanes is put in order first, and then locked: to
	// lock the heads of all lanes would lock far too much.
	claimDue = claimLanes + `, head AS MATERIALIZED (
			SELECT c.id, c.visible_at, lane.priority, lane.n, row_number() OVER (PARTITION BY lane.d ORDER BY lane.priority DESC, c.visible_at, c.id) AS place
			FROM lane CROSS JOIN LATERAL (
				SELECT x.id, x.visible_at FROM pawl.runs x WHERE ` + inLane + ` AND x.visible_at<=` + now + `
				ORDER BY x.visible_at, x.id LIMIT $7::bigint) c),
		wanted AS MATERIALIZED (SELECT id, visible_at, priority FROM head WHERE place<=n ORDER BY priority DESC, visible_at, id LIMIT $7::bigint),
		due AS MATERIALIZED (SELECT c.id, c.visible_at, wanted.priority FROM wanted CROSS JOIN LATERAL (
			SELECT x.id, x.visible_at FROM pawl.runs x WHERE x.id=wanted.id AND x.visible_at IS NOT NULL AND x.status<>4
			AND x.visible_at<=` + now + ` AND x.priority=wanted.priority FOR NO KEY UPDATE SKIP LOCKED) c)`
	takeDue = `
	UPDATE pawl.runs r SET status=CASE r.status WHEN 5 THEN 5 ELSE 2 END, epoch=r.epoch+1, seq=0, stamp=$10::bigint, crashes=r.crashes+r.leased::int,
		worker=$8::text, leased=true, due_at=r.visible_at, visible_at=` + now + `+$9::bigint, started_at=coalesce(r.started_at, ` + now + `)
	FROM due WHERE r.id=ANY(ARRAY[due.id]) AND r.visible_at<=` + now + ` RETURNING `
)

var (
	takeRuns = claimDue + takeDue + cols(`r.input,r.meta,NULL::bytea`) + `, r.parts, r.due_at`

	// claimNext is the earliest time in the lanes, but for what bears stamp $7.
	claimNext = claimLanes + ` SELECT ` + now + `, min(c.visible_at) FROM (SELECT 1) one LEFT JOIN (lane CROSS JOIN LATERAL (
		SELECT x.visible_at FROM pawl.runs x WHERE ` + inLane + ` AND x.stamp<>$7::bigint
		ORDER BY x.visible_at, x.id LIMIT 1) c) ON true`
)

// patience bounds the last pause of a claim that found everything locked.
const patience = 32 * time.Millisecond

// Claim implements store.Leases. The runs are taken in one transaction; what their
// replay needs beyond their rows is read after it, when nobody else changes it.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	var out store.Claimed
	if err := p.Validate(); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	var numbers, bounds []int64
	var queues, workflows []string
	seen := map[[2]string]bool{} // what several demands name counts for the first
	for d, demand := range p.Demands {
		for _, w := range demand.Workflows {
			if k := [2]string{demand.Queue, w}; !seen[k] {
				seen[k] = true
				numbers, queues = append(numbers, int64(d)), append(queues, demand.Queue)
				workflows, bounds = append(workflows, w), append(bounds, int64(demand.Max))
			}
		}
	}
	at, wanted, stamp := setNow(p.Now), p.Wanted(), newStamp()
	base := []any{at, p.Namespace, numbers, queues, workflows, bounds}
	type taken struct {
		store.ClaimedRun
		parts int16
		due   time.Time
	}
	var runs []*taken
	next := stmt{sql: claimNext, args: append(base[:6:6], stamp), rows: one(scanTime(&out.Now), scanTime(&out.NextDue))}
	if wanted == 0 || len(numbers) == 0 {
		err := s.read(ctx, next)
		return out, err
	}
	take := func() error {
		return s.write(ctx, stmt{sql: `SELECT 1`, rows: func(scan func(...any) error) error {
			var n int64
			runs, out = nil, store.Claimed{} // sent again
			return scan(&n)
		}}, stmt{
			sql: takeRuns, args: append(base[:6:6], int64(wanted), p.Worker, span(p.LeaseFor), stamp),
			rows: func(scan func(...any) error) error {
				t := &taken{}
				runs = append(runs, t)
				return scanRun(scan, &t.Run, &t.parts, scanTime(&t.due))
			},
		}, next)
	}
	err := take()
	// What was due and was skipped is locked by a write that is about to end: a signal,
	// another claim. It is not waited for longer than that usually takes.
	for wait := time.Millisecond; err == nil && len(runs) == 0 && !out.NextDue.IsZero() && !out.NextDue.After(out.Now) && wait < patience; wait *= 2 {
		pause(ctx, wait)
		err = take()
	}
	if err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(runs, func(a, b *taken) int {
		return cmp.Or(cmp.Compare(b.Run.Priority, a.Run.Priority), a.due.Compare(b.due), slices.Compare(a.Run.ID[:], b.Run.ID[:]))
	})
	out.Runs = make([]store.ClaimedRun, len(runs))
	var ids []store.ID
	place := map[store.ID]*store.ClaimedRun{}
	for i, t := range runs {
		t.Lease = store.Lease{Run: t.Run.ID, Worker: p.Worker, Epoch: t.Run.Epoch}
		t.Recovered = t.Run.Crashes > 0
		t.Inbox.Status, t.Inbox.Events = t.Run.Status, t.Run.Events
		out.Runs[i] = t.ClaimedRun
		if t.parts&(partSteps|partState|partSignals|partGroups) != 0 {
			ids = append(ids, t.Run.ID)
			place[t.Run.ID] = &out.Runs[i]
		}
	}
	if len(ids) > 0 {
		err = s.replay(ctx, ids, place, int64(cmp.Or(p.MaxBytes, store.DefaultClaimBytes)))
	}
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

const (
	// Which steps fit is decided on their lengths, so that what does not is never
	// read; $2 is the bound.
	replaySteps = `WITH sized AS MATERIALIZED (
			SELECT s.run_id, s.branch, s.name, s.occurrence,
				sum(coalesce(octet_length(s.output), 0)) OVER (ORDER BY m.place, s.position ROWS UNBOUNDED PRECEDING) AS total
			FROM unnest($1::text[]::uuid[]) WITH ORDINALITY m(id, place) JOIN pawl.steps s ON s.run_id=ANY(ARRAY[m.id]))
		SELECT s.run_id, ` + stepColumns + ` FROM sized z CROSS JOIN LATERAL (SELECT * FROM pawl.steps x
			WHERE x.run_id=z.run_id AND x.branch=z.branch AND x.name=z.name AND x.occurrence=z.occurrence OFFSET 0) s
		WHERE z.total<=$2::bigint ORDER BY s.run_id, s.position`
	replayCounts  = `SELECT s.run_id, count(*) FROM pawl.steps s WHERE s.run_id=ANY($1::text[]::uuid[]) GROUP BY s.run_id`
	replayInboxes = `SELECT r.id, r.status, r.events, r.pausing FROM pawl.runs r WHERE r.id=ANY($1::text[]::uuid[])`
	replayState   = `SELECT s.run_id, s.key, s.value, s.version, s.updated_at FROM pawl.state s WHERE s.run_id=ANY($1::text[]::uuid[]) ORDER BY s.run_id, s.key`
	replayGroups  = `SELECT g.run_id, g.name, g.total, g.open, g.completed, g.failed, g.canceled FROM pawl.groups g
		WHERE g.run_id=ANY($1::text[]::uuid[]) ORDER BY g.run_id, g.name`
	replaySignals = `SELECT s.run_id, s.id, s.name, s.payload, s.sent_at FROM pawl.signals s
		WHERE s.run_id=ANY($1::text[]::uuid[]) AND NOT s.consumed ORDER BY s.run_id, s.pos`
)

// replay reads what claimed runs bring along, of one moment.
func (s *Store) replay(ctx context.Context, ids []store.ID, place map[store.ID]*store.ClaimedRun, bytes int64) error {
	list := uuids(ids)
	count := map[store.ID]int64{}
	err := s.read(ctx,
		stmt{sql: replayInboxes, args: []any{list}, rows: func(scan func(...any) error) error {
			var id store.ID
			var status int16
			var events int64
			var pausing bool
			err := scan(scanID(&id), &status, &events, &pausing)
			if r := place[id]; r != nil && err == nil {
				r.Inbox.Status, r.Inbox.Events = store.Status(status), events
				r.Run.Status, r.Run.Events, r.Run.Pausing = store.Status(status), events, pausing
			}
			return err
		}},
		stmt{sql: replaySteps, args: []any{list, bytes}, rows: func(scan func(...any) error) error {
			var id store.ID
			var step store.Step
			err := scanStep(scan, &step, scanID(&id))
			place[id].Steps = append(place[id].Steps, step)
			return err
		}},
		stmt{sql: replayCounts, args: []any{list}, rows: func(scan func(...any) error) error {
			var id store.ID
			var n int64
			err := scan(scanID(&id), &n)
			count[id] = n
			return err
		}},
		stmt{sql: replayState, args: []any{list}, rows: func(scan func(...any) error) error {
			var id store.ID
			e, err := scanEntry(scan, scanID(&id))
			place[id].Inbox.State = append(place[id].Inbox.State, e)
			return err
		}},
		stmt{sql: replayGroups, args: []any{list}, rows: func(scan func(...any) error) error {
			var id store.ID
			g, err := scanGroup(scan, scanID(&id))
			place[id].Inbox.Groups = append(place[id].Inbox.Groups, g)
			return err
		}},
		stmt{sql: replaySignals, args: []any{list}, rows: func(scan func(...any) error) error {
			var id store.ID
			sig, err := scanSignal(scan, scanID(&id))
			if in := &place[id].Inbox; len(in.Signals) < store.MaxPage {
				in.Signals = append(in.Signals, sig)
			}
			return err
		}},
	)
	for id, r := range place {
		r.MoreSteps = count[id] > int64(len(r.Steps))
	}
	return err
}
