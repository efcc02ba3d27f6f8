package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/bench/peers"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// far is done by another process, and gives the time of its first line.
var far = workflow.New("far", func(workflow.Context, int) (int64, error) { return time.Now().UnixNano(), nil })

// envWorker makes this program such a process: the URL of a PostgreSQL server and a schema,
// the URL of a libSQL database and the address of its server, or the path of a SQLite file.
const envWorker = "PAWL_BENCH_WORKER"

// isWorker says that this process was to be one, and has been it.
func isWorker() bool {
	where, ok := os.LookupEnv(envWorker)
	if !ok {
		return peers.IsWorker()
	}
	if err := beWorker(where); err != nil {
		fmt.Fprintln(os.Stderr, "bench: worker:", err)
		os.Exit(1)
	}
	return true
}

func beWorker(where string) error {
	var st store.Store
	var err error
	url, rest, both := strings.Cut(where, " ")
	switch {
	case both && strings.HasPrefix(url, "postgres"):
		st, err = postgres.Open(context.Background(), url, postgres.WithSchema(rest), postgres.WithLogger(quiet))
	case both && strings.HasPrefix(url, "http"):
		st, err = openSqld(context.Background(), url, rest)
	default:
		st, err = sqlite.Open(context.Background(), where)
	}
	if err != nil {
		return err
	}
	var counts *counting
	slots := 200
	if _, ok := os.LookupEnv(envReport); ok {
		counts = &counting{Store: st.(*postgres.Store)}
		st, slots = counts, 100
		time.AfterFunc(time.Second, counts.atRest)
	}
	s := newSubject(st)
	defer s.close()
	_, fully := os.LookupEnv(envFull)
	if fully {
		err = s.workFull(context.Background())
	} else {
		err = s.work(context.Background(), slots, far, threeStep)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the other process ends it, or ends
	if err == nil && counts != nil {
		err = counts.report()
	}
	if err == nil && fully {
		var kB int
		if kB, err = mostMemory(); err == nil {
			fmt.Println(kB)
		}
	}
	return err
}

// startWorker starts this program as a worker where the site says.
func startWorker(where string) (stop func(), err error) { return startWorkerOf(where, nil) }

// between samples how long a start takes to reach an idle worker in another
// process, and its result to come back.
func (b *bench) between(ctx context.Context, srv *server) error {
	schema, drop := srv.schema()
	defer drop()
	st, err := srv.open(ctx, schema, 4)
	if err != nil {
		return err
	}
	s := newSubject(st)
	defer s.close()
	stop, err := startWorker(srv.url + " " + schema)
	if err != nil {
		return err
	}
	defer stop()
	var there, back []time.Duration
	for i := range b.samples + 10 {
		if err := rest(ctx, 20*time.Millisecond); err != nil { // idle again
			return err
		}
		from := time.Now()
		h, err := far.Start(ctx, s.eng, i)
		if err != nil {
			return err
		}
		at, err := h.Result(ctx)
		if err != nil {
			return err
		}
		if i >= 10 {
			back = append(back, time.Since(from))
			there = append(there, time.Unix(0, at).Sub(from))
		}
	}
	b.latencies("Pawl", "start called to handler's first line in another process", there)
	b.latencies("Pawl", "start called to result seen, from another process", back)
	return nil
}
