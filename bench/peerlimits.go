package main

import (
	"context"
	"os"

	"github.com/pawlhq/pawl/bench/peers"
)

// peers lets Pawl and other engines work under limits while their processes are killed, if it is asked for.
func (b *bench) peers(ctx context.Context, srv *server) (err error) {
	if b.only != "peers" {
		return nil
	}
	jobs := min(b.runs, 400)
	b.trials, err = peers.Compare(ctx, peers.Options{
		Jobs: jobs, Hits: max(1, jobs/50), Reps: b.reps, Wait: b.patience, Only: b.curve, Log: os.Stderr,
		Database: func(ctx context.Context) (string, func(), error) {
			db, drop, err := srv.database(ctx)
			if err != nil {
				return "", nil, err
			}
			return db.url, drop, nil
		},
	})
	return err
}
