// Bench measures Pawl on SQLite beside a hand-written loop over equivalent
// statements, on the same disk in the same run.
//
//	go run . [-runs 20000] [-reps 5] [-json] [-dir DIR]
//
// Every figure is a median over the repetitions, in which limit and Pawl take
// turns; behind it stand the lowest and the highest.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	var b bench
	flag.IntVar(&b.runs, "runs", 20_000, "runs of a phase")
	flag.IntVar(&b.reps, "reps", 5, "repetitions")
	flag.StringVar(&b.dir, "dir", "", "where the databases are made (default: a temporary directory)")
	flag.StringVar(&b.only, "only", "", "only phases whose name contains this")
	flag.BoolVar(&b.noLimit, "nolimit", false, "leave out the hand-written loop, to profile Pawl alone")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := b.all(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		pprof.StopCPUProfile()
		os.Exit(1)
	}
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		_ = enc.Encode(b.rows)
		return
	}
	b.print()
}

type bench struct {
	runs, reps int
	dir, only  string
	noLimit    bool
	rows       []*row
}

// row is a figure: what one repetition gave, of the limit and of Pawl.
type row struct {
	Name  string
	Unit  string
	Limit []float64 `json:",omitempty"`
	Pawl  []float64
}

func (b *bench) row(name, unit string) *row {
	for _, r := range b.rows {
		if r.Name == name {
			return r
		}
	}
	r := &row{Name: name, Unit: unit}
	b.rows = append(b.rows, r)
	return r
}

func (b *bench) all(ctx context.Context) error {
	steps := []string{"one", "two", "three"}
	phases := []struct {
		name  string
		limit func(*limit) error
		pawl  func(*subject) error
	}{
		{"starts, 16 callers", func(l *limit) error { return l.starts(ctx, b.runs) }, func(s *subject) error { return s.starts(ctx, noop, b.runs, 16, false) }},
		{"starts, in bulk", func(l *limit) error { return l.starts(ctx, b.runs) }, func(s *subject) error { return s.bulk(ctx, noop, b.runs, false) }},
		{"no-op runs, 64 callers and worker at once", func(l *limit) error { return l.runs(ctx, b.runs, nil) }, func(s *subject) error {
			if err := s.work(ctx, 200, noop); err != nil {
				return err
			}
			return s.starts(ctx, noop, b.runs, 64, true)
		}},
		{"no-op runs, in bulk and worker at once", func(l *limit) error { return l.runs(ctx, b.runs, nil) }, func(s *subject) error {
			if err := s.work(ctx, 200, noop); err != nil {
				return err
			}
			return s.bulk(ctx, noop, b.runs, true)
		}},
		{"3-step runs, 64 callers and worker at once", func(l *limit) error { return l.runs(ctx, b.runs, steps) }, func(s *subject) error {
			if err := s.work(ctx, 200, threeStep); err != nil {
				return err
			}
			return s.starts(ctx, threeStep, b.runs, 64, true)
		}},
		{"3-step runs, in bulk and worker at once", func(l *limit) error { return l.runs(ctx, b.runs, steps) }, func(s *subject) error {
			if err := s.work(ctx, 200, threeStep); err != nil {
				return err
			}
			return s.bulk(ctx, threeStep, b.runs, true)
		}},
	}
	for rep := range b.reps {
		fmt.Fprintf(os.Stderr, "repetition %d of %d\n", rep+1, b.reps)
		for _, p := range phases {
			if !strings.Contains(p.name, b.only) {
				continue
			}
			r := b.row(p.name, "/s")
			if !b.noLimit {
				rate, err := b.measure(func(dir string) (time.Duration, error) {
					l, err := openLimit(ctx, dir)
					if err != nil {
						return 0, err
					}
					defer l.close()
					from := time.Now()
					err = p.limit(l)
					return time.Since(from), err
				})
				if err != nil {
					return fmt.Errorf("%s, limit: %w", p.name, err)
				}
				r.Limit = append(r.Limit, rate)
			}
			rate, err := b.measure(func(dir string) (time.Duration, error) {
				s, err := openSubject(ctx, dir)
				if err != nil {
					return 0, err
				}
				defer s.close()
				from := time.Now()
				err = p.pawl(s)
				return time.Since(from), err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			r.Pawl = append(r.Pawl, rate)
		}
		if !strings.Contains("idle latency", b.only) {
			continue
		}
		if _, err := b.measure(func(dir string) (time.Duration, error) { return 0, b.idle(ctx, dir) }); err != nil {
			return fmt.Errorf("idle latency: %w", err)
		}
	}
	return nil
}

func (l *limit) starts(ctx context.Context, n int) error {
	for range n / limitBatch {
		if err := l.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measure gives a rate of runs, on a directory of its own.
func (b *bench) measure(do func(dir string) (time.Duration, error)) (float64, error) {
	dir, err := os.MkdirTemp(b.dir, "pawl-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	runtime.GC()
	took, err := do(filepath.Clean(dir))
	if err != nil || took == 0 {
		return 0, err
	}
	return float64(b.runs) / took.Seconds(), nil
}

// idle samples latencies with nothing else going on.
func (b *bench) idle(ctx context.Context, dir string) error {
	s, err := openSubject(ctx, dir)
	if err != nil {
		return err
	}
	defer s.close()
	toHandler, toResult, err := s.latency(ctx, 300)
	if err != nil {
		return err
	}
	for _, l := range []struct {
		name    string
		samples []time.Duration
	}{{"idle: start called to handler's first line", toHandler}, {"idle: start called to result seen", toResult}} {
		slices.Sort(l.samples)
		for _, p := range []int{50, 99} {
			r := b.row(fmt.Sprintf("%s, p%d", l.name, p), "ms")
			r.Pawl = append(r.Pawl, float64(l.samples[len(l.samples)*p/100].Microseconds())/1000)
		}
	}
	return nil
}

func (b *bench) print() {
	fmt.Printf("SQLite, synchronous FULL, %d cores, %s; %d runs a phase, median of %d (lowest to highest)\n\n", runtime.GOMAXPROCS(0), runtime.Version(), b.runs, b.reps)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\tPawl\thand-written\tratio")
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t", r.Name, spread(r.Pawl, r.Unit))
		if len(r.Limit) > 0 {
			fmt.Fprintf(w, "%s\t%.2f", spread(r.Limit, r.Unit), median(r.Pawl)/median(r.Limit))
		} else {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func spread(v []float64, unit string) string {
	s := slices.Sorted(slices.Values(v))
	f := "%.0f%s (%.0f to %.0f)"
	if unit == "ms" {
		f = "%.2f %s (%.2f to %.2f)"
	}
	return fmt.Sprintf(f, median(v), unit, s[0], s[len(s)-1])
}
