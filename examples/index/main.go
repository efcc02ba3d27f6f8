// Index indexes a directory tree, durably: hash, lines, words and the most
// frequent identifiers of every file, and a report at the end. Each file is a run.
// Killed at any moment and started again, it goes on where it was; started twice
// at the same time on one database, the two share the work.
//
//	go run ./examples/index [-db index.db] [-report index-report.txt] [directory]
//
// Without a directory it takes the source of Go's standard library.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/index/indexer"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// File is the input of a run.
type File struct{ Root, Path string }

// IndexFile measures one file in one step.
var IndexFile = workflow.New("index-file", func(ctx workflow.Context, f File) (indexer.FileStats, error) {
	return workflow.Step(ctx, "analyze", func(ctx context.Context) (indexer.FileStats, error) {
		stats, err := indexer.Analyze(ctx, f.Root, f.Path)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return indexer.Failed(f.Path, err), nil // trying again would not help: it is part of the report
		}
		return stats, err
	})
})

func main() {
	db := flag.String("db", "index.db", "the database `file`; it keeps what was done")
	report := flag.String("report", "index-report.txt", "the `file` that the report is written to")
	lease := flag.Duration("lease", 5*time.Second, "how long a killed process's files wait for another")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := index(ctx, *db, *report, flag.Arg(0), *lease); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "\nstopped; run it again to go on")
		} else {
			fmt.Fprintln(os.Stderr, "index:", err)
		}
		os.Exit(1)
	}
}

func index(ctx context.Context, db, report, root string, lease time.Duration) error {
	root, err := directory(ctx, root)
	if err != nil {
		return err
	}
	st, err := backends.Open(ctx, "sqlite:"+db)
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	defer eng.Close()

	w := worker.New(eng, worker.Concurrency(16*runtime.GOMAXPROCS(0)), worker.Lease(lease))
	if err := w.Register(IndexFile); err != nil {
		return err
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() {
		if err := w.Run(workerCtx); err != nil {
			slog.Error("worker", "error", err)
		}
	})
	defer working.Wait()
	defer stopWorker()

	files, err := indexer.Walk(ctx, root)
	if err != nil {
		return err
	}
	stats, err := measure(ctx, eng, root, files)
	if err != nil {
		return err
	}
	if err := write(report, stats); err != nil {
		return err
	}
	fmt.Printf("indexed %d files; the report is in %s\n", len(stats), report)
	return nil
}

// measure starts a run for every file and waits for all of them. The runs' ids
// follow from the paths: what an earlier process has started is not started again.
func measure(ctx context.Context, eng *engine.Engine, root string, files []indexer.File) ([]indexer.FileStats, error) {
	family := store.DeriveID(store.ID{}, root)
	starts := make([]workflow.Each[File], len(files))
	for i, f := range files {
		starts[i] = workflow.Each[File]{In: File{root, f.Path}, Options: []engine.StartOption{engine.RunID(store.DeriveID(family, f.Path))}}
	}
	handles, err := IndexFile.StartMany(ctx, eng, starts)
	if err != nil {
		return nil, err
	}

	var done atomic.Int64
	progress := indexer.NewProgress(os.Stderr, indexer.IsTerminal(os.Stderr), int64(len(files)))
	ended := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				progress.Finish(time.Now())
				return
			case now := <-tick.C:
				progress.Update(now, done.Load())
			}
		}
	})

	stats := make([]indexer.FileStats, len(files))
	errs := make([]error, len(files))
	var results sync.WaitGroup
	for i, h := range handles {
		results.Go(func() {
			stats[i], errs[i] = h.Result(ctx)
			done.Add(1)
		})
	}
	results.Wait()
	progress.Update(time.Now(), done.Load())
	close(ended)
	shown.Wait()
	for i, f := range files {
		if f.Err != "" {
			stats[i] = indexer.Failed(f.Path, errors.New(f.Err))
			errs[i] = nil
		}
	}
	return stats, errors.Join(errs...)
}

// write writes the report beside its place first, so that it is there whole or
// not at all.
func write(name string, stats []indexer.FileStats) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	var all iter.Seq2[indexer.FileStats, error] = func(yield func(indexer.FileStats, error) bool) {
		for _, s := range stats {
			if !yield(s, nil) {
				return
			}
		}
	}
	if err := errors.Join(indexer.WriteReport(f, all), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// directory finds the tree to index.
func directory(ctx context.Context, root string) (string, error) {
	if root != "" {
		return filepath.Abs(root)
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("name a directory: GOROOT cannot be found: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src"), nil
}
