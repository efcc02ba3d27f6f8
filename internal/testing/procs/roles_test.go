package procs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
)

// The environment variables of processes of the reference workload.
const (
	envURL   = "PAWL_PROCS_URL"   // the database
	envDir   = "PAWL_PROCS_DIR"   // where journals and logs go
	envLease = "PAWL_PROCS_LEASE" // a duration
	envSeed  = "PAWL_PROCS_SEED"  // of a starter's orders
	envFirst = "PAWL_PROCS_FIRST" // number of a starter's first order
	envRuns  = "PAWL_PROCS_RUNS"  // how many runs of three steps a starter starts; 0: all kinds, for ever
	envAlso  = "PAWL_PROCS_ALSO"  // "worker": the starter works, too

	envForgets = "PAWL_PROCS_FORGETS" // not empty: the database may lose what it has acknowledged
)

// stepWork is the longest time that a step of the workload takes.
const stepWork = 20 * time.Millisecond

// lanes is how many runs a starter keeps open at the same time; manyLanes, if a number of runs is
// to be done.
const lanes, manyLanes = 25, 150

// part is what every process of the workload needs.
type part struct {
	load    *load
	eng     *engine.Engine
	program *program
	close   func()
}

func openPart(ctx context.Context) (*part, error) {
	dir := os.Getenv(envDir)
	logs, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.log", os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(logs, nil))
	slog.SetDefault(log)
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	st, err := openPatiently(ctx, os.Getenv(envURL))
	if err != nil {
		return nil, err
	}
	own, err := openProgram(os.Getenv(envURL))
	if err != nil {
		return nil, err
	}
	t := tapped(st, j)
	eng := engine.New(t, engine.Logger(log), engine.Require(engine.RequireNothing))
	return &part{&load{t, j, stepWork, own.postgres}, eng, own, func() {
		eng.Close()
		_ = st.Close()
		_ = own.db.Close()
	}}, nil
}

// openPatiently opens a store as soon as it is available. It gives up a hanging attempt after two
// leases.
func openPatiently(ctx context.Context, url string) (st store.Store, err error) {
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return nil, err
	}
	for {
		if strings.HasPrefix(url, "postgres:") {
			st, err = postgres.Open(ctx, url, postgres.WithTimeout(2*lease))
		} else {
			st, err = backends.Open(ctx, url)
		}
		if err == nil || ctx.Err() != nil || !store.Retryable(err) {
			return st, err
		}
		time.Sleep(lease / 10) // nothing reports when the server is back
	}
}

func (p *part) worker(opts ...worker.Option) (*worker.Worker, error) {
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return nil, err
	}
	w := worker.New(p.eng, append(opts, worker.Lease(lease))...)
	for _, def := range p.load.workflows() {
		if err := w.Register(def); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// workerRole works until it gets SIGTERM.
func workerRole(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	p, err := openPart(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to end before it had begun
		}
		return err
	}
	defer p.close()
	w, err := p.worker(worker.Concurrency(20))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return w.Run(ctx)
}

// starterRole starts runs until it is killed or has started as many as it should. It
// says what it is about to start
// and what was acknowledged:
//
//	ask RUN TIME ORDER
//	ack RUN TIME RUN     the second is another where a run of the external id was active
func starterRole(ctx context.Context) error {
	p, err := openPart(ctx)
	if err != nil {
		return err
	}
	if os.Getenv(envAlso) == "worker" { // its starts are eager
		w, err := p.worker(worker.Concurrency(5))
		if err != nil {
			return err
		}
		go func() { _ = w.Run(ctx) }()
	}
	seed, err1 := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	first, err2 := strconv.Atoi(os.Getenv(envFirst))
	runs, err3 := strconv.Atoi(os.Getenv(envRuns))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	fmt.Println("ready")
	s := &starter{eng: p.eng, defs: p.load.workflows(), program: p.program, out: os.Stdout, forgetful: os.Getenv(envForgets) != ""}
	orders, width := make(chan order), lanes
	if runs > 0 {
		width = manyLanes
	}
	go func() {
		defer close(orders)
		r := rand.New(rand.NewPCG(seed, uint64(first)))
		for n := first; runs == 0 || n < first+runs; n++ {
			if runs > 0 {
				orders <- order{N: n, Kind: []string{"three", "book"}[n%2]}
			} else {
				orders <- s.drawn(r, n)
			}
		}
	}()
	ended := make(chan error, width)
	for range width {
		go func() {
			for o := range orders {
				if err := s.one(ctx, o); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range width {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// starter starts runs.
type starter struct {
	eng       *engine.Engine
	defs      defs
	program   *program
	out       io.Writer
	forgetful bool // the database may lose what it has acknowledged
}

// drawn draws an order. A signal that a step sends is an effect outside of its record, and a
// database that forgets may keep one without the other; such orders are then excluded.
func (s *starter) drawn(r *rand.Rand, n int) order {
	o := draw(r, n)
	if s.forgetful && (o.Kind == "talk" || o.Kind == "inbox") {
		o.Kind, o.Wait = "three", 0
	}
	return o
}

// one starts a run, treats it as the order says, and waits for its result, so that the load does not exceed
// what the workers can do.
func (s *starter) one(ctx context.Context, o order) error {
	id := store.NewID()
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "ask %s %d %s\n", id, time.Now().UnixMicro(), text); err != nil {
		return err
	}
	start := s.start
	if o.InTx {
		start = s.startInTx
	}
	run, err := start(ctx, id, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "ack %s %d %s\n", id, time.Now().UnixMicro(), run); err != nil {
		return err
	}
	if err := s.meddle(ctx, run, o); err != nil {
		return s.unlessForgotten(err)
	}
	_, err = s.defs[o.Kind].Handle(s.eng, run).Result(ctx)
	if o.canceled() && errors.Is(err, engine.ErrCanceled) {
		return nil
	}
	return s.unlessForgotten(err)
}

// unlessForgotten returns an error, except that of a run that the database has lost.
func (s *starter) unlessForgotten(err error) error {
	if s.forgetful && errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (s *starter) start(ctx context.Context, id store.ID, o order) (store.ID, error) {
	for {
		h, err := s.defs[o.Kind].Start(ctx, s.eng, o, append(o.options(), engine.RunID(id))...)
		if !store.Retryable(err) { // the engine has already waited long before it gave up
			return h.ID(), err
		}
	}
}

var errThinksBetter = errors.New("the program rolls back")

// startInTx starts the run in a transaction of the program's own, with an effect. Before that, it
// starts a run in a transaction that it rolls back, of which nothing must remain. If the answer to
// COMMIT is lost, it begins again, and the run's row shows whether the effect exists.
func (s *starter) startInTx(ctx context.Context, id store.ID, o order) (store.ID, error) {
	start := func(tx *sql.Tx, as store.Tx, id store.ID) error {
		_, err := s.defs[o.Kind].Start(ctx, s.eng.InTx(as), o, append(o.options(), engine.RunID(id))...)
		if err != nil {
			return err
		}
		var before int // whoever has made the run has committed by now
		if err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*) FROM effects WHERE run='%s' AND step='%s'`, id, startEffect)).Scan(&before); err != nil || before > 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, effectRow(id, startEffect, 0, 0))
		return err
	}
	_ = s.program.inTx(ctx, func(tx *sql.Tx, as store.Tx) error { return errors.Join(start(tx, as, store.NewID()), errThinksBetter) })
	for {
		err := s.program.inTx(ctx, func(tx *sql.Tx, as store.Tx) error { return start(tx, as, id) })
		if err == nil || ctx.Err() != nil {
			return id, err
		}
		if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnsupported) {
			return id, err
		}
		slog.Info("a start in a transaction is tried again", "run", id, "error", err)
		time.Sleep(10 * time.Millisecond) // nothing tells when the database is back
	}
}

// meddle pauses and resumes the run, or cancels it.
func (s *starter) meddle(ctx context.Context, run store.ID, o order) error {
	insist := func(do func() error) error {
		for {
			err := do()
			if errors.Is(err, store.ErrFinished) || errors.Is(err, store.ErrConflict) {
				return nil
			}
			if !store.Retryable(err) {
				return err
			}
		}
	}
	if o.Pause {
		if err := insist(func() error { return s.eng.Pause(ctx, run) }); err != nil {
			return err
		}
		if err := insist(func() error { return s.eng.Resume(ctx, run) }); err != nil {
			return err
		}
	}
	if o.canceled() {
		if o.Wait > 0 { // once it has proceeded as far as it can
			for steps, err := s.eng.Steps(ctx, run); len(steps) < len(o.steps()); steps, err = s.eng.Steps(ctx, run) {
				if err != nil && !store.Retryable(err) {
					return err
				}
				time.Sleep(10 * time.Millisecond) // nothing tells that a run waits
			}
		}
		return insist(func() error { return s.eng.Cancel(ctx, run, "doomed") })
	}
	return nil
}
