// Reindex builds a search index anew while it is in use. A writer changes the
// documents all the time and readers search all the time; the readers go from the
// old index to the new one at one moment and notice nothing but that the new one
// knows word forms. It prints what it does, and at the end whether the new index
// equals the source, document by document.
//
//	cd examples/reindex
//	go run . -docs 50000
//
// Kill it at any moment and run it again: it goes on where it was. Run it with
// -serve, so that it goes on serving, to take part from another terminal:
//
//	go run . -rollback         puts the readers back to the index before
//	go run . -drop docs-1      removes an index that the readers do not use
//	go run . -write -rate 500  writes more
//
// -db takes the URL of any backend for the workflow's own records.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/reindex/search"
	"github.com/pawlhq/pawl/examples/reindex/source"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "stopped; run it again to go on")
		} else {
			fmt.Fprintln(os.Stderr, "reindex:", err)
		}
		os.Exit(1)
	}
}

// program is what the flags say.
type program struct {
	dir, db        string
	docs, rate     int
	plan           Plan
	lease, every   time.Duration
	serve, noWrite bool
	out            io.Writer
}

func run(ctx context.Context, out io.Writer, args []string) error {
	p := program{out: out}
	flags := flag.NewFlagSet("reindex", flag.ContinueOnError)
	flags.StringVar(&p.dir, "dir", "reindex-data", "the `directory` of source and indices")
	flags.StringVar(&p.db, "db", "", "the `URL` of the workflow's records; default: a SQLite file in the directory")
	flags.IntVar(&p.docs, "docs", 50_000, "how many documents there are")
	flags.IntVar(&p.rate, "rate", 200, "how many changes the writer makes in a second")
	flags.StringVar(&p.plan.To, "to", "", "the new index's name; default: the next number")
	flags.StringVar(&p.plan.Analyzer, "analyzer", "en", "how the new index reads words: en or standard")
	flags.IntVar(&p.plan.Batch, "batch", 500, "documents, or changes, that are indexed at a time")
	flags.DurationVar(&p.lease, "lease", 2*time.Second, "how long a killed process's run waits for the next")
	flags.DurationVar(&p.every, "progress", time.Second, "how often progress is printed")
	flags.BoolVar(&p.serve, "serve", false, "go on serving behind the reindex")
	flags.BoolVar(&p.noWrite, "no-writer", false, "leave writing to other processes")
	write := flags.Bool("write", false, "do nothing but write")
	rollback := flags.Bool("rollback", false, "ask the serving process to go back to the index before")
	drop := flags.String("drop", "", "ask the serving process to remove an index, by its `name`, that readers do not use")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.docs < 200 || p.rate < 1 || p.plan.Batch < 1 {
		return errors.New("-docs must be 200 at least, -rate and -batch 1")
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	if p.db == "" {
		p.db = "sqlite:" + filepath.Join(p.dir, "pawl.db")
	}
	switch {
	case *write:
		return p.write(ctx)
	case *rollback:
		return ask(ctx, p, (*indexer)(nil).rollback(), struct{}{})
	case *drop != "":
		return ask(ctx, p, (*indexer)(nil).drop(), *drop)
	}
	return p.reindex(ctx)
}

func (p *program) openSource(ctx context.Context) (*source.Source, error) {
	src, err := source.Open(ctx, filepath.Join(p.dir, "source.db"))
	if err != nil {
		return nil, err
	}
	if err := src.Load(ctx, p.docs); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return src, nil
}

func (p *program) writer(src *source.Source) source.Writer {
	return source.Writer{Source: src, Docs: p.docs, Rate: p.rate, Seed: uint64(time.Now().UnixNano())}
}

// write is a process that only writes.
func (p *program) write(ctx context.Context) error {
	src, err := p.openSource(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	fmt.Fprintln(p.out, "writing")
	return p.writer(src).Run(ctx)
}

func (p *program) openEngine(ctx context.Context) (store.Store, *engine.Engine, error) {
	st, err := backends.Open(ctx, p.db)
	if err != nil {
		return nil, nil, err
	}
	return st, engine.New(st, engine.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))), nil
}

// ask starts a run that the serving process does.
func ask[In, Out any](ctx context.Context, p program, w *workflow.Workflow[In, Out], in In) error {
	st, eng, err := p.openEngine(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	defer eng.Close()
	// Who asks twice at the same time asks once.
	h, err := w.Start(ctx, eng, in, engine.ExternalID(w.Name(), engine.WhileActive), engine.AnyInput())
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out, "asked; waiting for the process that serves")
	out, err := h.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s: %+v\n", w.Name(), out)
	return nil
}

// reindex is the process that serves readers, keeps the indices fresh, and works on
// the reindex.
func (p *program) reindex(ctx context.Context) error {
	src, err := p.openSource(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	indices, err := search.Open(filepath.Join(p.dir, "indices"))
	if err != nil {
		return err
	}
	defer indices.Close()
	st, eng, err := p.openEngine(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	defer eng.Close()

	// All that runs beside; what ends with an error ends the others.
	ctx, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop(nil)
	goes := func(what string, f func(ctx context.Context) error) {
		beside.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	if !p.noWrite {
		goes("writer", p.writer(src).Run)
	}
	if indices.Alias().Target == "" {
		fmt.Fprintln(p.out, "building the first index, docs-1")
		if err := p.first(ctx, src, indices); err != nil {
			return cause(ctx, err)
		}
	}
	stale := &staleness{}
	goes("follower", func(ctx context.Context) error { return indices.Follow(ctx, src, stale.seen) })
	search := &readers{indices: indices, least: uint64(p.docs) * 3 / 4, wrong: func(said string) {
		fmt.Fprintln(p.out, "WRONG:", said)
		stop(errors.New("a reader got a wrong answer: " + said))
	}}
	for range 2 {
		goes("reader", func(ctx context.Context) error { search.run(ctx); return nil })
	}

	s := &indexer{src, indices}
	flow := s.reindex()
	w := worker.New(eng, worker.Lease(p.lease), worker.Grace(5*time.Second))
	if err := w.Register(flow, s.rollback(), s.drop()); err != nil {
		return err
	}
	goes("worker", w.Run)

	h, err := p.startReindex(ctx, eng, flow, indices)
	if err != nil {
		return cause(ctx, err)
	}
	begun := time.Now()
	goes("progress", func(ctx context.Context) error { return p.report(ctx, eng, h.ID(), src, indices, search) })
	v, err := h.Result(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	fmt.Fprintf(p.out, "verified after %v: %v\n", time.Since(begun).Round(time.Millisecond), v)
	if p.serve {
		<-ctx.Done()
		err = cause(ctx, nil)
	}
	fmt.Fprintf(p.out, "%d queries, none of them saw an index that was empty, incomplete or missing; changes were visible after %v at most\n",
		search.queries.Load(), stale.most().Round(time.Millisecond))
	return err
}

// startReindex starts the reindex, or returns the one that is active. Its name distinguishes it from
// the next one, and a finished one is not done again.
func (p *program) startReindex(ctx context.Context, eng *engine.Engine, flow *workflow.Workflow[Plan, search.Verification], indices *search.Catalog) (workflow.Handle[search.Verification], error) {
	if p.plan.To == "" {
		p.plan.To = fmt.Sprintf("docs-%d", indices.Alias().Generation+1)
	}
	return flow.Start(ctx, eng, p.plan, engine.ExternalID("reindex", engine.WhileActive), engine.AnyInput(), engine.RunID(store.DeriveID(store.ID{}, "reindex to "+p.plan.To)))
}

// report prints how far the reindex is, from time to time, until ctx ends.
func (p *program) report(ctx context.Context, eng *engine.Engine, run store.ID, src *source.Source, indices *search.Catalog, served *readers) error {
	for {
		line, err := progress(ctx, eng, run, src, indices, served)
		if err != nil {
			return err
		}
		fmt.Fprintln(p.out, line)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.every):
		}
	}
}

// first builds the index of a new directory, before there are readers.
func (p *program) first(ctx context.Context, src *source.Source, indices *search.Catalog) error {
	s := &indexer{src, indices}
	begin, err := s.create(ctx, Plan{To: "docs-1", Analyzer: "standard"})
	if err != nil {
		return err
	}
	x, err := indices.Index("docs-1")
	if err != nil {
		return err
	}
	for last := ""; ; {
		page, err := src.Page(ctx, last, p.plan.Batch)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if err := x.Fill(page); err != nil {
			return err
		}
		last = page[len(page)-1].ID
	}
	if err := x.Seal(ctx); err != nil {
		return err
	}
	if v, err := x.Verify(ctx, src); err != nil || !v.OK() {
		return errors.Join(err, errors.New(v.String()))
	}
	return indices.Switch(begin.Generation, "docs-1")
}

// progress is one line about everything. The parts of a reindex can be watched from
// any process.
func progress(ctx context.Context, eng *engine.Engine, run store.ID, src *source.Source, indices *search.Catalog, search *readers) (string, error) {
	state := workflow.OfRun(ctx, eng, run)
	filled, _, err1 := Backfilled.Get(state)
	offset, _, err2 := ConsumerOffset.Get(state)
	target, _, err3 := TargetWatermark.Get(state)
	end, err4 := src.End(ctx)
	return fmt.Sprintf("progress: backfilled=%d consumer_offset=%d target_watermark=%d log=%d alias=%s queries=%d",
		filled.Docs, offset, target, end, indices.Alias().Target, search.queries.Load()), errors.Join(err1, err2, err3, err4)
}

// staleness is how late readers saw changes.
type staleness struct{ age atomic.Int64 }

// seen has one caller at a time.
func (s *staleness) seen(age time.Duration) { s.age.Store(max(s.age.Load(), int64(age))) }

func (s *staleness) most() time.Duration { return time.Duration(s.age.Load()) }

// cause is what ended the context, if it was not the user; err otherwise.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	return err
}
