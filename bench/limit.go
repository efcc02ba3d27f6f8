package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the hand-written loop
)

// limit is the hand-written loop: what a careful author writes for just this job. It
// works in batches of 100, each one statement or two in one transaction, prepared, on
// one connection, with integer keys and nothing else going on. It does what the
// contract needs and no more: a run is inserted, leased with an epoch and a lease end,
// and finished by its lease holder alone; a step is recorded by the lease holder alone.
type limit struct {
	db                         *sql.DB
	begin, commit              *sql.Stmt
	insert, claim, step, final *sql.Stmt
	inputs                     string
}

const limitBatch = 100

const limitSchema = `
CREATE TABLE runs (
	id INTEGER PRIMARY KEY, queue TEXT NOT NULL, workflow TEXT NOT NULL, status INTEGER NOT NULL, due INTEGER,
	epoch INTEGER NOT NULL, worker TEXT, created INTEGER NOT NULL, finished INTEGER, input BLOB, output BLOB
) STRICT;
CREATE INDEX runs_due ON runs (queue, workflow, due) WHERE due IS NOT NULL;
CREATE TABLE steps (
	run INTEGER NOT NULL, name TEXT NOT NULL, output BLOB, finished INTEGER NOT NULL, PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;`

// The statements of the loop, each for a batch.
const (
	limitInsert = `INSERT INTO runs (queue, workflow, status, due, epoch, created, input)
		SELECT 'bench', 'bench', 1, ?, 0, ?, CAST(value AS BLOB) FROM json_each(?)`
	limitClaim = `UPDATE runs SET status = 2, epoch = epoch + 1, worker = ?, due = ? WHERE id IN (
		SELECT id FROM runs WHERE queue = ? AND workflow = ? AND due <= ? ORDER BY due LIMIT 100) RETURNING id, epoch, CAST(input AS TEXT)`
	limitStep = `INSERT INTO steps (run, name, output, finished)
		SELECT r.id, ?, CAST(j.value->>2 AS BLOB), ? FROM json_each(?) j JOIN runs r ON r.id = j.value->>0 AND r.worker = ? AND r.epoch = j.value->>1`
	limitFinal = `UPDATE runs SET status = 6, due = NULL, worker = NULL, output = CAST(j.value->>2 AS BLOB), finished = ?
		FROM json_each(?) j WHERE runs.id = j.value->>0 AND runs.worker = ? AND runs.epoch = j.value->>1`
)

// limitInputs are those of a batch.
func limitInputs() string {
	in := make([]int, limitBatch)
	for i := range in {
		in[i] = 7
	}
	data, _ := json.Marshal(in) // of numbers: never fails
	return string(data)
}

func openLimit(ctx context.Context, dir string) (*limit, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "limit.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, limitSchema); err != nil {
		return nil, err
	}
	l := &limit{db: db, inputs: limitInputs()}
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&l.begin, `BEGIN IMMEDIATE`},
		{&l.commit, `COMMIT`},
		{&l.insert, limitInsert},
		{&l.claim, limitClaim},
		{&l.step, limitStep},
		{&l.final, limitFinal},
	} {
		if *p.to, err = conn.PrepareContext(ctx, p.sql); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *limit) close() { _ = l.db.Close() }

// tx does one batch in a transaction.
func (l *limit) tx(ctx context.Context, do func() error) error {
	if _, err := l.begin.ExecContext(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	_, err := l.commit.ExecContext(ctx)
	return err
}

func (l *limit) start(ctx context.Context) error {
	return l.tx(ctx, func() error {
		now := time.Now().UnixMicro()
		_, err := l.insert.ExecContext(ctx, now, now, l.inputs)
		return err
	})
}

func (l *limit) one(ctx context.Context) error {
	return l.tx(ctx, func() error {
		now := time.Now().UnixMicro()
		_, err := l.insert.ExecContext(ctx, now, now, "[7]")
		return err
	})
}

const limitWorker = "worker-1"

// take claims a batch and returns it as the later statements want it: a list of id,
// epoch and input.
func (l *limit) take(ctx context.Context) (string, error) {
	var runs [][3]any
	err := l.tx(ctx, func() error {
		now := time.Now()
		rows, err := l.claim.QueryContext(ctx, limitWorker, now.Add(30*time.Second).UnixMicro(), "bench", "bench", now.UnixMicro())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, epoch int64
			var input string
			if err := rows.Scan(&id, &epoch, &input); err != nil {
				return err
			}
			runs = append(runs, [3]any{id, epoch, input})
		}
		return rows.Err()
	})
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(runs)
	return string(data), err
}

// work records steps one after the other, the last one together with the runs'
// completion; without steps, the completion alone.
func (l *limit) work(ctx context.Context, steps []string) error {
	runs, err := l.take(ctx)
	if err != nil {
		return err
	}
	for i := range max(1, len(steps)) {
		err := l.tx(ctx, func() error {
			now := time.Now().UnixMicro()
			if i < len(steps) {
				if _, err := l.step.ExecContext(ctx, steps[i], now, runs, limitWorker); err != nil {
					return err
				}
			}
			if i < len(steps)-1 {
				return nil
			}
			_, err := l.final.ExecContext(ctx, now, runs, limitWorker)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTurn is a loop that does one batch after the other.
type inTurn struct{ batches }

// batches does what is to be done, for a batch each.
type batches interface {
	start(ctx context.Context) error
	one(ctx context.Context) error
	work(ctx context.Context, steps []string) error // takes runs and completes them
	close()
}

func (l inTurn) each(n int, do func() error) error {
	for range n / limitBatch {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (l inTurn) starts(ctx context.Context, n int) error {
	return l.each(n, func() error { return l.start(ctx) })
}

// drain completes runs that were started.
func (l inTurn) drain(ctx context.Context, n int) error {
	return l.each(n, func() error { return l.work(ctx, nil) })
}

// runs starts and completes n runs, batch by batch.
func (l inTurn) runs(ctx context.Context, n int, steps []string) error {
	return l.each(n, func() error {
		if err := l.start(ctx); err != nil {
			return err
		}
		return l.work(ctx, steps)
	})
}
