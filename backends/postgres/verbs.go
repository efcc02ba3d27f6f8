package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// verbs are the verbs that work the same way on every SQL database.
type verbs = sqlkit.Verbs

func newStore(b *base, in inner, later *[]sqlkit.Hint) *Store {
	s := &Store{base: b, in: in, later: later}
	s.verbs = sqlkit.NewVerbs(db{s})
	return s
}

// db implements sqlkit.DB.
type db struct{ *Store }

// Dialect implements sqlkit.DB.
func (db) Dialect() sqlkit.Dialect { return sqlkit.PostgreSQL }

// Read implements sqlkit.DB.
func (d db) Read(ctx context.Context, list ...sqlkit.Stmt) error { return d.read(ctx, own(list)...) }

// Write implements sqlkit.DB.
func (d db) Write(ctx context.Context, list ...sqlkit.Stmt) error { return d.write(ctx, own(list)...) }

func own(list []sqlkit.Stmt) []stmt {
	stmts := make([]stmt, len(list))
	for i, st := range list {
		stmts[i] = stmt{sql: st.SQL, args: st.Args, rows: st.Rows, affected: st.Affected}
	}
	return stmts
}

// Moment implements sqlkit.DB. The present time is the server's.
func (db) Moment(_ context.Context, set time.Time) (now, late any, err error) {
	now = setNow(set)
	return now, now, nil
}

// Publish implements sqlkit.DB.
func (d db) Publish(ctx context.Context, hints ...store.Hint) {
	for _, h := range hints {
		d.publish(sqlkit.Hint{Hint: h})
	}
}

// ID implements sqlkit.DB.
func (db) ID(id store.ID) any { return pgtype.UUID{Bytes: id, Valid: true} }

// Blob implements sqlkit.DB.
func (db) Blob(dst *[]byte) any { return dst }

// PutWorkflows implements store.Registry.
func (s *Store) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	if err := s.verbs.PutWorkflows(ctx, p); err != nil {
		return err
	}
	lanes := make([]lane, len(p.Workflows))
	for i, w := range p.Workflows {
		lanes[i] = lane{w.Queue, w.Name, 0}
	}
	return s.ensureLanes(ctx, p.Namespace, lanes)
}
