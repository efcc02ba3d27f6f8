package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/store"
)

// PutSubscription implements store.Outboxer. The first subscription of a schema creates triggers on the table of runs.
// That statement waits for the transactions that write runs, and all other writes wait behind it, so it gives up
// soon and is tried again, for five minutes at most, as a migration is. The context may end that sooner.
func (s *Store) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	start, pause := time.Now(), newPauses()
	for try := 1; ; try++ {
		sub, err := s.verbs.PutSubscription(ctx, p)
		var pg *pgconn.PgError
		if s.in != nil || !errors.As(err, &pg) || pg.Code != codeLockNotAvailable {
			return sub, err
		}
		if waited := time.Since(start); waited > s.config.patience {
			return sub, fmt.Errorf("postgres: the first subscription of schema %s creates triggers and could not lock the table of runs within %v%s: %w",
				s.config.schema, waited.Round(time.Second), describe(ctx, s.pool, lockHolder, s.config.schema), store.ErrUnavailable)
		}
		if try == 1 {
			s.config.logger.InfoContext(ctx, "pawl: the first subscription waits for transactions that write runs; it is tried again", "schema", s.config.schema, "subscription", p.Subscription.Name)
		}
		if err := pause.next(ctx, err); err != nil {
			return sub, err
		}
	}
}
