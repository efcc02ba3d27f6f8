package turso

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/store"
)

// Append implements store.Streamer.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	if n := p.Size(); len(p.Items) > 1 && n > callBytes {
		return store.AppendResult{}, &store.TooLargeError{Field: "the items of an append", Size: n, Limit: callBytes}
	}
	return s.core.Append(ctx, p)
}

// ReadStream implements store.Streamer. What the server answers to one request is limited.
func (s *Store) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	if p.MaxBytes > 0 {
		p.MaxBytes = atMost(p.MaxBytes)
	}
	for {
		page, err := s.core.ReadStream(ctx, p)
		if !errors.Is(err, errTooMuch) || !fewer(&p.Limit) {
			return page, err
		}
	}
}
