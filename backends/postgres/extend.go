package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// extendLeases: $1 now, $2 lease, $3 runs, $4 epochs, $5 namespace, $6 worker.
var extendLeases = sqlkit.Text(`UPDATE pawl.runs r SET visible_at=` + now + `+$2::bigint
	FROM unnest($3::uuid[], $4::bigint[]) AS l(id, epoch)
	WHERE r.id = ANY(ARRAY[l.id]) AND r.namespace=$5::text AND r.worker=$6::text AND r.epoch=l.epoch AND r.leased
	RETURNING r.id, r.epoch, r.status={canceling}, r.pausing, r.events`)

// seeWorker records that a worker is alive: $1 now, $2 namespace, $3 worker.
const seeWorker = `UPDATE pawl.workers SET seen_at=` + now + `, asked_at=NULL WHERE namespace=$2::text AND id=$3::text`

// Extend implements store.Leases.
func (s *Store) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	states := make([]store.LeaseState, len(p.Leases))
	var own []store.Lease
	for _, l := range p.Leases {
		if l.Worker == p.Worker {
			own = append(own, l)
		}
	}
	// All transactions that lock several runs do so in the order of their ids.
	slices.SortFunc(own, func(a, b store.Lease) int { return bytes.Compare(a.Run[:], b.Run[:]) })
	ids, epochs := make([]store.ID, len(own)), make([]int64, len(own))
	for i, l := range own {
		ids[i], epochs[i] = l.Run, l.Epoch
	}
	held := make(map[store.Lease]store.LeaseState, len(own))
	var stmts []stmt
	if len(own) > 0 {
		stmts = append(stmts, begin(func() { clear(held) }), stmt{
			sql: extendLeases, args: []any{setNow(p.Now), sqlkit.Span(p.LeaseFor), uuids(ids), epochs, p.Namespace, p.Worker},
			rows: func(scan func(...any) error) error {
				l, state := store.Lease{Worker: p.Worker}, store.LeaseState{}
				err := scan(sqlkit.ID(&l.Run), &l.Epoch, &state.Canceling, &state.Pausing, &state.Events)
				held[l] = state
				return err
			},
		})
	}
	stmts = append(stmts, stmt{
		sql:  seeWorker,
		args: []any{setNow(p.Now), p.Namespace, p.Worker},
	})
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	for i, l := range p.Leases {
		state, ok := held[l]
		state.Lost = !ok
		states[i] = state
	}
	return states, nil
}
