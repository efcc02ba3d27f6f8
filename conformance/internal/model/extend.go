package model

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	if w := s.workers[name{p.Namespace, p.Worker}]; w != nil {
		w.SeenAt, w.AskedAt = now, time.Time{}
	}
	out := make([]store.LeaseState, len(p.Leases))
	for i, l := range p.Leases {
		r := s.find(p.Namespace, l.Run)
		if r == nil || !r.leased() || r.Epoch != l.Epoch || r.Worker != l.Worker || r.Worker != p.Worker {
			out[i].Lost = true
			continue
		}
		r.VisibleAt = after(now, p.LeaseFor)
		out[i] = store.LeaseState{Canceling: r.Status == store.Canceling, Pausing: r.Pausing, Events: r.Events}
	}
	return out, nil
}
