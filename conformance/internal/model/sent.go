package model

import (
	"bytes"
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

var _ store.Exporter = (*Store)(nil)

// Sent implements [store.Exporter].
func (s *Store) Sent(ctx context.Context, p store.SentParams) (store.SentPage, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.SentPage{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return store.SentPage{}, notFound(p.Run)
	}
	limit, _ := store.Page(p.Limit)
	var out []store.SentSignal
	for i, id := range r.sent {
		if int64(i+1) <= p.After || len(out) == limit {
			continue
		}
		sent := store.SentSignal{Signal: store.Signal{ID: id}, Consumed: true, Given: r.given(id)}
		if at := slices.IndexFunc(r.signals, func(sig store.Signal) bool { return sig.ID == id }); at >= 0 {
			sent.Signal, sent.Consumed = r.signals[at], false
			sent.Payload = bytes.Clone(sent.Payload)
		}
		sent.Position = int64(i + 1)
		out = append(out, sent)
	}
	return p.PageOf(out), nil
}
