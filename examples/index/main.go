// Index indexes a directory tree, durably: hash, lines, words and the most
// frequent identifiers of every file, and a report at the end. One run walks through
// the tree and generates a run for each file that it finds, which any process takes.
// Killed at any moment and started again, it goes on where it was; started twice
// at the same time on one database, the two share the work.
//
//	go run ./examples/index [-db index.db] [-report index-report.txt] [directory]
//
// Without a directory it takes the source of Go's standard library.
package main

import (
	"cmp"
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/index/indexer"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// File is the input of a file's run. Err is set when the walk could not get at it.
type File struct{ Root, Path, Err string }

// IndexFile measures one file in one step.
var IndexFile = workflow.New("index-file", func(ctx workflow.Context, f File) (indexer.FileStats, error) {
	return workflow.Step(ctx, "analyze", func(ctx context.Context) (indexer.FileStats, error) {
		if f.Err != "" {
			return indexer.Failed(f.Path, errors.New(f.Err)), nil
		}
		stats, err := indexer.Analyze(ctx, f.Root, f.Path)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return indexer.Failed(f.Path, err), nil // trying again would not help: it is part of the report
		}
		return stats, err
	})
})

// files names the step of [Index] whose children are the files' runs.
const files = "files"

// Index walks through the tree below root. Its files are told apart by their paths:
// when the walk begins again, those that are under way already are not begun again,
// whatever has come and gone in the tree meanwhile.
var Index = workflow.New("index", func(ctx workflow.Context, root string) (workflow.Generated, error) {
	return workflow.Generate(ctx, files, func(ctx context.Context, yield func(File) error) error {
		return indexer.Walk(ctx, root, func(f indexer.File) error { return yield(File{root, f.Path, f.Err}) })
	}, IndexFile, workflow.ItemKey(func(f File) string { return f.Path }))
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
	if err := w.Register(Index, IndexFile); err != nil {
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

	stats, err := measure(ctx, eng, root)
	if err != nil {
		return err
	}
	if err := write(report, stats); err != nil {
		return err
	}
	fmt.Printf("indexed %d files; the report is in %s\n", len(stats), report)
	return nil
}

// measure starts the run of the tree, or finds the one that an earlier process has
// started, waits for it, and returns what became of the files, in the order of their
// paths.
func measure(ctx context.Context, eng *engine.Engine, root string) ([]indexer.FileStats, error) {
	h, err := Index.Start(ctx, eng, root, engine.ExternalID(root))
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { show(ctx, eng, h.ID(), ended) })
	_, err = h.Result(ctx)
	close(ended)
	shown.Wait()
	if err != nil {
		return nil, err
	}
	var stats []indexer.FileStats
	for run, err := range eng.Children(ctx, h.ID(), store.StepKey{Name: files}) {
		var f indexer.FileStats
		if err == nil {
			err = eng.Codec().Unmarshal(run.Output, &f)
		}
		if err != nil {
			return nil, err
		}
		stats = append(stats, f)
	}
	slices.SortFunc(stats, func(a, b indexer.FileStats) int { return cmp.Compare(a.Path, b.Path) })
	return stats, nil
}

// show shows how far the run has come until it has ended.
func show(ctx context.Context, eng *engine.Engine, run store.ID, ended <-chan struct{}) {
	progress := indexer.NewProgress(os.Stderr, indexer.IsTerminal(os.Stderr), 0)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		case <-tick.C:
		}
		if p, err := eng.Progress(ctx, run); err == nil && len(p.Steps) > 0 {
			progress.Update(time.Now(), p.Steps[0].Completed)
		}
	}
	progress.Finish(time.Now())
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
