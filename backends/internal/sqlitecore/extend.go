package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

const extendLease = `UPDATE runs SET visible_at=? WHERE id=? AND namespace=? AND worker=? AND epoch=? AND leased=1
	RETURNING status=5, pausing, events`

// Extend implements store.Leases.
func (c *Core) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	states := make([]store.LeaseState, len(p.Leases))
	stmts := make([]Stmt, 0, len(p.Leases)+1)
	for i := range p.Leases {
		l, s := &p.Leases[i], &states[i]
		if s.Lost = true; l.Worker != p.Worker {
			continue
		}
		stmts = append(stmts, Stmt{
			SQL: extendLease, Args: []any{m.after(p.LeaseFor), l.Run[:], p.Namespace, l.Worker, l.Epoch},
			Rows: func(scan func(...any) error) error {
				s.Lost = false
				return scan(&s.Canceling, &s.Pausing, &s.Events)
			},
		})
	}
	stmts = append(stmts, Stmt{
		SQL:  `UPDATE workers SET seen_at=?, asked_at=NULL WHERE namespace=? AND id=?`,
		Args: []any{m.now, p.Namespace, p.Worker},
	})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
	}
	return states, nil
}
