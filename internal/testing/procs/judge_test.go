package procs

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
)

// verdict is the result of the three checkers for one database and its evidence.
type verdict struct {
	tables, api, journals, effects error

	out  *outcome
	sum  tally
	rows int // of the table of effects

	doubled int // effects that occur more than once
}

// judge asks all checkers.
func judge(t *testing.T, b backend, url string, ev *evidence) verdict {
	t.Helper()
	v := verdict{tables: b.check(t.Context(), url)}
	st, err := backends.Open(t.Context(), url)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	if v.out, err = readOutcome(t.Context(), eng); err != nil {
		v.api = err
		return v
	}
	v.api = checkAPI(t.Context(), eng, ev, v.out)
	v.sum, v.journals = checkJournal(ev, v.out)
	effects, err := readEffects(t.Context(), url)
	require.NoError(t, err)
	v.rows, v.doubled, v.effects = v.out.checkEffectRows(effects)
	return v
}

// calm runs a few orders in this process, without any disturbance.
func calm(t *testing.T, dir string, orders []order) (url string, ev *evidence) {
	url, _ = allBackends[0].fresh(t, dir, 0)
	st, err := backends.Open(t.Context(), url)
	require.NoError(t, err)
	defer st.Close()
	j, err := openJournal(dir)
	require.NoError(t, err)
	defer j.file.Close()
	tap := tapped(st, j)
	eng := engine.New(tap, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	own, err := openProgram(url)
	require.NoError(t, err)
	defer own.db.Close()
	l := &load{store: tap, journal: j}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := worker.New(eng, worker.Lease(time.Minute))
	defs := l.workflows()
	for _, def := range defs {
		require.NoError(t, w.Register(def))
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var said strings.Builder
	s := &starter{eng: eng, defs: defs, program: own, out: &said}
	for _, o := range orders {
		require.NoError(t, s.one(ctx, o))
	}
	tick(t, eng, defs)
	stop()
	require.NoError(t, <-ended)
	ev = newEvidence()
	for line := range strings.Lines(said.String()) {
		require.NoError(t, ev.hear(strings.TrimSuffix(line, "\n")))
	}
	ev.journal, err = readJournals(dir)
	require.NoError(t, err)
	return url, ev
}

// tick makes a schedule start a run or two.
func tick(t *testing.T, eng *engine.Engine, defs defs) {
	putTicks(t, eng, defs)
	var fired engine.FiringPage
	require.Eventually(t, func() bool {
		var err error
		fired, err = eng.Firings(t.Context(), tickSchedule, "", store.MaxPage)
		return err == nil && len(fired.Firings) > 0
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, eng.PauseSchedule(t.Context(), tickSchedule))
	page, err := eng.List(t.Context(), store.RunFilter{Workflow: "tick"}, "", store.MaxPage)
	require.NoError(t, err)
	for _, run := range page.Runs {
		_, err = defs["tick"].Handle(eng, run.ID).Result(t.Context())
		require.NoError(t, err)
	}
}

const tickSchedule = "ticks"

func putTicks(t *testing.T, eng *engine.Engine, defs defs) {
	_, err := defs["tick"].Schedule(t.Context(), eng, tickSchedule, "@every 1s", order{Kind: "tick"}, engine.ScheduleCatchUp(engine.CatchUpAll))
	require.NoError(t, err)
}

func (ev *evidence) clone() *evidence {
	return &evidence{maps.Clone(ev.asked), maps.Clone(ev.acked), slices.Clone(ev.journal), maps.Clone(ev.paused), ev.forgets}
}

// index finds the first entry that matches.
func (ev *evidence) index(t *testing.T, match func(e entry) bool) int {
	i := slices.IndexFunc(ev.journal, match)
	require.GreaterOrEqual(t, i, 0, "the journal has no such entry")
	return i
}

func effectOf(step string) func(e entry) bool {
	return func(e entry) bool { return e.Op == "effect" && e.Step == step }
}

// putOff returns the entries by which a worker puts a run off and claims it again within the old
// lease: the release, the answer to it, and the claim, of a run that keeps its Crashes.
func putOff(t *testing.T, ev *evidence) (release, commit, claim entry) {
	did := ev.journal[ev.index(t, effectOf("two"))]
	claim = ev.journal[ev.index(t, func(e entry) bool { return e.Op == "claim" && e.Run == did.Run && e.Epoch == did.Epoch })]
	end := claim.From + claim.Lease
	release = entry{Op: "release", PID: did.PID, Run: did.Run, Epoch: did.Epoch, Seq: 99, From: end - 4000}
	commit = release
	commit.Op, commit.To = "commit", end-3000
	claim.Epoch, claim.Recovered, claim.From, claim.To = claim.Epoch+1, true, end-2000, end-1000
	return release, commit, claim
}

// forget says that the database may lose acknowledged writes.
func forget(_ *testing.T, ev *evidence) { ev.forgets = true }

// The checkers accept correct evidence, and for each thing that a faulty engine or store would
// leave behind, the responsible checker complains.
func TestCheckersSee(t *testing.T) {
	base := t.TempDir()
	url, right := calm(t, base, []order{
		{N: 1, Kind: "noop"}, {N: 2, Kind: "three", ID: "x"}, {N: 3, Kind: "nap", Wait: 200 * time.Millisecond},
		{N: 4, Kind: "fan", Wait: time.Millisecond}, {N: 5, Kind: "flaky", Fails: 1, Wait: 20 * time.Millisecond},
		{N: 6, Kind: "again", Wait: againWait}, {N: 7, Kind: "noop", Delay: 10 * time.Millisecond, Pad: strings.Repeat("x", 2000)}, {N: 8, Kind: "three", ID: "x"},
		{N: 9, Kind: "book", Fails: 1, InTx: true}, {N: 10, Kind: "graph", Pause: true}, {N: 11, Kind: "crew"}, {N: 12, Kind: "ready"},
		{N: 13, Kind: "heavy"}, {N: 14, Kind: "inbox", Wait: time.Millisecond}, {N: 15, Kind: "doomed", Wait: 1}, {N: 16, Kind: "noop", InTx: true},
	})
	data, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:"))
	require.NoError(t, err)

	const (
		two   = ` WHERE name='two' AND run_id=(SELECT id FROM runs WHERE workflow='three' ORDER BY id LIMIT 1)`
		three = ` WHERE id=(SELECT id FROM runs WHERE workflow='three' ORDER BY id LIMIT 1)`
	)
	cases := []struct {
		name                  string
		sql                   string
		change                func(t *testing.T, ev *evidence)
		tables, api, journals string // part of the complaint; empty: none is expected
		effects               string
		right                 bool // it is correct
	}{
		{name: "nothing is wrong", right: true},
		{name: "step deleted", sql: `DELETE FROM steps` + two, tables: "has 2 steps, expected 3", api: "step two of run"},
		{name: "second step of a key", sql: `CREATE TABLE s AS SELECT * FROM steps; INSERT INTO s SELECT * FROM steps` + two + `; DROP TABLE steps; ALTER TABLE s RENAME TO steps`,
			tables: "a step key is recorded twice", api: "is recorded twice"},
		{name: "second occurrence of a step", sql: `INSERT INTO steps SELECT run_id, branch, name, 2, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at FROM steps` + two,
			tables: "two steps have one position", api: "has 4 steps, expected 3"},
		{name: "step of another output", sql: `UPDATE steps SET output=CAST('"no"' AS BLOB)` + two, tables: `returned "no"`, api: `returned "no"`},
		{name: "step not completed", sql: `UPDATE steps SET status=2` + two, tables: "is not completed", api: "running in attempt"},
		{name: "step in one attempt more", sql: `UPDATE steps SET attempt=2` + two, api: "attempt 2"},
		{name: "step of a later epoch than its run", sql: `UPDATE steps SET epoch=9` + two, tables: "epoch is none that its run has had", api: "in epoch 9", journals: "which has not done it"},
		{name: "branch with a gap", sql: `UPDATE steps SET idx=7` + two, tables: "a branch has a gap"},
		{name: "run set back", sql: `UPDATE runs SET status=1, visible_at=1, finished_at=NULL, output=NULL` + three, tables: "a run is not completed", api: "is pending"},
		{name: "run failed", sql: `UPDATE runs SET status=7` + three, tables: "a run is not completed", api: "is failed"},
		{name: "run of another output", sql: `UPDATE runs SET output=CAST('"no"' AS BLOB)` + three, tables: `returned "no"`, api: `returned "no"`},
		{name: "final run leased", sql: `UPDATE runs SET leased=1` + three, tables: "is leased"},
		{name: "final run of nobody", sql: `UPDATE runs SET worker=NULL` + three, api: `worker ""`},
		{name: "final run claimable", sql: `UPDATE runs SET visible_at=1` + three, tables: "claimable", api: "visible at"},
		{name: "final run never claimed", sql: `UPDATE runs SET epoch=0` + three, tables: "never claimed"},
		{name: "final run never committed", sql: `UPDATE runs SET seq=0` + three, tables: "never committed"},
		{name: "crashes kept", sql: `UPDATE runs SET crashes=1` + three, tables: "counts crashes", api: "1 crashes"},
		{name: "finished before it started", sql: `UPDATE runs SET finished_at=started_at-1` + three, tables: "out of order", api: "finished at"},
		{name: "run lost", sql: `DELETE FROM runs` + three, tables: "a step has no run", api: "was acknowledged but does not exist", journals: "which does not exist"},
		{name: "run lost with all its rows", sql: `DELETE FROM steps WHERE run_id=(SELECT id FROM runs` + three + `); DELETE FROM runs` + three, api: "was acknowledged but does not exist"},
		{name: "orphan state", sql: `INSERT INTO state VALUES (x'00', 'k', NULL, 1, 1)`, tables: "state has no run"},
		{name: "orphan signal", sql: `INSERT INTO signals (run_id, id, pos, name, payload, sent_at, consumed) VALUES (x'00', x'00', 1, 'n', NULL, 1, 0)`, tables: "a signal has no run"},
		{name: "orphan group", sql: `INSERT INTO groups (run_id, name) VALUES (x'00', 'g')`, tables: "a group has no run"},
		{name: "orphan input", sql: `INSERT INTO large_inputs VALUES (x'00', x'00')`, tables: "a large input has no run"},
		{name: "input lost", sql: `DELETE FROM large_inputs`, tables: "in no place or in two", api: "input of run"},
		{name: "index that misses rows", sql: `PRAGMA writable_schema=1; UPDATE sqlite_schema SET sql=replace(sql, 'status >= 6', 'status >= 0') WHERE name='runs_external_past';
			UPDATE sqlite_schema SET sql=replace(sql, 'status < 6', 'status < 9') WHERE name='runs_external'`, tables: "integrity check"},
		{name: "sleep that ended early", sql: `UPDATE steps SET output=(SELECT doze.output FROM steps doze WHERE doze.run_id=steps.run_id AND doze.name='doze') WHERE name='wake'`, api: "early"},
		{name: "sleep due after its end", sql: `UPDATE steps SET due_at=finished_at+1 WHERE name='nap'`, tables: "out of order", api: "before it was due"},
		{name: "started before its time", sql: `UPDATE runs SET started_at=created_at+5000 WHERE parts & 16`, api: "before its time"},
		{name: "run that nobody has worked on", change: func(_ *testing.T, ev *evidence) { ev.journal = nil }, journals: "nobody has worked"},
		{name: "run that nobody has started", change: func(_ *testing.T, ev *evidence) { clear(ev.asked) }, api: "nobody has started it"},
		{name: "start that was answered with a run of another id", change: func(_ *testing.T, ev *evidence) {
			for id, a := range ev.acked {
				if ev.asked[id].N == 1 {
					for other := range ev.asked {
						if ev.asked[other].N == 2 {
							a.run = other
						}
					}
					ev.acked[id] = a
				}
			}
		}, api: "yet it made a run"},
		{name: "effect missing", change: func(t *testing.T, ev *evidence) {
			i := ev.index(t, effectOf("two"))
			ev.journal = slices.Delete(ev.journal, i, i+1)
		}, journals: "which has not done it"},
		{name: "effect twice under one lease", change: func(t *testing.T, ev *evidence) {
			ev.journal = append(ev.journal, ev.journal[ev.index(t, effectOf("two"))])
		}, journals: "no lease between them had run out"},
		{name: "effect after its record", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, effectOf("two"))]
			e.Epoch, e.From = e.Epoch+1, e.From+1000
			ev.journal = append(ev.journal, e, entry{Op: "claim", PID: e.PID, Run: e.Run, Epoch: e.Epoch, Recovered: true, From: e.From, To: e.From + 1e9})
		}, journals: "had recorded it"},
		{name: "effect begun after the record by a process that was not stopped", change: func(t *testing.T, ev *evidence) {
			ev.journal[ev.index(t, effectOf("two"))].From += 1e9
		}, journals: "was not stopped before"},
		{name: "effect that was not durable when the next began", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, effectOf("one"))]
			e.Epoch++
			ev.journal = append(ev.journal, e)
		}, journals: "it was not durable by then"},
		{name: "effect without a lease", change: func(t *testing.T, ev *evidence) {
			ev.journal[ev.index(t, effectOf("two"))].Epoch++
		}, journals: "without a lease"},
		{name: "effect of another idempotency key", change: func(t *testing.T, ev *evidence) {
			ev.journal[ev.index(t, effectOf("two"))].Key = "k"
		}, journals: "had the idempotency key"},
		{name: "retry too early", change: func(t *testing.T, ev *evidence) {
			first := ev.journal[ev.index(t, effectOf("try"))].From
			ev.journal[ev.index(t, func(e entry) bool { return e.Step == "try" && e.Attempt == 2 })].From = first + 1
		}, journals: "after the one before"},
		{name: "epoch given twice", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, func(e entry) bool { return e.Op == "claim" })]
			e.PID++
			ev.journal = append(ev.journal, e)
		}, journals: "was given to processes"},
		{name: "taken over before the lease's end", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, func(e entry) bool { return e.Op == "claim" })]
			e.Epoch, e.Recovered, e.To = e.Epoch+1, true, e.From+e.Lease-2000
			ev.journal = append(ev.journal, e)
		}, journals: "before its end"},
		{name: "taken over before the extended lease's end", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, func(e entry) bool { return e.Op == "claim" })]
			extend, claim := e, e
			extend.Op, extend.From = "extend", e.From+1e6
			claim.Epoch, claim.Recovered, claim.To = e.Epoch+1, true, e.From+e.Lease+5e5
			ev.journal = append(ev.journal, extend, claim)
		}, journals: "before its end"},
		{name: "claimed before the end of a lease that was given back", right: true, change: func(t *testing.T, ev *evidence) {
			release, commit, claim := putOff(t, ev)
			ev.journal = append(ev.journal, release, commit, claim)
		}},
		{name: "claimed before the end of a lease whose return had no answer", right: true, change: func(t *testing.T, ev *evidence) {
			release, _, claim := putOff(t, ev)
			ev.journal = append(ev.journal, release, claim)
		}},
		{name: "taken over before the lease's end, which was given back the time before", change: func(t *testing.T, ev *evidence) {
			release, commit, claim := putOff(t, ev)
			again := claim
			again.Epoch++
			ev.journal = append(ev.journal, release, commit, claim, again)
		}, journals: "before its end"},
		{name: "taken over before the lease's end after another commit", change: func(t *testing.T, ev *evidence) {
			_, commit, claim := putOff(t, ev)
			ev.journal = append(ev.journal, commit, claim)
		}, journals: "before its end"},
		{name: "effect done again behind a lease that was given back", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, effectOf("two"))]
			e.Epoch++
			release, commit, claim := putOff(t, ev)
			ev.journal = append(ev.journal, release, commit, claim, e)
		}, journals: "no lease between them had run out"},
		{name: "commit applied twice", change: func(t *testing.T, ev *evidence) {
			ev.journal = append(ev.journal, ev.journal[ev.index(t, func(e entry) bool { return e.Op == "commit" })])
		}, journals: "was applied twice"},
		{name: "commit under an old lease", change: func(t *testing.T, ev *evidence) {
			e := ev.journal[ev.index(t, func(e entry) bool { return e.Op == "commit" })]
			ev.journal = append(ev.journal, entry{Op: "claim", PID: e.PID, Run: e.Run, Epoch: e.Epoch + 1, From: e.From - 2, To: e.From - 1})
		}, journals: "committed under epoch"},
		{name: "two active runs of one external id", change: func(_ *testing.T, ev *evidence) {
			for id, a := range ev.asked {
				if a.N == 8 {
					a.at -= 1e9
					ev.asked[id], ev.acked[id] = a, ack{id, a.at + 1}
				} else if a.N == 2 {
					ev.acked[id] = ack{id, 0}
				}
			}
		}, journals: "was made while run"},
		{name: "final run given as the active one", change: func(_ *testing.T, ev *evidence) {
			var old, last store.ID
			for id, a := range ev.asked {
				switch a.N {
				case 2:
					old = id
				case 8:
					last = id
				}
			}
			ev.acked[last] = ack{old, ev.acked[last].at}
		}, api: "yet it made a run", journals: "which had finished"},
		{name: "transactional step that took effect twice", sql: `INSERT INTO effects SELECT * FROM effects WHERE step='open'`, effects: "took effect 2 times"},
		{name: "transactional step of a flow that took effect twice", sql: `INSERT INTO effects SELECT * FROM effects WHERE step='debit/debit'`, effects: "took effect 2 times"},
		{name: "transactional step of an item that took effect twice", sql: `INSERT INTO effects SELECT * FROM effects WHERE step='make' LIMIT 1`, effects: "took effect 2 times"},
		{name: "effect of a transactional step missing", sql: `DELETE FROM effects WHERE step='close'`, effects: "took no effect"},
		{name: "effect of a canceled run missing", sql: `DELETE FROM effects WHERE step='pay'`, effects: "took no effect"},
		{name: "effect of another lease than the record", sql: `UPDATE effects SET epoch=epoch+1 WHERE step='close'`, effects: "took effect in epoch"},
		{name: "effect without its record", sql: `DELETE FROM steps WHERE name='close'`, effects: "is not recorded", api: "step close of run"},
		{name: "effect of an attempt that failed", sql: `INSERT INTO effects SELECT run, 'between', epoch, 1 FROM effects WHERE step='open'; DELETE FROM steps WHERE name='between'`, effects: "is not recorded"},
		{name: "effect of a run that does not exist", sql: `INSERT INTO effects VALUES ('01890000-0000-7000-8000-000000000000', '(start)', 0, 0)`, effects: "which does not exist"},
		{name: "start in a transaction whose effect is there twice", sql: `INSERT INTO effects SELECT * FROM effects WHERE step='(start)'`, effects: "took effect 2 times"},
		{name: "start in a transaction whose effect is missing", sql: `DELETE FROM effects WHERE step='(start)'`, effects: "whose effect is missing"},
		{name: "effect of a start that was in no transaction", sql: `INSERT INTO effects SELECT run, '(start)', 0, 0 FROM effects WHERE step='pay'`, effects: "was not started in a transaction"},
		{name: "child lost", sql: `DELETE FROM steps WHERE run_id=(SELECT id FROM runs WHERE workflow='item' ORDER BY id LIMIT 1); DELETE FROM runs WHERE id=(SELECT id FROM runs WHERE workflow='item' ORDER BY id LIMIT 1)`,
			api: "0 times", effects: "which does not exist"},
		{name: "child of a parent that does not exist", sql: `UPDATE runs SET parent=x'01890000000070008000000000000000' WHERE id=(SELECT id FROM runs WHERE workflow='item' ORDER BY id LIMIT 1)`, api: "is a child of run"},
		{name: "child made twice", sql: `UPDATE runs SET input=(SELECT input FROM runs WHERE workflow='item' ORDER BY id LIMIT 1) WHERE workflow='item'`, api: "4 times"},
		{name: "step of an item missing", sql: `DELETE FROM steps WHERE name='make' AND run_id=(SELECT id FROM runs WHERE workflow='item' ORDER BY id LIMIT 1)`, tables: "has 1 steps, expected 2", api: "step make of run"},
		{name: "wait for state missing", sql: `DELETE FROM steps WHERE name='ready'`, tables: "has 3 steps, expected 4", api: "step waits/ready of run"},
		{name: "heavy output cut", sql: `UPDATE steps SET output=substr(output, 1, 1000000) WHERE name='load'`, tables: "step load returned", api: "step load of run"},
		{name: "one of hundreds of signals lost", sql: `DELETE FROM steps WHERE name='word' AND occurrence=250`, tables: "word#250 is missing", api: "step word#250 of run"},
		{name: "signals out of order", sql: `UPDATE steps SET output=(SELECT output FROM steps o WHERE o.run_id=steps.run_id AND o.name='word' AND o.occurrence=7) WHERE name='word' AND occurrence=8`, api: "step word#8 of run"},
		{name: "canceled run completed", sql: `UPDATE runs SET status=6 WHERE workflow='doomed'`, tables: "a run is not canceled", api: "expected it canceled"},
		{name: "canceled run left paused", sql: `UPDATE runs SET status=4, finished_at=NULL WHERE workflow='doomed'`, tables: "a run is not canceled", api: "expected it canceled"},
		{name: "canceled run with a gap", sql: `DELETE FROM steps WHERE name='pay'`, tables: "a branch has a gap", api: "without the one before", effects: "is not recorded"},
		{name: "canceled run with a step of another", sql: `UPDATE steps SET name='odd' WHERE name='pack'`, tables: "does not ask for step odd"},
		{name: "run of a schedule lost", sql: `DELETE FROM steps WHERE name='tick'; DELETE FROM runs WHERE workflow='tick'`, api: "has fired", effects: "which does not exist"},
		{name: "firing lost", sql: `DELETE FROM firings`, api: "is in no record of its firings"},
		{name: "run of a schedule started by two firings", sql: `INSERT INTO firings SELECT namespace, schedule, at+1, fired_at, run FROM firings`, api: "was started at"},
		{name: "history with a hole after a promotion", sql: `DELETE FROM steps` + two, change: forget, tables: "has 2 steps, expected 3", api: "step two of run"},
		{name: "effect lost by a promotion and its record kept", sql: `DELETE FROM effects WHERE step='open'`, change: forget, effects: "took no effect"},
		{name: "record lost by a promotion and its effect kept", sql: `DELETE FROM steps WHERE name='open'`, change: forget, api: "step open of run", effects: "is not recorded"},
		{name: "run lost by a promotion in part", sql: `DELETE FROM runs` + three, change: forget, tables: "a step has no run"},
		{name: "run left behind by a promotion", sql: `UPDATE runs SET status=3, finished_at=NULL` + three, change: forget, tables: "a run is not completed", api: "is sleeping"},
		{name: "paused run left alone", sql: `UPDATE runs SET status=4, finished_at=NULL WHERE workflow='graph'`, tables: "a run is not completed", api: "is paused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pawl.db")
			require.NoError(t, os.WriteFile(file, data, 0o600))
			if c.sql != "" {
				db, err := sql.Open("sqlite", "file:"+file)
				require.NoError(t, err)
				db.SetMaxOpenConns(1)
				_, err = db.ExecContext(t.Context(), c.sql)
				require.NoError(t, err)
				require.NoError(t, db.Close())
			}
			ev := right.clone()
			if c.change != nil {
				c.change(t, ev)
			}
			v := judge(t, allBackends[0], "sqlite:"+file, ev)
			for _, part := range []struct {
				checker string
				got     error
				want    string
			}{{"tables", v.tables, c.tables}, {"API", v.api, c.api}, {"journals", v.journals, c.journals}, {"effects", v.effects, c.effects}} {
				if c.right {
					assert.NoError(t, part.got, part.checker)
				} else if part.want != "" {
					assert.ErrorContains(t, part.got, part.want, part.checker)
				}
			}
		})
	}
}
