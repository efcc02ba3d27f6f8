package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// much contains the thresholds for findings. Tests use lower ones.
var much = struct {
	transaction time.Duration // it keeps everything deleted since then
	dead        int64         // rows, more than twice the live ones
	index       int64         // bytes
}{10 * time.Minute, 100_000, 64 << 20}

// entryBytes is the expected size of an index entry.
const entryBytes = 500

// Diagnose implements store.Diagnoser. It uses the server's statistics, which may lag
// behind.
func (s *Store) Diagnose(ctx context.Context) ([]store.Finding, error) {
	if s.in != nil {
		return nil, fmt.Errorf("postgres: a store inside a transaction cannot diagnose the database: %w", store.ErrUnsupported)
	}
	server, err := s.serverFindings(ctx)
	if err != nil {
		return nil, err
	}
	list := append(server, s.poolerFinding(), s.listenFinding(ctx))
	for _, look := range []struct {
		name string
		look func(context.Context, *store.Finding) error
	}{
		{"rights", s.lookAtRights}, {"indexes", s.lookAtIndexes}, {"bloat", s.lookAtBloat}, {"vacuum", s.lookAtVacuum}, {"connections", s.lookAtConnections},
	} {
		f := store.Finding{Name: look.name}
		if err := look.look(ctx, &f); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f.Level, f.Seen = store.Warning, "cannot be checked: "+(&oneLine{err}).Error()
			f.Advice = "if this user lacks a privilege, run pawl doctor as a user that has it"
		}
		list = append(list, f)
	}
	return list, nil
}

// bad raises the level of a finding.
func bad(f *store.Finding, level store.Level, seen, advice string) {
	if f.Level == store.Fine {
		f.Level, f.Seen, f.Advice = level, seen, advice
		return
	}
	f.Level = max(f.Level, level)
	f.Seen += "; " + seen
	f.Advice += "; " + advice
}

func (s *Store) serverFindings(ctx context.Context) ([]store.Finding, error) {
	var version, number, readOnly string
	var at settings
	var standby bool
	var unlogged []string
	err := s.read(ctx, stmt{
		sql: `SELECT current_setting('server_version'), current_setting('server_version_num'), current_setting('synchronous_commit'),
			current_setting('fsync'), current_setting('full_page_writes'), current_setting('default_transaction_read_only'), pg_is_in_recovery(),
			ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace WHERE n.nspname=$1::text AND c.relkind='r' AND c.relpersistence='u' ORDER BY 1)`,
		args: []any{s.config.schema},
		rows: func(scan func(...any) error) error {
			return scan(&version, &number, &at.synchronousCommit, &at.fsync, &at.fullPageWrites, &readOnly, &standby, &unlogged)
		},
	})
	if err != nil {
		return nil, err
	}
	server := s.pool.Config().ConnConfig
	f := store.Finding{Name: "server", Seen: fmt.Sprintf("PostgreSQL %s at %s, database %q, user %q", version, server.Host+":"+strconv.Itoa(int(server.Port)), server.Database, server.User)}
	if n, _ := strconv.Atoi(number); n < 150000 {
		bad(&f, store.Fault, f.Seen, "Pawl needs PostgreSQL 15 or later; upgrade the server")
	}
	w := store.Finding{Name: "writable", Seen: "yes"}
	switch {
	case standby:
		bad(&w, store.Fault, "no, this server is a standby", "name the primary in the URL, or all servers with target_session_attrs=read-write")
	case readOnly == "on":
		bad(&w, store.Fault, "no, default_transaction_read_only is on", "turn it off for this database or user")
	}
	i := store.Finding{Name: "isolation", Seen: "read committed, as Pawl's writes need"}
	if s.isolated {
		i.Seen = "connections start above read committed; Pawl's own transactions set the level that they need"
	}
	d := at.finding()
	if len(unlogged) > 0 {
		bad(&d, store.Warning, "tables are not logged: "+few(unlogged)+"; a crash of the server empties them", "run ALTER TABLE ... SET LOGGED on them")
	}
	return []store.Finding{f, w, d, i}, nil
}

func (s *Store) poolerFinding() store.Finding {
	f := store.Finding{Name: "pooler", Seen: "none"}
	switch {
	case s.unprepared:
		f.Seen = "present; statements are not prepared"
		f.Advice = "if it tracks prepared statements (PgBouncer 1.21 or later with max_prepared_statements), set default_query_exec_mode=cache_statement in the URL to make calls faster"
	case s.deaf || s.config.listen != nil:
		f.Seen = "present, or a URL for LISTEN is set"
	}
	return f
}

// hearing is how long a notification may take.
const hearing = 5 * time.Second

// listenFinding sends itself a notification on a connection of its own.
func (s *Store) listenFinding(ctx context.Context) store.Finding {
	f := store.Finding{Name: "listen"}
	if s.deaf {
		bad(&f, store.Warning, "notifications of other processes do not pass the pooler; the store polls for their writes",
			"set a URL that bypasses the pooler: listen=... in the URL, or WithListenURL")
		return f
	}
	began := time.Now()
	if err := s.hears(ctx); err != nil {
		bad(&f, store.Warning, "notifications do not arrive: "+(&oneLine{err}).Error(),
			"the store polls instead, which is slower; check that nothing between this machine and the server closes idle connections, and that the server accepts one more connection")
		return f
	}
	f.Seen = fmt.Sprintf("a notification arrived in %v", time.Since(began).Round(100*time.Microsecond))
	return f
}

func (s *Store) hears(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearing)
	defer cancel()
	conn, err := s.relay.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUpSoon(conn)
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{s.relay.all}.Sanitize()); err != nil {
		return err
	}
	mark := sqlkit.JSON(notice{From: s.relay.self + "?"}) // other processes ignore it
	if err := s.write(ctx, stmt{sql: `SELECT pg_notify($1::text, $2::text)`, args: []any{s.relay.all, mark}}); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return errDeaf
		case err != nil:
			return err
		case n.Payload == mark:
			return nil
		}
	}
}

// column reads a column of text.
func (s *Store) column(ctx context.Context, sql string, args ...any) (list []string, err error) {
	err = s.read(ctx, stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		var t string
		err := scan(&t)
		list = append(list, t)
		return err
	}})
	return list, err
}

func (s *Store) lookAtRights(ctx context.Context, f *store.Finding) error {
	missing, err := s.column(ctx, `SELECT c.relname||': '||p FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace,
		unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE']) p
		WHERE n.nspname=$1::text AND c.relkind IN ('r','p') AND NOT has_table_privilege(c.oid, p) AND NOT (c.relname IN ('migrations', 'compatibility') AND p<>'SELECT')
		ORDER BY 1`, s.config.schema)
	if err != nil {
		return err
	}
	f.Seen = "this user may read and write every table"
	if len(missing) > 0 {
		schema, user := pgx.Identifier{s.config.schema}.Sanitize(), pgx.Identifier{s.pool.Config().ConnConfig.User}.Sanitize()
		bad(f, store.Fault, "this user lacks privileges: "+few(missing), fmt.Sprintf("run GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s", schema, user))
	}
	return nil
}

// few shortens a list.
func few(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], ", ") + fmt.Sprintf(" and %d more", len(list)-5)
	}
	return strings.Join(list, ", ")
}

var madeOrDropped = regexp.MustCompile(`(?i)^(CREATE(?: UNIQUE)?|DROP|ALTER) INDEX (?:CONCURRENTLY )?(?:IF (?:NOT )?EXISTS )?(?:pawl\.)?(\w+)(?: RENAME TO (\w+))?`)

// indexes lists the indexes that the migrations create and do not drop.
func indexes(list []migration) (names []string) {
	for _, m := range list {
		for _, p := range m.parts {
			for _, sql := range p.stmts {
				found := madeOrDropped.FindStringSubmatch(sql)
				if found == nil {
					continue
				}
				names = slices.DeleteFunc(names, func(n string) bool { return n == found[2] })
				switch strings.ToUpper(found[1]) {
				case "DROP":
				case "ALTER":
					names = append(names, found[3])
				default:
					names = append(names, found[2])
				}
			}
		}
	}
	return names
}

func (s *Store) lookAtIndexes(ctx context.Context, f *store.Finding) error {
	known, err := readMigrations()
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, s.pool, s.config.schema)
	if err != nil {
		return err
	}
	var valid, broken []string
	err = s.read(ctx, stmt{
		sql: `SELECT c.relname, i.indisvalid AND i.indisready FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid JOIN pg_namespace n ON n.oid=c.relnamespace
			WHERE n.nspname=$1::text ORDER BY 1`,
		args: []any{s.config.schema},
		rows: func(scan func(...any) error) error {
			var name string
			var ok bool
			err := scan(&name, &ok)
			if ok {
				valid = append(valid, name)
			} else {
				broken = append(broken, name)
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	f.Seen = "all present"
	var missing []string
	for _, name := range indexes(known) {
		if version <= newest(known) && !slices.Contains(valid, name) && !slices.Contains(broken, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		bad(f, store.Fault, "missing: "+strings.Join(missing, ", "), "they were dropped, and without them claims read all runs; create them as pawl migrate sql shows")
	}
	if len(broken) > 0 {
		bad(f, store.Fault, "not valid: "+strings.Join(broken, ", "), "run REINDEX INDEX CONCURRENTLY on each, or drop those that pawl migrate sql does not show")
	}
	return nil
}

func (s *Store) lookAtBloat(ctx context.Context, f *store.Finding) error {
	f.Seen = "no table or index is much larger than its contents"
	var tables, large []string
	err := s.read(ctx,
		stmt{
			sql: `SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname=$1::text ORDER BY 1`, args: []any{s.config.schema},
			rows: func(scan func(...any) error) error {
				var name string
				var live, dead int64
				err := scan(&name, &live, &dead)
				if dead > much.dead && dead > 2*live {
					tables = append(tables, fmt.Sprintf("%s has %d dead rows and %d live ones", name, dead, live))
				}
				return err
			},
		},
		stmt{
			sql: `SELECT c.relname, pg_relation_size(c.oid), greatest(c.reltuples, 0)::bigint FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid JOIN pg_namespace n ON n.oid=c.relnamespace
				WHERE n.nspname=$1::text ORDER BY 1`, args: []any{s.config.schema},
			rows: func(scan func(...any) error) error {
				var name string
				var size, entries int64
				err := scan(&name, &size, &entries)
				if size > much.index && size > entryBytes*entries {
					large = append(large, fmt.Sprintf("%s has %d MB for about %d entries", name, size>>20, entries))
				}
				return err
			},
		})
	if err != nil {
		return err
	}
	if len(tables) > 0 {
		bad(f, store.Warning, few(tables), "vacuum falls behind: see the finding vacuum below, or run VACUUM (VERBOSE) on them to see why")
	}
	if len(large) > 0 {
		bad(f, store.Warning, few(large), "run REINDEX INDEX CONCURRENTLY on them; if the table was never analyzed, run ANALYZE first")
	}
	return nil
}

// lookAtVacuum checks what keeps vacuum from removing dead rows. Every change of a run
// leaves some.
func (s *Store) lookAtVacuum(ctx context.Context, f *store.Finding) error {
	f.Seen = "autovacuum is on, and nothing holds it back"
	var on string
	var off, long, slots, prepared []string
	column := func(to *[]string) func(func(...any) error) error {
		return func(scan func(...any) error) error {
			var t string
			err := scan(&t)
			*to = append(*to, t)
			return err
		}
	}
	err := s.read(ctx,
		stmt{sql: `SELECT current_setting('autovacuum')`, rows: func(scan func(...any) error) error { return scan(&on) }},
		stmt{
			sql: `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace WHERE n.nspname=$1::text AND c.relkind='r'
				AND 'autovacuum_enabled=false'=ANY(c.reloptions) ORDER BY 1`, args: []any{s.config.schema}, rows: column(&off),
		},
		stmt{
			sql: `SELECT 'process '||pid||' ('||coalesce(nullif(application_name, ''), usename::text, backend_type)||', '||coalesce(state, 'unknown')||') for '
					||(extract(epoch FROM clock_timestamp()-xact_start)::bigint/60)||' minutes'
				FROM pg_stat_activity WHERE backend_type='client backend' AND xact_start<clock_timestamp()-make_interval(secs => $1::double precision) AND backend_xmin IS NOT NULL
				ORDER BY xact_start`,
			args: []any{much.transaction.Seconds()}, rows: column(&long),
		},
		stmt{
			sql:  `SELECT slot_name::text FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL OR restart_lsn IS NOT NULL) ORDER BY 1`,
			rows: column(&slots),
		},
		stmt{
			sql:  `SELECT quote_literal(gid) FROM pg_prepared_xacts WHERE prepared<clock_timestamp()-make_interval(secs => $1::double precision) ORDER BY 1`,
			args: []any{much.transaction.Seconds()}, rows: column(&prepared),
		})
	if err != nil {
		return err
	}
	if on != "on" {
		bad(f, store.Fault, "autovacuum is off", "turn it on: without it, claims get slower with every run")
	}
	if len(off) > 0 {
		bad(f, store.Fault, "autovacuum is off for "+few(off), "run ALTER TABLE ... RESET (autovacuum_enabled) on them")
	}
	if len(long) > 0 {
		bad(f, store.Warning, "long transactions are open: "+few(long), "they keep dead rows, which make claims slower; end them, if necessary with pg_terminate_backend(pid), and set idle_in_transaction_session_timeout")
	}
	if len(prepared) > 0 {
		bad(f, store.Warning, "prepared transactions are open: "+few(prepared), "commit them or roll them back")
	}
	if len(slots) > 0 {
		bad(f, store.Warning, "unused replication slots: "+few(slots), "drop them with pg_drop_replication_slot, unless their consumers return soon")
	}
	return nil
}

func (s *Store) lookAtConnections(ctx context.Context, f *store.Finding) error {
	var used, most int
	err := s.read(ctx, stmt{
		sql: `SELECT (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type='client backend'),
			current_setting('max_connections')::int-current_setting('superuser_reserved_connections')::int`,
		rows: func(scan func(...any) error) error { return scan(&used, &most) },
	})
	if err != nil {
		return err
	}
	f.Seen = fmt.Sprintf("%d of %d in use", used, most)
	if used*10 > most*9 {
		bad(f, store.Warning, f.Seen, "the server will soon accept no more connections; make the pools smaller (pool_max_conns in the URL), or put a pooler in front of the server")
	}
	return nil
}
