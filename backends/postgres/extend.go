package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// The locks are taken in the order of the arrays, which is that of the ids.
const extendLeases = `UPDATE pawl.runs r SET visible_at=` + now + `+$2::bigint
	FROM unnest($3::text[]::uuid[], $4::bigint[]) l(id, epoch)
	WHERE r.id = ANY(ARRAY[l.id]) AND r.namespace=$5::text AND r.worker=$6::text AND r.epoch=l.epoch AND r.leased
	RETURNING r.id, r.epoch, r.status=5, r.pausing, r.events`

// Extend implements store.Leases.
func (s *Store) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	states := make([]store.LeaseState, len(p.Leases))
	places := map[store.Lease][]int{}
	var list []store.Lease
	for i, l := range p.Leases {
		states[i].Lost = true
		if l.Worker == p.Worker {
			if places[l] == nil {
				list = append(list, l)
			}
			places[l] = append(places[l], i)
		}
	}
	slices.SortFunc(list, func(a, b store.Lease) int {
		return cmp.Or(slices.Compare(a.Run[:], b.Run[:]), cmp.Compare(a.Epoch, b.Epoch))
	})
	ids, epochs := make([]string, len(list)), make([]int64, len(list))
	for i, l := range list {
		ids[i], epochs[i] = l.Run.String(), l.Epoch
	}
	at := setNow(p.Now)
	err := s.write(ctx, stmt{
		sql: extendLeases, args: []any{at, span(p.LeaseFor), ids, epochs, p.Namespace, p.Worker},
		rows: func(scan func(...any) error) error {
			l := store.Lease{Worker: p.Worker}
			var state store.LeaseState
			err := scan(scanID(&l.Run), &l.Epoch, &state.Canceling, &state.Pausing, &state.Events)
			for _, i := range places[l] {
				states[i] = state
			}
			return err
		},
	}, stmt{
		sql:  `UPDATE pawl.workers SET seen_at=` + now + ` WHERE namespace=$2::text AND id=$3::text`,
		args: []any{at, p.Namespace, p.Worker},
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}
