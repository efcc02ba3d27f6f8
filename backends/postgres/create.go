package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/store"
)

// lane is what claims seek in, within a namespace.
type lane struct {
	queue, workflow string
	priority        int16
}

type laneKey struct {
	namespace string
	lane
}

func laneOf(r *store.NewRun) lane { return lane{r.Queue, r.Workflow, int16(r.Priority)} }

// ensureLanes puts lanes into the table, where claims find them, before the first
// run of each is made. It is a write of its own, so that no one waits for a lane
// until a larger transaction ends; but for that of the program's own, when the lane
// is used for the first time and no worker has registered its workflow. What was put
// before the server was lost is put again.
func (s *Store) ensureLanes(ctx context.Context, namespace string, lanes []lane) error {
	var fresh []lane
	failures := s.failures.Load()
	for _, l := range lanes {
		if then, ok := s.lanes.Load(laneKey{namespace, l}); (!ok || then != failures) && !slices.Contains(fresh, l) {
			fresh = append(fresh, l)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	queues, workflows, priorities := make([]string, len(fresh)), make([]string, len(fresh)), make([]int64, len(fresh))
	for i, l := range fresh {
		queues[i], workflows[i], priorities[i] = l.queue, l.workflow, int64(l.priority)
	}
	err := s.write(ctx, stmt{
		sql: `INSERT INTO pawl.lanes (queue, workflow, priority, namespace)
			SELECT t.queue COLLATE "C", t.workflow COLLATE "C", t.priority::smallint, $1::text
			FROM unnest($2::text[], $3::text[], $4::bigint[]) t(queue, workflow, priority) ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`,
		args: []any{namespace, queues, workflows, priorities},
	})
	if err != nil {
		return err
	}
	for _, l := range fresh {
		if s.in != nil {
			break // it may be rolled back
		}
		s.lanes.Store(laneKey{namespace, l}, failures)
	}
	return nil
}

// healLanes puts the lanes of runs that are claimable: a database that has gone back in
// time may have lost one between the moment when a process put it and the run that
// was made in it. Each priority is one seek in the index of what is claimable.
const healLanes = `WITH RECURSIVE pair AS (SELECT * FROM unnest($2::text[], $3::text[]) p(queue, workflow)),
	level AS (
		SELECT p.queue, p.workflow, (SELECT x.priority FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=p.queue AND x.workflow=p.workflow
			AND x.visible_at IS NOT NULL AND x.status<>4 ORDER BY x.priority DESC LIMIT 1) AS priority FROM pair p
		UNION ALL
		SELECT l.queue, l.workflow, (SELECT x.priority FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=l.queue AND x.workflow=l.workflow
			AND x.priority<l.priority AND x.visible_at IS NOT NULL AND x.status<>4 ORDER BY x.priority DESC LIMIT 1) FROM level l WHERE l.priority IS NOT NULL)
	INSERT INTO pawl.lanes (queue, workflow, priority, namespace)
	SELECT l.queue, l.workflow, l.priority, $1::text FROM level l WHERE l.priority IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM pawl.lanes x WHERE x.namespace=$1::text AND x.queue=l.queue AND x.workflow=l.workflow AND x.priority=l.priority)
	ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`

// insertOne begins an insert of one run that waits for a worker; insertArgs fills
// its parameters. What follows is a guard, if any, and ON CONFLICT DO NOTHING.
const insertOne = `INSERT INTO pawl.runs (status, id, namespace, workflow, queue, priority, visible_at, external_id, suffix,
	created_at, deadline, input, meta, parent, grp, ordinal, on_close)
	SELECT 1, $2::uuid, $3::text, $4::text, $5::text, $6::smallint,
	least(greatest(` + now + `+$7::bigint, $8::bigint), ` + now + `+$9::bigint), $10::text, $11::text,
	` + now + `, ` + now + `+$9::bigint, $12::bytea, $13::bytea, $14::uuid, $15::text, $16::bigint, $17::smallint`

// The parameters of a guard begin at $18.

// insertArgs are the parameters of insertOne; setnow is what setNow made.
func insertArgs(setnow any, namespace string, r *store.NewRun, parent store.ID) []any {
	var timeout *int64
	if r.Timeout > 0 {
		d := span(r.Timeout)
		timeout = &d
	}
	return []any{
		setnow, uuid(r.ID), namespace, r.Workflow, r.Queue, int16(r.Priority), span(r.After), micros(r.At), timeout,
		text(r.ExternalID), r.Suffix, r.Input, r.Meta, uuid(parent), text(r.Group), r.Ordinal, int16(r.OnClose),
	}
}

const (
	createInto = `INSERT INTO pawl.runs (id, namespace, workflow, queue, priority, external_id, suffix, created_at, deadline,
		input, meta, visible_at, ordinal, on_close, grp, reuse, digest, status`
	// An array that is NULL stands for the usual value of each row: see column.
	createValues = `SELECT t.id, $2::text, coalesce(t.workflow, $17::text), coalesce(t.queue, $18::text), coalesce(t.priority, 0)::smallint,
		t.external_id, coalesce(t.suffix, ''), ` + now + `, ` + now + `+t.timeout, t.input, t.meta, `
	createPending = `least(greatest(` + now + `+coalesce(t.after, 0), t.at), ` + now + `+t.timeout)`
	createMore    = `, coalesce(t.ordinal, 0), coalesce(t.on_close, 0)::smallint, t.grp, coalesce(t.reuse, 0)::smallint, t.digest, `
	createFrom    = ` FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::bigint[],
		$11::bigint[], $12::bytea[], $13::bytea[], $14::bigint[], $15::bigint[], $16::text[], $19::bigint[], $20::bytea[]`
	createNames = `t(id, workflow, queue, priority, external_id, suffix, after, at, timeout, input, meta, ordinal, on_close, grp, reuse, digest`
	createEnd   = ` ON CONFLICT DO NOTHING` + createGives
	// createFresh makes all of the runs, or none if one of their ids exists.
	createFresh = ` WHERE NOT EXISTS (SELECT 1 FROM unnest($3::uuid[]) i(id) CROSS JOIN LATERAL (SELECT 1 FROM pawl.runs x WHERE x.id = i.id OFFSET 0) x)`
	createGives = ` RETURNING id, queue, leased, worker, created_at`

	createRuns = createInto + `) ` + createValues + createPending + createMore + `1` + createFrom + `) ` + createNames + `)` + createEnd
	// createEager also takes the leases that are asked for, unless the lane is
	// paused. OFFSET keeps the question from being asked once for each column.
	createEager = createInto + `, epoch, leased, worker, started_at) ` + createValues +
		`CASE WHEN e.eager THEN ` + now + `+coalesce(t.lease, $24::bigint) ELSE ` + createPending + ` END` + createMore + `CASE WHEN e.eager THEN 2 ELSE 1 END,
		CASE WHEN e.eager THEN 1 ELSE 0 END, e.eager, CASE WHEN e.eager THEN coalesce(t.worker, $23::text) END, CASE WHEN e.eager THEN ` + now + ` END` +
		createFrom + `, $21::text[], $22::bigint[]) ` + createNames + `, worker, lease)
		CROSS JOIN LATERAL (SELECT coalesce(t.worker, $23::text) <> '' AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace = $2::text
			AND (p.queue = coalesce(t.queue, $18::text) AND p.workflow = '' OR p.queue = '' AND p.workflow = coalesce(t.workflow, $17::text))) AS eager OFFSET 0) e` + createEnd

	// createMet is what stood in the way: the run of that id itself, or the one that
	// holds the external id.
	createMet = `SELECT t.place, r.id, r.namespace, r.epoch, CASE WHEN r.leased THEN r.worker END, r.created_at, r.workflow, r.digest
		FROM unnest($2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY t(id, external_id, suffix, place)
		CROSS JOIN LATERAL (
			SELECT 0 AS rank, x.id, x.namespace, x.epoch, x.worker, x.leased, x.created_at, x.workflow, x.digest FROM pawl.runs x WHERE x.id = t.id
			UNION ALL
			SELECT 1, x.id, x.namespace, x.epoch, x.worker, x.leased, x.created_at, x.workflow, x.digest FROM pawl.runs x
			WHERE x.namespace = $1::text AND x.external_id = nullif(t.external_id, '') AND x.suffix = t.suffix
				AND x.external_id IS NOT NULL AND (x.status < 6 OR x.reuse = 1)
			ORDER BY 1 LIMIT 1) r`
)

// createTries bounds how often a run is sent again that met another one, which was
// final when it was looked at.
const createTries = 10

// Create implements store.Runs.
func (s *Store) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := checkCall("runs", p.Runs, (*store.NewRun).Size); err != nil {
		return nil, err
	}
	results := make([]store.CreateResult, len(p.Runs))
	var open []int // into p.Runs: those without a result
	var lanes []lane
	for i := range p.Runs {
		if results[i].Err = p.Runs[i].Validate(s.config.limits); results[i].Err == nil {
			open = append(open, i)
			if l := laneOf(&p.Runs[i]); len(lanes) == 0 || lanes[len(lanes)-1] != l {
				lanes = append(lanes, l)
			}
		}
	}
	if len(open) == 0 {
		return results, ctx.Err()
	}
	if err := s.ensureLanes(ctx, p.Namespace, lanes); err != nil {
		return nil, err
	}
	// Concurrent batches lock external ids in one order.
	slices.SortStableFunc(open, func(a, b int) int {
		x, y := &p.Runs[a], &p.Runs[b]
		return cmp.Or(cmp.Compare(x.ExternalID, y.ExternalID), cmp.Compare(x.Suffix, y.Suffix))
	})
	h := newHints(p.Namespace)
	wrote := false
	for range createTries {
		made, err := s.insertRuns(ctx, &p, open)
		if err != nil {
			h.send(ctx, s)
			return nil, inPart(ctx, wrote, err)
		}
		wrote = wrote || len(made) > 0
		open = slices.DeleteFunc(open, func(i int) bool {
			r := &p.Runs[i]
			m, ok := made[r.ID]
			if !ok {
				return false
			}
			delete(made, r.ID) // one that is in the call twice has met itself
			results[i] = store.CreateResult{ID: r.ID, Created: true}
			if m.leased && m.worker == r.Worker {
				results[i].Lease, results[i].CreatedAt = store.Lease{Run: r.ID, Worker: r.Worker, Epoch: 1}, m.at
			}
			if !m.leased {
				h.queue(m.queue)
			}
			return true
		})
		if len(open) > 0 {
			if open, err = s.meet(ctx, &p, open, results); err != nil {
				h.send(ctx, s)
				return nil, inPart(ctx, wrote, err)
			}
		}
		if len(open) == 0 {
			h.send(ctx, s)
			return results, nil
		}
	}
	h.send(ctx, s)
	return nil, fmt.Errorf("postgres: runs of external id %q come and go too fast: %w", p.Runs[open[0]].ExternalID, store.ErrOutcomeUnknown)
}

// digest is a digest as it is stored; an empty one is NULL.
func digest(d []byte) []byte {
	if len(d) == 0 {
		return nil
	}
	return d
}

// madeRun is a run that an insert made.
type madeRun struct {
	queue, worker string
	leased        bool
	at            time.Time
}

// insertRuns sends those runs by one statement.
func (s *Store) insertRuns(ctx context.Context, p *store.CreateParams, which []int) (map[store.ID]madeRun, error) {
	n, first := len(which), &p.Runs[which[0]]
	at := func(k int) *store.NewRun { return &p.Runs[which[k]] }
	ids := make([]pgtype.UUID, n)
	eager, named := false, false
	own := make(map[store.ID]struct{}, n)
	for k := range ids {
		r := at(k)
		ids[k] = uuid(r.ID)
		eager, named = eager || r.Worker != "", named || r.ExternalID != ""
		own[r.ID] = struct{}{}
	}
	query, args := createRuns, []any{
		setNow(p.Now), p.Namespace, ids,
		column(n, first.Workflow, func(k int) string { return at(k).Workflow }),
		column(n, first.Queue, func(k int) string { return at(k).Queue }),
		column(n, 0, func(k int) int64 { return int64(at(k).Priority) }),
		column(n, nil, func(k int) *string { return text(at(k).ExternalID) }),
		column(n, "", func(k int) string { return at(k).Suffix }),
		column(n, 0, func(k int) int64 { return span(at(k).After) }),
		column(n, nil, func(k int) *int64 { return micros(at(k).At) }),
		column(n, nil, func(k int) *int64 {
			if at(k).Timeout == 0 {
				return nil
			}
			v := span(at(k).Timeout)
			return &v
		}),
		payloads(n, func(k int) []byte { return at(k).Input }),
		payloads(n, func(k int) []byte { return at(k).Meta }),
		column(n, 0, func(k int) int64 { return at(k).Ordinal }),
		column(n, 0, func(k int) int64 { return int64(at(k).OnClose) }),
		column(n, nil, func(k int) *string { return text(at(k).Group) }),
		first.Workflow, first.Queue,
		column(n, 0, func(k int) int64 { return int64(at(k).Reuse) }),
		payloads(n, func(k int) []byte { return digest(at(k).Digest) }),
	}
	if eager {
		query, args = createEager, append(args,
			column(n, first.Worker, func(k int) string { return at(k).Worker }),
			column(n, span(first.LeaseFor), func(k int) int64 { return span(at(k).LeaseFor) }), first.Worker, span(first.LeaseFor))
	}
	// The server sends the rows of an INSERT when it is complete, so those of one
	// that failed are never seen.
	made := make(map[store.ID]madeRun, n)
	insert := stmt{sql: query, args: args, rows: func(scan func(...any) error) error {
		var id store.ID
		var m madeRun
		err := scan(scanID(&id), &m.queue, &m.leased, scanText(&m.worker), scanTime(&m.at))
		made[id] = m
		return err
	}}
	if named || s.in != nil || len(own) < n {
		return made, s.write(ctx, insert)
	}
	// To be ready for a conflict costs as much again as the insert. Where only ids
	// can be in the way there is none, unless a call is repeated; to look for them
	// costs a fraction. What was made is known then, but for the leases.
	bold := insert
	var rows int64
	bold.sql, bold.affected = strings.TrimSuffix(query, createEnd)+createFresh, &rows
	if eager {
		bold.sql += createGives
	} else {
		bold.rows = nil
	}
	err := s.write(ctx, bold)
	var pg *pgconn.PgError
	switch {
	case err == nil && rows == 0, errors.As(err, &pg) && pg.Code == "23505": // the latter: made by another just now
		err = s.write(ctx, insert)
	case err == nil && !eager:
		for k := range ids {
			made[ids[k].Bytes] = madeRun{queue: at(k).Queue}
		}
	}
	return made, err
}

// meet gives results to the runs that met another one, and returns those that
// meet none any more.
func (s *Store) meet(ctx context.Context, p *store.CreateParams, which []int, results []store.CreateResult) ([]int, error) {
	ids, externals, suffixes := make([]store.ID, len(which)), make([]string, len(which)), make([]string, len(which))
	for k, i := range which {
		r := &p.Runs[i]
		ids[k], externals[k], suffixes[k] = r.ID, r.ExternalID, r.Suffix
	}
	met := make([]bool, len(which))
	err := s.read(ctx, stmt{
		sql: createMet, args: []any{p.Namespace, uuids(ids), externals, suffixes},
		rows: func(scan func(...any) error) error {
			var place, epoch int64
			var id store.ID
			var namespace, worker, workflow string
			var created time.Time
			var digest []byte
			if err := scan(&place, scanID(&id), &namespace, &epoch, scanText(&worker), scanTime(&created), &workflow, &digest); err != nil {
				return err
			}
			i := which[place-1]
			r, res := &p.Runs[i], &results[i]
			met[place-1] = true
			if namespace != p.Namespace {
				*res = store.CreateResult{Err: exists("run %v exists in another namespace; ids are made with NewID", id)}
				return nil
			}
			if *res = r.Meets(id, workflow, digest); res.Created && r.Worker != "" && epoch == 1 && worker == r.Worker {
				res.Lease, res.CreatedAt = store.Lease{Run: id, Worker: worker, Epoch: 1}, created
			}
			return nil
		},
	})
	var left []int
	for k, i := range which {
		if !met[k] {
			left = append(left, i)
		}
	}
	return left, err
}
