// Package source is a source of truth: documents in a SQLite database, and a log of
// all that happened to them, written in the same transactions.
package source

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// Document is a document at one version.
type Document struct {
	ID      string
	Version int64 // the offset of the change that made it: higher is newer, also behind a deletion
	Title   string
	Body    string
}

// Hash is of the document's contents.
func (d Document) Hash() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(d.Title), d.Title, d.Body))
}

// Change is an entry of the log. Of a deleted document, ID and Version are set.
type Change struct {
	Document
	Deleted bool
	At      time.Time
}

// Offset is the change's place in the log, from 1, and the document's version.
func (c Change) Offset() int64 { return c.Version }

// Source holds documents and their log. Several processes may have it open.
type Source struct{ db *sql.DB }

// A document's version is the offset of the change that made it. So versions of
// one document grow even when it is deleted and made again, and nothing has to be
// kept of a deleted one. AUTOINCREMENT never gives an offset twice.
//
// SQLite has one writer at a time, so offsets become visible in their order. Where
// that is not so (a sequence in PostgreSQL), a reader of the log must not step over
// an offset whose transaction is still open: see docs/patterns.md.
const schema = `
CREATE TABLE IF NOT EXISTS changes (
	offset  INTEGER PRIMARY KEY AUTOINCREMENT,
	doc     TEXT NOT NULL,
	deleted INTEGER NOT NULL,
	title   TEXT NOT NULL,
	body    TEXT NOT NULL,
	at      INTEGER NOT NULL -- microseconds
) STRICT;
CREATE TABLE IF NOT EXISTS documents (
	id      TEXT PRIMARY KEY,
	version INTEGER NOT NULL,
	title   TEXT NOT NULL,
	body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;`

// Open opens the source in a file, and makes it if there is none.
func Open(ctx context.Context, file string) (*Source, error) {
	params := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: params.Encode()}).String())
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("source %s: %w", file, err), db.Close())
	}
	return &Source{db}, nil
}

// Close closes it.
func (s *Source) Close() error { return s.db.Close() }

// A querier is the database or a transaction on it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// End is the offset of the last change; 0: none.
func (s *Source) End(ctx context.Context) (int64, error) { return end(ctx, s.db) }

func end(ctx context.Context, q querier) (offset int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(offset), 0) FROM changes`).Scan(&offset)
	return offset, err
}

// Count is how many documents there are.
func (s *Source) Count(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM documents`).Scan(&n)
	return n, err
}

// Changes returns at most limit changes behind an offset, in their order.
func (s *Source) Changes(ctx context.Context, after int64, limit int) ([]Change, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT offset, doc, deleted, title, body, at FROM changes WHERE offset > ? ORDER BY offset LIMIT ?`, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var changes []Change
	for rows.Next() {
		var c Change
		var at int64
		if err := rows.Scan(&c.Version, &c.ID, &c.Deleted, &c.Title, &c.Body, &at); err != nil {
			return nil, err
		}
		c.At = time.UnixMicro(at)
		changes = append(changes, c)
	}
	return changes, rows.Err()
}

// Page returns at most limit documents behind an id, in the order of their ids. Pages
// are read at different times: a scan over all of them sees each document that was
// there throughout, at some version, and perhaps others.
func (s *Source) Page(ctx context.Context, after string, limit int) (page []Document, err error) {
	for d, err := range documents(ctx, s.db, after, limit) {
		if err != nil {
			return nil, err
		}
		page = append(page, d)
	}
	return page, nil
}

func documents(ctx context.Context, q querier, after string, limit int) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		rows, err := q.QueryContext(ctx, `SELECT id, version, title, body FROM documents WHERE id > ? ORDER BY id LIMIT ?`, after, limit)
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var d Document
			if err := rows.Scan(&d.ID, &d.Version, &d.Title, &d.Body); err != nil {
				yield(Document{}, err)
				return
			}
			if !yield(d, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Document{}, err)
		}
	}
}

// Snapshot is the source as it was at one moment. Writers go on meanwhile.
type Snapshot struct {
	tx  *sql.Tx
	end int64
}

// Snapshot takes one. It must be closed.
func (s *Source) Snapshot(ctx context.Context) (*Snapshot, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	e, err := end(ctx, tx) // the first read fixes what all others see
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return &Snapshot{tx, e}, nil
}

// End is the offset of the last change that the snapshot has.
func (s *Snapshot) End() int64 { return s.end }

// Documents are those of the snapshot, in the order of their ids.
func (s *Snapshot) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return documents(ctx, s.tx, "", -1)
}

// Close ends it.
func (s *Snapshot) Close() error { return s.tx.Rollback() }

// Tx is a transaction of a writer.
type Tx struct {
	tx *sql.Tx
	at time.Time
}

// Write runs fn in a transaction: documents and log change together or not at all.
func (s *Source) Write(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(&Tx{tx, time.Now()}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Has says whether a document is there.
func (t *Tx) Has(ctx context.Context, id string) (has bool, err error) {
	err = t.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM documents WHERE id = ?)`, id).Scan(&has)
	return has, err
}

// Put makes a document or gives it new contents, and returns its version.
func (t *Tx) Put(ctx context.Context, id, title, body string) (version int64, err error) {
	version, err = t.log(ctx, id, false, title, body)
	if err != nil {
		return 0, err
	}
	_, err = t.tx.ExecContext(ctx, `INSERT INTO documents (id, version, title, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, title = excluded.title, body = excluded.body`, id, version, title, body)
	return version, err
}

// Delete removes a document and returns the offset of its deletion.
func (t *Tx) Delete(ctx context.Context, id string) (version int64, err error) {
	version, err = t.log(ctx, id, true, "", "")
	if err != nil {
		return 0, err
	}
	_, err = t.tx.ExecContext(ctx, `DELETE FROM documents WHERE id = ?`, id)
	return version, err
}

func (t *Tx) log(ctx context.Context, id string, deleted bool, title, body string) (offset int64, err error) {
	res, err := t.tx.ExecContext(ctx, `INSERT INTO changes (doc, deleted, title, body, at) VALUES (?, ?, ?, ?, ?)`, id, deleted, title, body, t.at.UnixMicro())
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}
