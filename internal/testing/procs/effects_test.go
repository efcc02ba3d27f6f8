package procs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// The table of effects is the program's own, in the store's database. The transactions of the
// program and of steps write rows there, exactly as many as the runs or records that were committed
// with them. The table has no key, so that only the count shows duplicates.
const makeEffects = `CREATE TABLE IF NOT EXISTS effects (run text NOT NULL, step text NOT NULL, epoch bigint NOT NULL, attempt bigint NOT NULL)`

// startEffect is the "step" of the row that is written with a run's start.
const startEffect = "(start)"

// effectRow is the statement that adds a row. Its values need no quoting.
func effectRow(run store.ID, step string, epoch int64, attempt int) string {
	return fmt.Sprintf(`INSERT INTO effects (run, step, epoch, attempt) VALUES ('%s', '%s', %d, %d)`, run, step, epoch, attempt)
}

func stepEffect(ctx context.Context) string {
	info := exec.Info(ctx)
	return effectRow(info.Inv.Run().ID, info.Key.String(), info.Inv.Lease().Epoch, info.Attempt)
}

// A program is the database as the program itself uses it.
type program struct {
	db       *sql.DB
	postgres bool
}

// openProgram opens the database of a store's URL. On PostgreSQL its connections have a
// name of their own, so that they are not counted as the store's.
func openProgram(url string) (*program, error) {
	if strings.HasPrefix(url, "postgres:") {
		cfg, err := pgxpool.ParseConfig(url) // it removes the pool's parameters
		if err != nil {
			return nil, err
		}
		cfg.ConnConfig.RuntimeParams["application_name"] = "program"
		db := stdlib.OpenDB(*cfg.ConnConfig)
		db.SetMaxOpenConns(2)
		db.SetConnMaxLifetime(time.Second) // a session may have begun when the database was read-only
		return &program{db, true}, nil
	}
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &program{db, false}, nil
}

// prepare makes the table.
func (p *program) prepare(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, makeEffects)
	return err
}

// inTx calls fn in a transaction, and commits it. After an error the outcome may be unknown.
func (p *program) inTx(ctx context.Context, fn func(tx *sql.Tx, as store.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	as := sqlite.InTx(tx)
	if p.postgres {
		as = postgres.InSQLTx(tx)
	}
	if err := fn(tx, as); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// An effectCount is what the table contains for a run and one of its steps.
type effectCount struct {
	rows  int
	epoch int64
}

// readEffects reads the table, by run and step.
func readEffects(ctx context.Context, url string) (map[string]map[string]effectCount, error) {
	p, err := openProgram(url)
	if err != nil {
		return nil, err
	}
	defer p.db.Close()
	rows, err := p.db.QueryContext(ctx, `SELECT run, step, count(*), max(epoch) FROM effects GROUP BY run, step`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]map[string]effectCount{}
	for rows.Next() {
		var run, step string
		var e effectCount
		if err := rows.Scan(&run, &step, &e.rows, &e.epoch); err != nil {
			return nil, err
		}
		if all[run] == nil {
			all[run] = map[string]effectCount{}
		}
		all[run][step] = e
	}
	return all, rows.Err()
}

// checkEffectRows compares the table of effects with what is recorded. There must be a row for each recorded step
// with a transaction, with the epoch that recorded it, and one for each run that was started in a transaction; and
// no other row. It returns how many rows there are, and how many effects occur more than once.
func (out *outcome) checkEffectRows(effects map[string]map[string]effectCount) (total, doubled int, _ error) {
	var c complaints
	for run, list := range effects {
		for step, e := range list {
			total += e.rows
			if e.rows != 1 {
				doubled++
				c.addf("%s of run %s took effect %d times", step, run, e.rows)
			}
		}
		id, err := store.ParseID(run)
		if _, found := out.runs[id]; err != nil || !found {
			c.addf("there are effects of run %s, which does not exist", run)
			continue
		}
		for step := range list {
			if step == startEffect {
				if !out.orders[id].InTx {
					c.addf("run %s was not started in a transaction, yet that has an effect", run)
				}
				continue
			}
			key, err := parseKey(step)
			if s, recorded := out.steps[id][key]; err != nil || !recorded || s.Status != store.StepCompleted {
				c.addf("%s of run %s took effect and is not recorded", step, run)
			}
		}
	}
	for id, steps := range out.steps {
		list, o := effects[id.String()], out.orders[id]
		if o.InTx && list[startEffect].rows == 0 {
			c.addf("run %s was started in a transaction, whose effect is missing", id)
		}
		for _, w := range o.steps() {
			s, recorded := steps[w.StepKey]
			e := list[w.StepKey.String()]
			switch {
			case !w.tx || !recorded || s.Status != store.StepCompleted:
			case e.rows == 0:
				c.addf("step %s of run %s is recorded and took no effect", w.StepKey, id)
			case e.epoch != s.Epoch:
				c.addf("step %s of run %s took effect in epoch %d and was recorded in epoch %d", w.StepKey, id, e.epoch, s.Epoch)
			}
		}
	}
	return total, doubled, c.err()
}

// inTxStep is a step in a transaction, which fails in its first attempts after it has
// written. native asks for a transaction of pgx where there is one.
func (l *load) inTxStep(ctx workflow.Context, o order, name string, native bool, fails int) error {
	if native && l.postgres {
		_, err := workflow.StepTx(ctx, name, func(ctx context.Context, tx pgx.Tx) (string, error) { return l.pgxEffect(ctx, tx, o, name, fails) }, txOptions...)
		return err
	}
	_, err := workflow.StepTx(ctx, name, func(ctx context.Context, tx *sql.Tx) (string, error) { return l.sqlEffect(ctx, tx, o, name, fails) }, txOptions...)
	return err
}

// txOptions allows for errors and hanging calls in the function's own statements.
var txOptions = []workflow.StepOption{
	workflow.Attempts(1000), workflow.Backoff(20*time.Millisecond, 1, 20*time.Millisecond), workflow.Timeout(3 * time.Second),
}

func (l *load) pgxEffect(ctx context.Context, tx pgx.Tx, o order, name string, fails int) (string, error) {
	if _, err := tx.Exec(ctx, stepEffect(ctx)); err != nil {
		return "", err
	}
	return l.afterEffect(ctx, o, name, fails)
}

func (l *load) sqlEffect(ctx context.Context, tx *sql.Tx, o order, name string, fails int) (string, error) {
	if _, err := tx.ExecContext(ctx, stepEffect(ctx)); err != nil {
		return "", err
	}
	return l.afterEffect(ctx, o, name, fails)
}

func (l *load) afterEffect(ctx context.Context, o order, name string, fails int) (string, error) {
	l.toil()
	if workflow.Attempt(ctx) <= fails {
		return "", errors.New("not yet")
	}
	return o.says(name), nil
}

// parseKey is the inverse of [store.StepKey.String] for the keys of the workload: all steps
// with an effect are the first of their name.
func parseKey(text string) (store.StepKey, error) {
	branch, name := "", text
	if i := strings.LastIndex(text, "/"); i >= 0 {
		branch, name = text[:i], text[i+1:]
	}
	key := store.StepKey{Branch: branch, Name: name, Occurrence: 1}
	if key.String() != text {
		return key, fmt.Errorf("%q is no step key: that of %+v is %q", text, key, key.String())
	}
	return key, nil
}
