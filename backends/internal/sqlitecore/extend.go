package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// extendLease: end of the lease, run, namespace, worker, epoch.
var extendLease = sqlkit.Text(`UPDATE runs SET visible_at=? WHERE id=? AND namespace=? AND worker=? AND epoch=? AND leased=1
	RETURNING status={canceling}, pausing, events`)

// seeWorker records a sign of life: now, namespace, worker.
const seeWorker = `UPDATE workers SET seen_at=?, asked_at=NULL WHERE namespace=? AND id=?`

// Extend implements store.Leases.
func (c *Core) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	m, err := c.validAt(ctx, p.Validate(), p.Now)
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
		SQL:  seeWorker,
		Args: []any{m.now, p.Namespace, p.Worker},
	})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
	}
	return states, nil
}
