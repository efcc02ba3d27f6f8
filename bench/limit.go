package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the hand-written loop
)

// limit is the hand-written loop: what a careful author writes for just this job,
// in batches of 100 in one transaction each, prepared, one connection, nothing
// else going on. It does what the contract needs and no more: a run is inserted,
// leased with an epoch and a lease end, and finished by its lease holder alone; a
// step is recorded by the lease holder alone.
type limit struct {
	db                         *sql.DB
	conn                       *sql.Conn
	begin, commit              *sql.Stmt
	insert, claim, step, final *sql.Stmt
	next                       uint64
}

const limitBatch = 100

const limitSchema = `
CREATE TABLE runs (
	id BLOB PRIMARY KEY, queue TEXT NOT NULL, workflow TEXT NOT NULL, status INTEGER NOT NULL, due INTEGER,
	epoch INTEGER NOT NULL, worker TEXT, created INTEGER NOT NULL, finished INTEGER, input BLOB, output BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_due ON runs (queue, workflow, due) WHERE due IS NOT NULL;
CREATE TABLE steps (
	run BLOB NOT NULL, name TEXT NOT NULL, output BLOB, finished INTEGER NOT NULL, PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;`

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
	l := &limit{db: db, conn: conn}
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&l.begin, `BEGIN IMMEDIATE`},
		{&l.commit, `COMMIT`},
		{&l.insert, `INSERT INTO runs (id, queue, workflow, status, due, epoch, created, input) VALUES (?, ?, ?, 1, ?, 0, ?, ?)`},
		{&l.claim, `UPDATE runs SET status = 2, epoch = epoch + 1, worker = ?, due = ? WHERE id IN (
			SELECT id FROM runs WHERE queue = ? AND workflow = ? AND due <= ? ORDER BY due LIMIT ?) RETURNING id, epoch, input`},
		{&l.step, `INSERT INTO steps (run, name, output, finished) SELECT id, ?, ?, ? FROM runs WHERE id = ? AND worker = ? AND epoch = ?`},
		{&l.final, `UPDATE runs SET status = 6, due = NULL, worker = NULL, output = ?, finished = ? WHERE id = ? AND worker = ? AND epoch = ?`},
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
		for range limitBatch {
			l.next++
			id := make([]byte, 16)
			binary.BigEndian.PutUint64(id, l.next)
			now := time.Now().UnixMicro()
			if _, err := l.insert.ExecContext(ctx, id, "bench", "bench", now, now, []byte("7")); err != nil {
				return err
			}
		}
		return nil
	})
}

type limitRun struct {
	id    []byte
	epoch int64
	input []byte
}

func (l *limit) take(ctx context.Context) (runs []limitRun, err error) {
	err = l.tx(ctx, func() error {
		now := time.Now()
		rows, err := l.claim.QueryContext(ctx, "worker-1", now.Add(30*time.Second).UnixMicro(), "bench", "bench", now.UnixMicro(), limitBatch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r limitRun
			if err := rows.Scan(&r.id, &r.epoch, &r.input); err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return rows.Err()
	})
	return runs, err
}

// work records steps one after the other, the last one together with the run's
// completion; without steps, the completion alone.
func (l *limit) work(ctx context.Context, runs []limitRun, steps []string) error {
	for i := range max(1, len(steps)) {
		err := l.tx(ctx, func() error {
			for _, r := range runs {
				now := time.Now().UnixMicro()
				if i < len(steps) {
					if _, err := l.step.ExecContext(ctx, steps[i], r.input, now, r.id, "worker-1", r.epoch); err != nil {
						return err
					}
				}
				if i >= len(steps)-1 {
					if _, err := l.final.ExecContext(ctx, r.input, now, r.id, "worker-1", r.epoch); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runs starts and completes n runs, batch by batch.
func (l *limit) runs(ctx context.Context, n int, steps []string) error {
	for range n / limitBatch {
		if err := l.start(ctx); err != nil {
			return err
		}
		taken, err := l.take(ctx)
		if err != nil {
			return err
		}
		if err := l.work(ctx, taken, steps); err != nil {
			return err
		}
	}
	return nil
}
