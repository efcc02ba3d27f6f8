package sqlitecore

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// verbs are the verbs that work the same way on every SQL database.
type verbs = sqlkit.Verbs

// db implements sqlkit.DB.
type db struct{ *Core }

// Dialect implements sqlkit.DB.
func (db) Dialect() sqlkit.Dialect { return sqlkit.SQLite }

// Read implements sqlkit.DB.
func (d db) Read(ctx context.Context, stmts ...Stmt) error { return d.read(ctx, stmts...) }

// Write implements sqlkit.DB.
func (d db) Write(ctx context.Context, stmts ...Stmt) error { return d.runner.Write(ctx, stmts) }

// Moment implements sqlkit.DB.
func (d db) Moment(ctx context.Context, set time.Time) (now, late any, err error) {
	m, err := d.moment(ctx, set)
	return m.now, m.late, err
}

// Publish implements sqlkit.DB.
func (d db) Publish(_ context.Context, hints ...store.Hint) { d.publish(hints...) }

// ID implements sqlkit.DB.
func (db) ID(id store.ID) any { return id[:] }

// Blob implements sqlkit.DB.
func (db) Blob(dst *[]byte) any { return sqlkit.Blob(dst) }
