package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// counter counts what pgx sends.
type counter struct{ trips, statements atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.trips.Add(1)
	c.statements.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.trips.Add(1)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.statements.Add(1)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// watched opens Pawl on a pool that is counted and bears the schema's name.
func (s *server) watched(ctx context.Context, schema string) (*subject, *counter, func(), error) {
	c, err := pgxpool.ParseConfig(s.at("application_name", schema))
	if err != nil {
		return nil, nil, nil, err
	}
	n := &counter{}
	c.ConnConfig.Tracer = n
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	st, err := postgres.New(ctx, pool, postgres.WithSchema(schema), postgres.WithLogger(quiet))
	if err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	sub := newSubject(st)
	return sub, n, func() { sub.close(); pool.Close() }, nil
}

// rate counts for a while and adds what is sent in a minute.
func (b *bench) perMinute(ctx context.Context, name string, n *counter) error {
	if err := rest(ctx, b.idleFor/10); err != nil { // what comes first is over
		return err
	}
	trips, statements, from := n.trips.Load(), n.statements.Load(), time.Now()
	if err := rest(ctx, b.idleFor); err != nil {
		return err
	}
	minutes := time.Since(from).Minutes()
	b.add(name+": round trips", "/min", float64(n.trips.Load()-trips)/minutes)
	b.add(name+": statements", "/min", float64(n.statements.Load()-statements)/minutes)
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// idleCost watches idle workers.
func (b *bench) idleCost(ctx context.Context, srv *server) error {
	for _, n := range []int{1, 50} {
		if err := func() error {
			schema, drop := srv.schema()
			defer drop()
			s, count, end, err := srv.watched(ctx, schema)
			if err != nil {
				return err
			}
			defer end()
			defs := idlers(n)
			if err := s.work(ctx, 100, defs...); err != nil {
				return err
			}
			if err := rest(ctx, b.settle); err != nil {
				return err
			}
			return b.perMinute(ctx, fmt.Sprintf("idle worker of %d workflows", n), count)
		}(); err != nil {
			return err
		}
	}
	return nil
}

// idlers are workflows that nobody starts.
func idlers(n int) (defs []workflow.Definition) {
	for i := range n {
		defs = append(defs, workflow.New(fmt.Sprint("idle", i), func(_ workflow.Context, in int) (int, error) { return in, nil }))
	}
	return defs
}

// atRest watches what an idle worker of many workflows costs: what the backend counts, and
// what this process has written to disks.
func (b *bench) atRest(ctx context.Context, at *site) error {
	return b.within(ctx, at, func(_ string, s *subject) error {
		if err := s.work(ctx, 100, idlers(50)...); err != nil {
			return err
		}
		if err := rest(ctx, b.settle); err != nil {
			return err
		}
		before, err := used(s.st)
		if err != nil {
			return err
		}
		from := time.Now()
		if err := rest(ctx, b.idleFor); err != nil {
			return err
		}
		after, err := used(s.st)
		if err != nil {
			return err
		}
		minutes := time.Since(from).Minutes()
		for i, c := range after {
			b.add("idle worker of 50 workflows: "+strings.ReplaceAll(c.Name, "_", " "), "/min", float64(c.Value-before[i].Value)/minutes)
		}
		return nil
	})
}

// used is what the backend counts, and this process.
func used(st store.Store) ([]store.Count, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return nil, err
	}
	list := []store.Count{
		{Name: "microseconds of the processor", Value: (r.Utime.Nano() + r.Stime.Nano()) / 1000},
		{Name: "blocks written to disk", Value: r.Oublock},
	}
	if c, ok := st.(store.Counter); ok {
		list = append(list, c.Counts()...)
	}
	return list, nil
}

// waiting watches handles that wait, then has their runs done by another process.
func (b *bench) waiting(ctx context.Context, srv *server) error {
	schema, drop := srv.schema()
	defer drop()
	s, count, end, err := srv.watched(ctx, schema)
	if err != nil {
		return err
	}
	defer end()
	handles, err := far.StartMany(ctx, s.eng, make([]workflow.Each[int], b.handles))
	if err != nil {
		return err
	}
	results := make(chan error, len(handles))
	for _, h := range handles {
		go func() {
			_, err := h.Result(ctx)
			results <- err
		}()
	}
	name := fmt.Sprintf("%d waiting handles", b.handles)
	if err := b.perMinute(ctx, name, count); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, srv.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var conns, busy int
	if err := conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state<>'idle' OR query LIKE 'LISTEN%') FROM pg_stat_activity WHERE application_name=$1`,
		schema).Scan(&conns, &busy); err != nil {
		return err
	}
	b.add(name+": connections of the process (pool and listener)", "", float64(conns))
	b.add(name+": of these listening or busy", "", float64(busy))
	statements, from := count.statements.Load(), time.Now()
	stop, err := startWorker(srv.url + " " + schema)
	if err != nil {
		return err
	}
	defer stop()
	for range handles {
		if err := <-results; err != nil {
			return err
		}
	}
	b.add(name+": all results seen after the worker of another process started", "s", time.Since(from).Seconds())
	b.add(name+": statements until then", "", float64(count.statements.Load()-statements))
	return nil
}
