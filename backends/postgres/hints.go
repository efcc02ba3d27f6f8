package postgres

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// Hints implements store.Hinter. From the first call on, one connection of the process listens.
// Behind a pooler, without a listen URL, only hints of this process are received.
func (s *Store) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.relay.listen(ctx, topics); err != nil {
		return nil, err
	}
	return s.hub.Subscribe(ctx, topics...)
}

// publishAll publishes the hints of a write.
func (s *Store) publishAll(h *sqlkit.Hints) {
	if len(h.List) > 0 {
		s.publish(h.List...)
	}
}

// publish publishes the hints of a write soon, or once the transaction that the store is in has
// committed.
func (s *Store) publish(hints ...sqlkit.Hint) {
	switch {
	case s.in == nil:
		s.relay.publish(hints...)
	case s.later != nil:
		*s.later = append(*s.later, hints...)
	default:
		s.relay.await(s.number, hints)
	}
}

// tell passes hints on in this process. The next claim then does not look first whether
// work is due.
func (b *base) tell(hints ...store.Hint) {
	for i := range hints {
		if k := hints[i].Kind; k == store.HintQueue || k == store.HintRescan {
			b.stirred.Add(1)
			break
		}
	}
	b.hub.Publish(hints...)
}

// pause waits for d, or until the context is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
