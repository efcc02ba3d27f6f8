package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/examples/reindex/search"
	"github.com/pawlhq/pawl/examples/reindex/source"
)

// readers query through the alias all the time and check what they get. They know
// nothing of indices and switches.
type readers struct {
	indices *search.Catalog
	least   uint64       // documents that a whole index has, whenever it is looked at
	wrong   func(string) // is told of every wrong answer

	queries atomic.Int64
}

// run queries until ctx ends.
func (r *readers) run(ctx context.Context) {
	for ctx.Err() == nil {
		if said := r.query(ctx); said != "" && ctx.Err() == nil {
			r.wrong(said)
		}
		r.queries.Add(3)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// query says what is wrong with the answers to three queries; nothing: empty.
func (r *readers) query(ctx context.Context) string {
	count, err := r.indices.Count(ctx)
	if err != nil {
		return fmt.Sprint("no index: ", err)
	}
	if count < r.least {
		return fmt.Sprintf("an index of %d documents, expected %d at least", count, r.least)
	}
	id := source.ID(rand.IntN(source.Pinned))
	if has, err := r.indices.Has(ctx, id); err != nil || !has {
		return fmt.Sprintf("%s is not found: %v", id, err)
	}
	word := source.Words[rand.IntN(len(source.Words))]
	if found, err := r.indices.Match(ctx, word); err != nil || found == 0 {
		return fmt.Sprintf("no document has the word %s: %v", word, err)
	}
	return ""
}
