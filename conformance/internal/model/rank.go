package model

import (
	"cmp"
	"context"

	"github.com/pawlhq/pawl/store"
)

var _ store.Ranker = (*Store)(nil)

// Ahead implements [store.Ranker].
func (s *Store) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return 0, notFound(p.Run)
	}
	now, n := clock(p.Now), 0
	due := func(r *run) bool {
		return r.Status != store.Paused && !r.VisibleAt.IsZero() && !r.VisibleAt.After(now)
	}
	if !due(r) {
		return 0, nil
	}
	for _, o := range s.live {
		if o.Pin != nil && o.PinnedTo() != r.PinnedTo() {
			continue // no claim that takes r meets it
		}
		if o.Namespace == r.Namespace && o.Queue == r.Queue && o.Workflow == r.Workflow && due(o) && before(o, r) < 0 {
			n++
		}
	}
	return min(n, store.MaxAhead+1), nil
}

// before compares runs in the order of P7.
func before(a, b *run) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.VisibleAt.Compare(b.VisibleAt), compareIDs(a.ID, b.ID))
}
