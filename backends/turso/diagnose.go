package turso

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// farAway is the round-trip time from which every step of a run feels slow.
const farAway = 250 * time.Millisecond

// Diagnose implements store.Diagnoser.
func (s *Store) Diagnose(ctx context.Context) ([]store.Finding, error) {
	var version string
	ask := func() (time.Duration, error) {
		began := time.Now()
		err := s.runner.Read(ctx, []sqlitecore.Stmt{{SQL: `SELECT sqlite_version()`, Rows: func(scan func(...any) error) error { return scan(&version) }}})
		return time.Since(began), err
	}
	if _, err := ask(); err != nil { // this connects
		return nil, err
	}
	trip, err := ask()
	if err != nil {
		return nil, err
	}
	list := []store.Finding{{Name: "server", Seen: fmt.Sprintf("%s, SQLite %s", s.config.host(), version)}}

	f := store.Finding{Name: "round trip", Seen: trip.Round(100 * time.Microsecond).String()}
	if trip > farAway {
		f.Level, f.Advice = store.Warning, "every call takes that long; run the workers closer to the database's primary"
	}
	list = append(list, f)

	f = store.Finding{Name: "transport", Seen: "encrypted"}
	if s.config.url.Scheme == "http" {
		f.Seen = "not encrypted"
		if s.config.token != "" {
			f.Level, f.Advice = store.Warning, "others on the network can read the token; use libsql:// or https://, unless you trust the network"
		}
	}
	list = append(list, f)

	v, err := s.runner.version(ctx, true)
	if err != nil {
		return nil, err
	}
	f = store.Finding{Name: "changes", Seen: "the server counts them, so polling for work reads no rows"}
	if s.config.transport != nil {
		f.Seen, f.Advice = "the transport does not report them", "an idle worker polls every max_sleep; the built-in client of package turso avoids that"
	} else if v == nil {
		f.Level, f.Seen = store.Warning, "the server does not count changes"
		f.Advice = "each poll of an idle worker reads the claim index; a newer libSQL server avoids that"
	}
	list = append(list, f)

	f, err = s.durabilityFinding(ctx)
	if err != nil {
		return nil, err
	}
	list = append(list, f)

	missing, err := s.MissingIndexes(ctx)
	if err != nil {
		return nil, err
	}
	return append(list, sqlitecore.IndexFinding(missing)), nil
}

// durabilityFinding reports what a commit waits for. Some servers do not say.
func (s *Store) durabilityFinding(ctx context.Context) (store.Finding, error) {
	var level int64 = -1
	err := s.runner.Read(ctx, []sqlitecore.Stmt{{SQL: `PRAGMA synchronous`, Rows: func(scan func(...any) error) error { return scan(&level) }}})
	if ctx.Err() != nil {
		return store.Finding{}, ctx.Err()
	}
	f := store.Finding{Name: "durability"}
	switch {
	case err != nil || level < 0:
		f.Seen = "the server does not report what a commit waits for"
	case level == 0:
		f.Level, f.Seen = store.Warning, "synchronous is OFF: a crash of the server's machine may destroy the database"
		f.Advice = "use a server that syncs its log to disk"
	case level == 1:
		f.Seen = "synchronous is NORMAL, as is usual with libSQL: a crash of the server's machine may lose the last commits"
	default:
		f.Seen = "a commit waits for the disk"
	}
	return f, nil
}
