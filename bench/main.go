// Bench measures Pawl beside a hand-written loop over equivalent statements, on
// the same disk in the same run; on PostgreSQL also beside River, and a number of
// other things that its backend promises.
//
//	go run . [-db postgres] [-runs 20000] [-reps 5] [-json] [-dir DIR] [-only PART]
//
// Every figure is a median over the repetitions, in which the competitors take
// turns; behind it stand the lowest and the highest.
package main

import (
	"context"
	"database/sql"
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
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/bench/peers"
	"github.com/pawlhq/pawl/store"
)

func main() {
	if isWorker() {
		return
	}
	var b bench
	flag.IntVar(&b.runs, "runs", 20_000, "runs of a phase")
	flag.IntVar(&b.reps, "reps", 5, "repetitions")
	flag.StringVar(&b.dir, "dir", "", "where the databases are made (default: a temporary directory)")
	flag.StringVar(&b.only, "only", "", "only phases whose name contains this")
	flag.StringVar(&b.db, "db", "sqlite", "sqlite, postgres or sqld (libSQL's server, as behind Turso)")
	flag.DurationVar(&b.trip, "trip", 0, "with sqld, how much longer each round trip of Pawl takes, as if the server were far away")
	flag.StringVar(&b.url, "postgres", "", "URL of a PostgreSQL server (default: one is started)")
	flag.IntVar(&b.churned, "churn", 1_000_000, "runs of the churn under an open snapshot")
	flag.IntVar(&b.crowd, "crowd", 1_000_000, "finished runs, and sleeping ones, among which runs are claimed")
	flag.DurationVar(&b.idleFor, "idle", 30*time.Second, "how long an idle worker is watched")
	flag.DurationVar(&b.settle, "settle", 70*time.Second, "how long it has been idle before")
	flag.IntVar(&b.handles, "handles", 10_000, "handles that wait at the same time")
	flag.IntVar(&b.samples, "samples", 300, "samples of latencies")
	flag.IntVar(&b.items, "items", 20_000, "items of the generator")
	flag.IntVar(&b.scale, "scale", 10_000, "the most processes, slots, steps and queues of the part \"scale\"")
	flag.StringVar(&b.curve, "curve", "", "only this curve of it: workers, slots, payload, steps, table (up to -crowd runs) or queues; of the part \"processes\": only this load; of \"peers\": only this engine or limit")
	charts := flag.String("charts", "", "write charts of the curves and of the throughput, as SVG files, to this directory")
	flag.DurationVar(&b.patience, "patience", 90*time.Second, "how long the last jobs of the part \"peers\" may take")
	flag.BoolVar(&b.noLimit, "nolimit", false, "leave out the others, to profile Pawl alone")
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
	if *charts != "" {
		if err := b.draw(*charts); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		_ = enc.Encode(struct {
			What   string
			Rows   []*row        `json:",omitempty"`
			Curves []*curve      `json:",omitempty"`
			Peers  []peers.Trial `json:",omitempty"`
		}{b.what(), b.rows, b.curves, b.trials})
		return
	}
	b.print()
}

type bench struct {
	runs, reps int
	dir, only  string
	db, url    string
	trip       time.Duration
	version    string // of the PostgreSQL server
	churned    int    // runs of the churn
	crowd      int    // finished, and sleeping, runs in the large tables
	idleFor    time.Duration
	settle     time.Duration
	handles    int
	samples    int // of latencies
	items      int // of the generator
	scale      int // the most of what a curve varies
	curve      string
	patience   time.Duration
	noLimit    bool
	trials     []peers.Trial
	rows       []*row
	curves     []*curve
}

// row is a figure: what one repetition gave, of the limit and of Pawl.
type row struct {
	Name  string
	Unit  string
	Limit []float64 `json:",omitempty"`
	Alone []float64 `json:",omitempty"` // the store without the engine
	River []float64 `json:",omitempty"`
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

// add adds a figure of Pawl's.
func (b *bench) add(name, unit string, values ...float64) {
	r := b.row(name, unit)
	r.Pawl = append(r.Pawl, values...)
}

// site is where the competitors work: a kind of database.
type site struct {
	place func() (name string, leave func(), err error)
	where func(place string) string // for another process
	limit func(ctx context.Context, place string) (handwritten, error)
	store func(ctx context.Context, place string) (store.Store, error)
	river func(ctx context.Context, place string, n int, work bool) (*peer, error) // nil: there is none
	wal   func(ctx context.Context) (int64, error)                                 // bytes so far; nil: they are not known
	fill  func(ctx context.Context, place string, from, n int) error               // adds finished runs; nil: they have to be run
	raw   func(ctx context.Context, place, sql string) error                       // for a store's own tables
}

// fresh opens a store on an empty database. The function that it returns closes the store and removes the
// database.
func (at *site) fresh(ctx context.Context) (place string, st store.Store, leave func(), err error) {
	place, remove, err := at.place()
	if err != nil {
		return "", nil, nil, err
	}
	st, err = at.store(ctx, place)
	if err != nil {
		remove()
		return "", nil, nil, err
	}
	return place, st, func() {
		_ = st.Close()
		remove()
	}, nil
}

// handwritten is the hand-written loop.
type handwritten interface {
	starts(ctx context.Context, n int) error
	runs(ctx context.Context, n int, steps []string) error
	drain(ctx context.Context, n int) error // of runs that were started
	one(ctx context.Context) error          // starts one run: a transaction with one row
	close()
}

func (b *bench) all(ctx context.Context) error {
	if b.db == "postgres" {
		return b.postgres(ctx)
	}
	if b.db == "sqld" {
		srv, stop, err := startSqld()
		if err != nil {
			return err
		}
		defer stop()
		at := sqldSite(srv, b.trip)
		return b.embedded(ctx, &at)
	}
	if b.db != "sqlite" {
		return fmt.Errorf("-db %q: there are sqlite, postgres and sqld", b.db)
	}
	return b.embedded(ctx, &site{
		place: func() (string, func(), error) {
			dir, err := os.MkdirTemp(b.dir, "pawl-bench-")
			return dir, func() { _ = os.RemoveAll(dir) }, err
		},
		where: func(dir string) string { return filepath.Join(dir, "pawl.db") },
		limit: func(ctx context.Context, dir string) (handwritten, error) {
			l, err := openLimit(ctx, dir)
			return inTurn{l}, err
		},
		store: func(ctx context.Context, dir string) (store.Store, error) {
			return sqlite.Open(ctx, filepath.Join(dir, "pawl.db"))
		},
		raw: func(ctx context.Context, dir, query string) error {
			db, err := sql.Open("sqlite", filepath.Join(dir, "pawl.db"))
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.ExecContext(ctx, query)
			return err
		},
	})
}

// embedded measures on SQLite, or on what is like it.
func (b *bench) embedded(ctx context.Context, at *site) error {
	for _, p := range []struct {
		name string
		do   func(context.Context, *site) error
	}{{"answers", b.answers}, {"progress", b.progress}, {"tags", b.tags}} { // they repeat themselves what is repeated
		if p.name == b.only {
			return p.do(ctx, at)
		}
	}
	for rep := range b.reps {
		fmt.Fprintf(os.Stderr, "repetition %d of %d\n", rep+1, b.reps)
		if err := b.throughput(ctx, at); err != nil {
			return err
		}
		if strings.Contains("generator", b.only) {
			if err := b.generators(ctx, at); err != nil {
				return err
			}
		}
		if strings.Contains("scale", b.only) {
			if err := b.scaling(ctx, at); err != nil {
				return err
			}
		}
		if b.only == "seen" {
			if err := b.seen(ctx, at); err != nil {
				return fmt.Errorf("seen: %w", err)
			}
		}
		if b.only == "lists" {
			if err := b.lists(ctx, at); err != nil {
				return fmt.Errorf("lists: %w", err)
			}
		}
		if err := b.limited(ctx, at); err != nil {
			return err
		}
		if strings.Contains("memory", b.only) && (b.db != "sqld" || b.only != "") { // there it takes minutes
			if err := b.memory(ctx, at); err != nil {
				return err
			}
		}
		if strings.Contains("idle cost", b.only) {
			if err := b.atRest(ctx, at); err != nil {
				return fmt.Errorf("idle cost: %w", err)
			}
		}
		if !strings.Contains("idle latency", b.only) {
			continue
		}
		if err := b.idle(ctx, at); err != nil {
			return fmt.Errorf("idle latency: %w", err)
		}
	}
	return nil
}

// phase is a load that all competitors carry.
type phase struct {
	name    string
	steps   []string // of a run
	callers int      // that start one run each; 0: by few calls
	work    bool     // a worker does them at the same time
	backlog bool     // they are started before, and only the work is timed
}

// throughput is one repetition.
func (b *bench) throughput(ctx context.Context, at *site) error {
	steps := []string{"one", "two", "three"}
	for _, p := range []phase{
		{"starts, 16 callers", nil, 16, false, false},
		{"starts, in bulk", nil, 0, false, false},
		{"no-op runs, 16 callers and worker at once", nil, 16, true, false},
		{"no-op runs, 64 callers and worker at once", nil, 64, true, false},
		{"no-op runs, in bulk and worker at once", nil, 0, true, false},
		{"3-step runs, 16 callers and worker at once", steps, 16, true, false},
		{"3-step runs, 64 callers and worker at once", steps, 64, true, false},
		{"3-step runs, in bulk and worker at once", steps, 0, true, false},
		{"drain of a backlog of no-op runs", nil, 0, true, true},
	} {
		if !strings.Contains(p.name, b.only) && b.only != "throughput" {
			continue
		}
		r := b.row(p.name, "/s")
		for _, c := range []struct {
			name string
			to   *[]float64
			do   func(place string) (time.Duration, error)
		}{
			{"limit", &r.Limit, func(place string) (time.Duration, error) { return b.loop(ctx, &p, at.limit, place) }},
			{"alone", &r.Alone, func(place string) (time.Duration, error) { return b.loop(ctx, &p, at.alone, place) }},
			{"River", &r.River, func(place string) (time.Duration, error) {
				c, err := at.river(ctx, place, b.runs, p.work && !p.backlog)
				if err != nil {
					return 0, err
				}
				defer c.close()
				if p.backlog {
					if err := c.starts(ctx, b.runs, 0, 0); err != nil {
						return 0, err
					}
					from := time.Now()
					err := c.drain(ctx)
					return time.Since(from), err
				}
				from := time.Now()
				err = c.starts(ctx, b.runs, p.callers, max(0, len(p.steps)-1))
				return time.Since(from), err
			}},
			{"Pawl", &r.Pawl, func(place string) (time.Duration, error) {
				s, err := at.open(ctx, place)
				if err != nil {
					return 0, err
				}
				defer s.close()
				w := noop
				if len(p.steps) > 0 {
					w = threeStep
				}
				if p.backlog {
					return s.drain(ctx, b.runs)
				}
				if err := s.know(ctx, w); err != nil {
					return 0, err
				}
				from := time.Now()
				if p.work {
					err = s.work(ctx, 1000, w)
				}
				if err == nil && p.callers > 0 {
					err = s.starts(ctx, w, b.runs, p.callers, p.work)
				} else if err == nil {
					err = s.bulk(ctx, w, b.runs, p.work)
				}
				return time.Since(from), err
			}},
		} {
			if c.name != "Pawl" && b.noLimit || c.name == "River" && at.river == nil {
				continue
			}
			before, err := at.spent(ctx)
			if err != nil {
				return err
			}
			rate, err := b.measure(at, c.do)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, c.name, err)
			}
			after, err := at.spent(ctx)
			if err != nil {
				return err
			}
			*c.to = append(*c.to, rate)
			b.row(p.name+": processor of this process for a run", "us").of(c.name, (after.cpu-before.cpu).Seconds()*1e6/float64(b.runs))
			if at.wal != nil {
				b.row(p.name+": WAL for a run", "B").of(c.name, float64(after.wal-before.wal)/float64(b.runs))
			}
		}
	}
	return nil
}

// loop is a phase of the hand-written loop, or of what does the same.
func (b *bench) loop(ctx context.Context, p *phase, open func(ctx context.Context, place string) (handwritten, error), place string) (time.Duration, error) {
	l, err := open(ctx, place)
	if err != nil {
		return 0, err
	}
	defer l.close()
	if p.backlog {
		if err := l.starts(ctx, b.runs); err != nil {
			return 0, err
		}
	}
	from := time.Now()
	if p.backlog {
		err = l.drain(ctx, b.runs)
	} else if p.work {
		err = l.runs(ctx, b.runs, p.steps)
	} else {
		err = l.starts(ctx, b.runs)
	}
	return time.Since(from), err
}

// of adds what a competitor gave.
func (r *row) of(who string, v float64) {
	to := map[string]*[]float64{"limit": &r.Limit, "alone": &r.Alone, "River": &r.River, "Pawl": &r.Pawl}[who]
	*to = append(*to, v)
}

// spent is what has been used up so far.
type spent struct {
	cpu time.Duration // of this process, user and system
	wal int64
}

func (at *site) spent(ctx context.Context) (s spent, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return s, err
	}
	s.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	if at.wal != nil {
		s.wal, err = at.wal(ctx)
	}
	return s, err
}

// measure gives a rate of runs, at a place of its own.
func (b *bench) measure(at *site, do func(place string) (time.Duration, error)) (float64, error) {
	place, leave, err := at.place()
	if err != nil {
		return 0, err
	}
	defer leave()
	runtime.GC()
	took, err := do(place)
	if err != nil || took == 0 {
		return 0, err
	}
	return float64(b.runs) / took.Seconds(), nil
}

// idle samples latencies with nothing else going on. Beside them stand the writes that
// they need, one after the other, and what River takes to reach its worker.
func (b *bench) idle(ctx context.Context, at *site) error {
	const handler, result = "idle: start called to handler's first line", "idle: start called to result seen"
	for _, do := range []func(place string) error{
		func(place string) error {
			l, err := at.limit(ctx, place)
			if err != nil {
				return err
			}
			defer l.close()
			var one, two []time.Duration
			for i := range b.samples + 10 {
				if err := rest(ctx, 5*time.Millisecond); err != nil {
					return err
				}
				from := time.Now()
				if err := l.one(ctx); err != nil {
					return err
				}
				first := time.Since(from)
				if err := l.one(ctx); err != nil {
					return err
				}
				if i >= 10 {
					one, two = append(one, first), append(two, time.Since(from))
				}
			}
			b.latencies("limit", handler, one)
			b.latencies("limit", result, two)
			return nil
		},
		func(place string) error {
			if at.river == nil {
				return nil
			}
			c, err := at.river(ctx, place, -1, true)
			if err != nil {
				return err
			}
			defer c.close()
			toHandler, err := c.latency(ctx, b.samples)
			if err == nil {
				b.latencies("River", handler, toHandler)
			}
			return err
		},
		func(place string) error {
			s, err := at.open(ctx, place)
			if err != nil {
				return err
			}
			defer s.close()
			toHandler, toResult, err := s.latency(ctx, b.samples)
			if err == nil {
				b.latencies("Pawl", handler, toHandler)
				b.latencies("Pawl", result, toResult)
			}
			return err
		},
	} {
		if _, err := b.measure(at, func(place string) (time.Duration, error) { return 0, do(place) }); err != nil {
			return err
		}
	}
	return nil
}

// latencies adds the p50 and p99 of somebody's samples.
func (b *bench) latencies(who, name string, samples []time.Duration) {
	slices.Sort(samples)
	for _, p := range []int{50, 99} {
		b.row(fmt.Sprintf("%s, p%d", name, p), "ms").of(who, float64(samples[len(samples)*p/100].Microseconds())/1000)
	}
}

// what tells where was measured.
func (b *bench) what() string {
	db := "SQLite, synchronous FULL"
	if b.db == "postgres" {
		db = "PostgreSQL " + b.version + ", fsync on"
	}
	if b.db == "sqld" {
		db = "sqld on the loopback"
		if b.trip > 0 {
			db = fmt.Sprintf("sqld %v away", b.trip)
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", db, runtime.GOMAXPROCS(0), runtime.Version())
}

func (b *bench) print() {
	fmt.Printf("%s; %d runs a phase, median of %d (lowest to highest)\n", b.what(), b.runs, b.reps)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, c := range b.curves {
		fmt.Fprintf(w, "\n%s\t%s\tto the first\n", c.X, c.Y)
		for _, p := range c.Points {
			fmt.Fprintf(w, "%s\t%s\t%.2f\n", short(p.X), spread(p.Y, ""), median(p.Y)/median(c.Points[0].Y))
		}
	}
	peers.Print(w, b.trials)
	if len(b.rows) > 0 {
		fmt.Fprintln(w, "\n\tPawl\thand-written\tratio\tRiver\tratio\tstore alone\tratio")
	}
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s", r.Name, spread(r.Pawl, r.Unit))
		for _, other := range [][]float64{r.Limit, r.River, r.Alone} {
			if len(other) > 0 {
				fmt.Fprintf(w, "\t%s\t%.2f", spread(other, r.Unit), median(r.Pawl)/median(other))
			} else {
				fmt.Fprint(w, "\t\t")
			}
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
	if len(s) == 1 {
		return fmt.Sprintf("%.4g %s", s[0], unit)
	}
	f := "%.0f%s (%.0f to %.0f)"
	if unit != "/s" {
		f = "%.2f %s (%.2f to %.2f)"
	}
	return fmt.Sprintf(f, median(v), unit, s[0], s[len(s)-1])
}
