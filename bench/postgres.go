package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/store"
)

// postgres measures Pawl on PostgreSQL.
func (b *bench) postgres(ctx context.Context) error {
	srv, err := startServer(b.url)
	if err != nil {
		return err
	}
	defer srv.stop()
	conn, err := pgx.Connect(ctx, srv.url)
	if err != nil {
		return err
	}
	b.version = conn.PgConn().ParameterStatus("server_version")
	if err := conn.Close(ctx); err != nil {
		return err
	}
	at := site{
		place: func() (string, func(), error) {
			schema, drop := srv.schema()
			return schema, drop, nil
		},
		where: func(schema string) string { return srv.url + " " + schema },
		limit: srv.openLimit,
		store: func(ctx context.Context, schema string) (store.Store, error) { return srv.open(ctx, schema, 8) },
		river: srv.openPeer,
		fill: func(ctx context.Context, schema string, from, n int) error {
			return srv.exec(ctx, in(schema, fmt.Sprintf(finished, from+1, from+n)))
		},
		raw: func(ctx context.Context, schema, sql string) error { return srv.exec(ctx, in(schema, sql)) },
		wal: func(ctx context.Context) (n int64, err error) {
			conn, err := pgx.Connect(ctx, srv.url)
			if err != nil {
				return 0, err
			}
			defer conn.Close(ctx)
			err = conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn()-'0/0')::bigint`).Scan(&n)
			return n, err
		},
	}
	limits := func(ctx context.Context, _ *server) error {
		for range b.reps {
			if err := b.limited(ctx, &at); err != nil {
				return err
			}
		}
		return nil
	}
	parts := []struct {
		name string
		do   func(context.Context, *server) error
	}{
		{"throughput", func(ctx context.Context, _ *server) error {
			for range b.reps {
				if err := b.throughput(ctx, &at); err != nil {
					return err
				}
			}
			return nil
		}},
		{"latency", func(ctx context.Context, srv *server) error {
			for range b.reps {
				if err := b.idle(ctx, &at); err != nil {
					return err
				}
				if err := b.between(ctx, srv); err != nil {
					return err
				}
			}
			return nil
		}},
		{"limits", limits},
		{"fairness", limits},
		{"peers", b.peers},
		{"claim", b.claims},
		{"idle", b.idleCost},
		{"handles", b.waiting},
		{"layout", b.layouts},
		{"churn", b.churn},
		{"processes", b.processes},
		{"transactions", b.inTx},
		{"memory", func(ctx context.Context, _ *server) error { return b.memory(ctx, &at) }},
		{"generator", func(ctx context.Context, _ *server) error { return b.generators(ctx, &at) }},
		{"seen", func(ctx context.Context, _ *server) error { return b.seen(ctx, &at) }},
		{"answers", func(ctx context.Context, _ *server) error { return b.answers(ctx, &at) }},
		{"progress", func(ctx context.Context, _ *server) error { return b.progress(ctx, &at) }},
		{"tags", func(ctx context.Context, _ *server) error { return b.tags(ctx, &at) }},
		{"lists", func(ctx context.Context, _ *server) error { return b.lists(ctx, &at) }},
		{"scale", func(ctx context.Context, _ *server) error {
			for range b.reps {
				if err := b.scaling(ctx, &at); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	// What names no part names phases of the throughput.
	named := slices.ContainsFunc(parts, func(p struct {
		name string
		do   func(context.Context, *server) error
	}) bool {
		return p.name == b.only
	})
	for i, p := range parts {
		if named && p.name != b.only || !named && b.only != "" && i > 0 {
			continue
		}
		fmt.Fprintln(os.Stderr, p.name)
		if err := p.do(ctx, srv); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// splitSQL makes statements of a text, to be run one at a time.
func splitSQL(text string) []string { return strings.Split(text, ";\n") }
