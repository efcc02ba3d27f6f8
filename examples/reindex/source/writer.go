package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Pinned is how many documents are written again and again, but never deleted:
// whoever searches for one has to find it.
const Pinned = 10

// ID is the id of the n-th document.
func ID(n int) string { return fmt.Sprintf("doc-%07d", n) }

// Load fills an empty source with n documents. It does nothing when there are any.
func (s *Source) Load(ctx context.Context, n int) error {
	return s.Write(ctx, func(tx *Tx) error {
		var filled bool
		if err := tx.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM changes)`).Scan(&filled); err != nil || filled {
			return err
		}
		random := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			if _, err := tx.Put(ctx, ID(i), title(random), body(random)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Writer changes documents for as long as it is let: of n documents, all ids are
// written again, deleted and made anew in turn, so that some n remain.
type Writer struct {
	Source *Source
	Docs   int // how many documents there are, more or less
	Rate   int // changes in a second
	Seed   uint64
}

// Run writes until ctx ends. Its transactions hold one to five changes.
func (w Writer) Run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(w.Seed, 2))
	ids := max(w.Docs+w.Docs/4, Pinned+1)
	next := time.Now()
	for {
		size := 1 + random.IntN(5)
		err := w.Source.Write(ctx, func(tx *Tx) error {
			for range size {
				if err := w.change(ctx, tx, random, random.IntN(ids)); err != nil {
					return err
				}
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("writer: %w", err)
		}
		// It catches up with what it could not write in time.
		next = next.Add(time.Duration(size) * time.Second / time.Duration(w.Rate))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
	}
}

// change deletes a quarter of the documents that it meets, and makes all that it
// does not. With five ids for four documents, as many come as go.
func (w Writer) change(ctx context.Context, tx *Tx, random *rand.Rand, n int) error {
	has, err := tx.Has(ctx, ID(n))
	if err != nil {
		return err
	}
	if has && n >= Pinned && random.IntN(4) == 0 {
		_, err = tx.Delete(ctx, ID(n))
	} else {
		_, err = tx.Put(ctx, ID(n), title(random), body(random))
	}
	return err
}

// Words are what documents are made of. Each search for one finds some, as long as
// there are some hundred documents.
var Words = strings.Fields(`anchors baskets candles dancers engines feathers gardens hammers islands jackets kettles ladders
	markets needles oranges pencils quarries ribbons saddles tickets umbrellas valleys windows yards zebras
	building carrying drawing eating falling gathering holding jumping keeping learning moving painting reading sailing talking washing
	bright calm deep early gentle heavy kind late narrow old plain quick round sharp tall warm`)

func title(random *rand.Rand) string { return text(random, 3+random.IntN(4)) }

func body(random *rand.Rand) string { return text(random, 20+random.IntN(60)) }

func text(random *rand.Rand, words int) string {
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(Words[random.IntN(len(Words))])
	}
	return b.String()
}
