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

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// lane is the key in which claims look, within a namespace.
type lane struct {
	queue, workflow string
	priority        int16
}

type laneKey struct {
	namespace string
	lane
}

func laneOf(r *store.NewRun) lane { return lane{r.Queue, r.Workflow, int16(r.Priority)} }

// putLanes: $1 namespace, $2 queues, $3 workflows, $4 priorities.
const putLanes = `INSERT INTO pawl.lanes (queue, workflow, priority, namespace)
	SELECT t.queue COLLATE "C", t.workflow COLLATE "C", t.priority::smallint, $1::text
	FROM unnest($2::text[], $3::text[], $4::bigint[]) t(queue, workflow, priority) ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`

// ensureLanes puts lanes into the table, where claims find them, before the first run of
// each is created. It is a separate write, so that no one waits for a lane until a larger
// transaction ends, except in the program's own transaction, if the lane is used for the
// first time and no worker has registered its workflow. Lanes that were put before the
// server was lost are put again.
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
		sql:  putLanes,
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

// healLanes puts the lanes of runs that are claimable. A database that has gone back in time may
// have lost a lane after a process put it and before a run was created in it. Each priority is one
// seek in the index of claimable runs.
var healLanes = sqlkit.Text(`WITH RECURSIVE pair AS (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) p(queue, workflow, pin)),
	level AS (
		SELECT p.queue, p.workflow, p.pin, (SELECT x.priority FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=p.queue AND x.workflow=p.workflow AND x.pin=p.pin
			AND x.visible_at IS NOT NULL AND x.status<>{paused} AND (x.flow IS NULL OR x.leased) ORDER BY x.priority DESC LIMIT 1) AS priority FROM pair p
		UNION ALL
		SELECT l.queue, l.workflow, l.pin, (SELECT x.priority FROM pawl.runs x WHERE x.namespace=$1::text AND x.queue=l.queue AND x.workflow=l.workflow AND x.pin=l.pin
			AND x.priority<l.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND (x.flow IS NULL OR x.leased) ORDER BY x.priority DESC LIMIT 1) FROM level l WHERE l.priority IS NOT NULL)
	INSERT INTO pawl.lanes (queue, workflow, priority, namespace)
	SELECT DISTINCT l.queue, l.workflow, l.priority, $1::text FROM (SELECT l.queue, l.workflow, l.priority FROM level l
			UNION ALL SELECT p.queue, p.workflow, f.priority FROM pair p CROSS JOIN LATERAL (SELECT split_part(f.lane, E'\n', 4)::smallint AS priority FROM pawl.limit_flows f
				WHERE f.namespace=$1::text AND f.lane>=p.queue || E'\n' || p.workflow || E'\n' AND f.lane<p.queue || E'\n' || p.workflow || E'\v' AND f.state=1 ORDER BY f.lane LIMIT 100) f) l WHERE l.priority IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM pawl.lanes x WHERE x.namespace=$1::text AND x.queue=l.queue AND x.workflow=l.workflow AND x.priority=l.priority)
	ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`)

// insertOne begins an insert of one run that waits for a worker; insertArgs fills its
// parameters. It is followed by a guard, if any, and ON CONFLICT DO NOTHING.
var insertOne = sqlkit.Text(`INSERT INTO pawl.runs (status, id, namespace, workflow, queue, priority, visible_at, external_id, suffix,
	created_at, deadline, input, meta, parent, grp, ordinal, on_close, under, tags, flow)
	SELECT {pending}, $2::uuid, $3::text, $4::text, $5::text, $6::smallint,
	least(greatest(` + now + `+$7::bigint, $8::bigint), ` + now + `+$9::bigint), $10::text, $11::text,
	` + now + `, ` + now + `+$9::bigint, $12::bytea, $13::bytea, $14::uuid, $15::text, $16::bigint, $17::smallint, $18::text, $19::text, ` +
	hashOf(`$3::text, $5::text, $4::text, $6::smallint`, `$18::text`, `NULL`, `false`))

// The parameters of a guard begin at $20.

// insertArgs returns the parameters of insertOne; setnow is the result of setNow.
func insertArgs(setnow any, namespace string, r *store.NewRun, parent store.ID) []any {
	var timeout *int64
	if r.Timeout > 0 {
		d := sqlkit.Span(r.Timeout)
		timeout = &d
	}
	return []any{
		setnow, uuid(r.ID), namespace, r.Workflow, r.Queue, int16(r.Priority), sqlkit.Span(r.After), micros(r.At), timeout,
		text(r.ExternalID), r.Suffix, r.Input, r.Meta, uuid(parent), text(r.Group), r.Ordinal, int16(r.OnClose), text(sqlkit.UsesText(r.Under)), text(sqlkit.TagsText(r.Tags)),
	}
}

var (
	createInto = `INSERT INTO pawl.runs (id, namespace, workflow, queue, priority, external_id, suffix, created_at, deadline,
		input, meta, visible_at, ordinal, on_close, grp, reuse, digest, under, flow, tags, status`
	// An array that is NULL stands for the default value of each row: see column.
	createValues = `SELECT t.id, $2::text, coalesce(t.workflow, $17::text), coalesce(t.queue, $18::text), coalesce(t.priority, 0)::smallint,
		t.external_id, coalesce(t.suffix, ''), ` + now + `, ` + now + `+t.timeout, t.input, t.meta, `
	createPending = `least(greatest(` + now + `+coalesce(t.after, 0), t.at), ` + now + `+t.timeout)`
	createMore    = `, coalesce(t.ordinal, 0), coalesce(t.on_close, 0)::smallint, t.grp, coalesce(t.reuse, 0)::smallint, t.digest, t.under, t.flow, t.tags, `
	createFrom    = ` FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::bigint[],
		$11::bigint[], $12::bytea[], $13::bytea[], $14::bigint[], $15::bigint[], $16::text[], $19::bigint[], $20::bytea[], $21::text[], $22::uuid[], $23::text[]`
	createNames = `t(id, workflow, queue, priority, external_id, suffix, after, at, timeout, input, meta, ordinal, on_close, grp, reuse, digest, under, flow, tags`
	createEnd   = ` ON CONFLICT DO NOTHING` + createGives
	// createFresh creates all of the runs, or none if one of their ids exists.
	createFresh = ` WHERE NOT EXISTS (SELECT 1 FROM unnest($3::uuid[]) i(id) CROSS JOIN LATERAL (SELECT 1 FROM pawl.runs x WHERE x.id = i.id OFFSET 0) x)`
	createGives = ` RETURNING id, queue, leased, worker, created_at`

	createRuns = createInto + `) ` + createValues + createPending + createMore + `1` + createFrom + `) ` + createNames + `)` + createEnd
	// createEager also takes the leases that are asked for, unless the lane is paused. OFFSET
	// prevents the subquery from being evaluated once for each column.
	createEager = sqlkit.Text(createInto + `, epoch, leased, worker, started_at, lease_build) ` + createValues +
		`CASE WHEN e.eager THEN ` + now + `+coalesce(t.lease, $27::bigint) ELSE ` + createPending + ` END` + createMore + `CASE WHEN e.eager THEN {running} ELSE {pending} END,
		CASE WHEN e.eager THEN 1 ELSE 0 END, e.eager, CASE WHEN e.eager THEN coalesce(t.worker, $26::text) END, CASE WHEN e.eager THEN ` + now + ` END,
		CASE WHEN e.eager THEN nullif(coalesce(t.build, $29::text), '') END` +
		createFrom + `, $24::text[], $25::bigint[], $28::text[]) ` + createNames + `, worker, lease, build)
		CROSS JOIN LATERAL (SELECT coalesce(t.worker, $26::text) <> '' AND t.under IS NULL AND NOT EXISTS (SELECT 1 FROM pawl.paused p WHERE p.namespace = $2::text
			AND (p.queue = coalesce(t.queue, $18::text) AND p.workflow = '' OR p.queue = '' AND p.workflow = coalesce(t.workflow, $17::text))) AS eager OFFSET 0) e` + createEnd)

	// createMet reads the run that prevented a creation: the run with that id, or the one that
	// holds the external id. Parameters: $1 namespace, $2 ids, $3 external ids, $4 suffixes.
	createMet = sqlkit.Text(`SELECT t.place, r.id, r.namespace, r.epoch, CASE WHEN r.leased THEN r.worker END, r.created_at, r.workflow, r.digest
		FROM unnest($2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY t(id, external_id, suffix, place)
		CROSS JOIN LATERAL (
			SELECT 0 AS rank, x.id, x.namespace, x.epoch, x.worker, x.leased, x.created_at, x.workflow, x.digest FROM pawl.runs x WHERE x.id = t.id
			UNION ALL
			SELECT 1, x.id, x.namespace, x.epoch, x.worker, x.leased, x.created_at, x.workflow, x.digest FROM pawl.runs x
			WHERE x.namespace = $1::text AND x.external_id = nullif(t.external_id, '') AND x.suffix = t.suffix
				AND x.external_id IS NOT NULL AND (x.status < {final} OR x.reuse = {reuseNever})
			ORDER BY 1 LIMIT 1) r`)
)

// createTries limits how often a run is sent again after it met another one that was
// final when it was read.
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
	var open []int // indexes into p.Runs of the runs without a result
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
	if err := s.ensureSpace(ctx, p.Namespace, anyUnder(p.Runs)); err != nil {
		return nil, err
	}
	keyed := &debounces{params: &p}
	open = keyed.apart(open)
	// Concurrent batches lock external ids in the same order.
	slices.SortStableFunc(open, func(a, b int) int {
		x, y := &p.Runs[a], &p.Runs[b]
		return cmp.Or(cmp.Compare(x.ExternalID, y.ExternalID), cmp.Compare(x.Suffix, y.Suffix))
	})
	h := sqlkit.NewHints(p.Namespace)
	wrote, sent := false, startSignals{to: map[int]delivery{}}
	for range createTries {
		made, err := s.insertRuns(ctx, &p, open, &sent, keyed)
		if err != nil {
			s.publishAll(h)
			return nil, inPart(ctx, wrote, err)
		}
		wrote = wrote || len(made) > 0 || len(sent.to) > 0 || len(keyed.which) > 0
		keyed.take(results, h)
		open = slices.DeleteFunc(open, func(i int) bool {
			r := &p.Runs[i]
			m, ok := made[r.ID]
			if to, reached := sent.to[i]; !ok && reached {
				results[i] = to.result(r, h)
				return true
			}
			if !ok {
				return false
			}
			delete(made, r.ID) // a run that is in the call twice conflicts with itself
			results[i] = store.CreateResult{ID: r.ID, Created: true}
			if m.leased && m.worker == r.Worker {
				results[i].Lease, results[i].CreatedAt = store.Lease{Run: r.ID, Worker: r.Worker, Epoch: 1}, m.at
			}
			if !m.leased {
				h.Queue(m.queue)
			}
			return true
		})
		if len(open) > 0 {
			if open, err = s.meetAll(ctx, &p, open, results); err != nil {
				s.publishAll(h)
				return nil, inPart(ctx, wrote, err)
			}
		}
		if len(open) == 0 {
			s.publishAll(h)
			return results, nil
		}
	}
	s.publishAll(h)
	return nil, fmt.Errorf("postgres: runs with external id %q start and end too fast: %w", p.Runs[open[0]].ExternalID, store.ErrOutcomeUnknown)
}

// digest returns a digest as it is stored; an empty one is NULL.
func digest(d []byte) []byte {
	if len(d) == 0 {
		return nil
	}
	return d
}

// madeRun is a run that an insert created.
type madeRun struct {
	queue, worker string
	leased        bool
	at            time.Time
}

// insertRuns inserts the runs with one statement, and in the same write those that have keys.
func (s *Store) insertRuns(ctx context.Context, p *store.CreateParams, which []int, sent *startSignals, keyed *debounces) (map[store.ID]madeRun, error) {
	if len(which) == 0 {
		return nil, s.write(ctx, keyed.stmts()...)
	}
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
		column(n, 0, func(k int) int64 { return sqlkit.Span(at(k).After) }),
		column(n, nil, func(k int) *int64 { return micros(at(k).At) }),
		column(n, nil, func(k int) *int64 {
			if at(k).Timeout == 0 {
				return nil
			}
			v := sqlkit.Span(at(k).Timeout)
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
		column(n, nil, func(k int) *string { return text(sqlkit.UsesText(at(k).Under)) }), flowsOf(p, which),
		column(n, nil, func(k int) *string { return text(sqlkit.TagsText(at(k).Tags)) }),
	}
	if eager {
		query, args = createEager, append(args,
			column(n, first.Worker, func(k int) string { return at(k).Worker }),
			column(n, sqlkit.Span(first.LeaseFor), func(k int) int64 { return sqlkit.Span(at(k).LeaseFor) }), first.Worker, sqlkit.Span(first.LeaseFor),
			column(n, first.Build, func(k int) string { return at(k).Build }), first.Build)
	}
	// The server sends the rows of an INSERT when it is complete, so rows of a failed one
	// are never seen.
	made := make(map[store.ID]madeRun, n)
	insert := stmt{sql: query, args: args, rows: func(scan func(...any) error) error {
		var id store.ID
		var m madeRun
		err := scan(sqlkit.ID(&id), &m.queue, &m.leased, sqlkit.TextOrNull(&m.worker), sqlkit.Time(&m.at))
		made[id] = m
		return err
	}}
	if signals(p, which) {
		return made, s.insertSignaled(ctx, p, which, insert, made, sent, keyed.stmts())
	}
	tell := anyUnder(p.Runs)
	if tell {
		insert.sql = tellingStarts(query)
	}
	if named || s.in != nil || len(own) < n {
		return made, s.write(ctx, slices.Concat([]stmt{insert}, keyed.stmts())...)
	}
	// Being ready for a conflict costs as much again as the insert. If only ids can
	// conflict, there is no conflict unless a call is repeated, and checking the ids
	// costs a fraction. What was created is then known, except for the leases.
	bold := insert
	var rows int64
	bold.sql = strings.TrimSuffix(query, createEnd) + createFresh
	if eager {
		bold.sql += createGives
	} else {
		bold.rows, bold.affected = nil, &rows
	}
	if tell {
		bold.sql = tellingStarts(bold.sql)
	}
	err := s.write(ctx, slices.Concat([]stmt{bold}, keyed.stmts())...)
	var pg *pgconn.PgError
	switch {
	case err == nil && rows == 0 && len(made) == 0:
		err = s.write(ctx, insert)
	case errors.As(err, &pg) && pg.Code == "23505": // another call has just created it
		err = s.write(ctx, slices.Concat([]stmt{insert}, keyed.stmts())...)
	case err == nil && !eager:
		for k := range ids {
			made[ids[k].Bytes] = madeRun{queue: at(k).Queue}
		}
	}
	return made, err
}

// tellingStarts makes an insert of runs leave the marks of limits: one for each flow, at its first run. The trigger, which
// takes much longer, does not fire for rows with told, but has a setting that says which mark it left last; with others
// behind that, it no longer counts.
func tellingStarts(insert string) string {
	insert, gives := strings.CutSuffix(insert, createGives)
	answer := ``
	if gives {
		answer = `id, queue, leased, worker, created_at`
	}
	return `WITH made AS (` + strings.NewReplacer(`flow, tags, status`, `flow, tags, told, status`, `t.flow, t.tags, `, `t.flow, t.tags, 0, `).Replace(insert) + `
			RETURNING id, queue, leased, worker, created_at, flow, pin, workflow, priority, under, visible_at),
		told AS MATERIALIZED (SELECT set_config('pawl_tx.flow', '', true)),
		space AS (INSERT INTO pawl.limit_spaces (namespace) SELECT $2::text WHERE NOT ` + someLimits + ` AND EXISTS (SELECT 1 FROM made m WHERE m.flow IS NOT NULL) ON CONFLICT DO NOTHING),
		marks AS (INSERT INTO pawl.limit_marks (namespace, flow, pin, queue, workflow, priority, under, taken, at, run)
			SELECT $2::text, f.flow, f.pin, f.queue, f.workflow, f.priority, f.under, false, f.visible_at, f.id
			FROM (SELECT DISTINCT ON (m.flow, m.pin) * FROM made m WHERE m.flow IS NOT NULL ORDER BY m.flow, m.pin, m.visible_at, m.id) f CROSS JOIN told
			ORDER BY f.visible_at, f.id)
		SELECT ` + answer + ` FROM made`
}

// flowsOf returns the flows of new runs; nil if none is under a limit.
func flowsOf(p *store.CreateParams, which []int) []pgtype.UUID {
	if !anyUnder(p.Runs) {
		return nil
	}
	flows := make([]pgtype.UUID, len(which))
	for k, i := range which {
		if r := &p.Runs[i]; len(r.Under) > 0 {
			flows[k] = uuid(flowID(p.Namespace, r.Queue, r.Workflow, r.Priority, sqlkit.UsesText(r.Under), "", false))
		}
	}
	return flows
}

// meet sets the results of the runs that conflict with another one, and returns those that no
// longer conflict.
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
			var place int64
			var m sqlkit.Met
			if err := scan(&place, sqlkit.ID(&m.ID), &m.Namespace, &m.Epoch, sqlkit.TextOrNull(&m.Worker), sqlkit.Time(&m.CreatedAt), &m.Workflow, &m.Digest); err != nil {
				return err
			}
			i := which[place-1]
			met[place-1], results[i] = true, m.By(p.Namespace, &p.Runs[i])
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
