package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// schemas are those of a tier whose cases have a store each. To migrate a schema and to drop it takes as long as many a case, so
// that a schema is emptied after its case and used by another one. That of a case that has failed is not.
type schemas struct {
	tier *testing.T

	mu   sync.Mutex
	free []place
}

type place struct{ url, schema string }

// next returns a schema that is empty, or not yet migrated. The stores in it must be closed when the test ends.
func (s *schemas) next(t testing.TB) (url, schema string) {
	s.mu.Lock()
	var p place
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	}
	s.mu.Unlock()
	if p.schema == "" {
		p.url, p.schema = pgtest.Schema(s.tier)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if err := p.empty(); err != nil {
			t.Logf("the schema is not used again: %v", err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, p)
	})
	return p.url, p.schema
}

// empty deletes all rows but those of migrations. It fails if a client still works in the schema.
func (p place) empty() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, fmt.Sprintf(`SET lock_timeout='5s'; DO $$
		DECLARE t regclass; used boolean; list text := '';
		BEGIN
			FOR t IN SELECT oid FROM pg_class WHERE relnamespace='%s'::regnamespace AND relkind='r' AND relname NOT IN ('migrations', 'compatibility') LOOP
				EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || t || ')' INTO used;
				IF used THEN list := list || ', ' || t; END IF;
			END LOOP;
			IF list<>'' THEN EXECUTE 'TRUNCATE ' || substr(list, 3); END IF;
		END $$`, p.schema))
	return err
}
