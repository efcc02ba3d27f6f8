package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/store"
)

// SchemaOf reports which migrations a schema has had. It changes nothing. It takes the same
// arguments as Open.
func SchemaOf(ctx context.Context, url string, opts ...Option) (store.Schema, error) {
	url, opts, err := parameters(url, opts)
	if err != nil {
		return store.Schema{}, err
	}
	c := newConfig(opts)
	if err := checkSchema(c.schema); err != nil {
		return store.Schema{}, err
	}
	pc, err := pgxpool.ParseConfig(url) // a connection ignores pool_max_conns and similar parameters
	if err != nil {
		return store.Schema{}, store.Invalid("database URL", err.Error()) // pgx hides the password
	}
	at := pc.ConnConfig
	first, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	list, minimum, err := applied(first, at, c.schema)
	if err != nil {
		if ctx.Err() != nil {
			return store.Schema{}, ctx.Err()
		}
		return store.Schema{}, openError(err, at, c.schema)
	}
	known, err := readMigrations()
	if err != nil {
		return store.Schema{}, err
	}
	s := store.Schema{
		Place:   fmt.Sprintf("schema %q of database %q at %s", c.schema, at.Database, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))),
		Newest:  int64(newest(known)),
		Minimum: minimum,
	}
	when := map[int64]time.Time{}
	var unknown []store.Migration
	for _, m := range list { // in order
		s.Version = m.Version
		when[m.Version] = m.AppliedAt
		if m.Version > s.Newest {
			unknown = append(unknown, m)
		}
	}
	for _, m := range known {
		s.Migrations = append(s.Migrations, store.Migration{Version: int64(m.version), Name: m.name, AppliedAt: when[int64(m.version)]})
	}
	s.Migrations = append(s.Migrations, unknown...)
	return s, nil
}

// applied reads which migrations a schema has had, in order, and which version a program
// must know.
func applied(ctx context.Context, at *pgx.ConnConfig, schema string) (list []store.Migration, minimum int64, err error) {
	conn, err := pgx.ConnectConfig(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	defer hangUpSoon(conn)
	version, err := schemaVersion(ctx, conn, schema)
	if err != nil || version == 0 {
		return nil, 0, orSetup(err)
	}
	if version >= withMinimum {
		n, err := minimumVersion(ctx, conn, schema)
		if err != nil {
			return nil, 0, orSetup(err)
		}
		minimum = int64(n)
	}
	rows, err := conn.Query(ctx, qualify(`SELECT version, applied_at FROM pawl.migrations WHERE version>0 ORDER BY version`, schema), pgx.QueryExecModeExec)
	if err != nil {
		return nil, 0, orSetup(err)
	}
	var v int32
	var t time.Time
	_, err = pgx.ForEachRow(rows, []any{&v, &t}, func() error {
		list = append(list, store.Migration{Version: int64(v), AppliedAt: t.UTC()})
		return nil
	})
	return list, minimum, orSetup(err)
}

func orSetup(err error) error {
	if err == nil {
		return nil
	}
	return &setupError{reading, err}
}

// hangUpSoon closes a connection without waiting long.
func hangUpSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// SchemaSQL returns the SQL that migrates a schema of that name from a version (0 for none) to the
// newest, for a database administrator to apply. It returns "" if there is nothing to do. From
// version 0 it is one transaction. From a later version it must run outside of a transaction,
// because it builds indexes without blocking writers. After a failure, ask for the SQL from the
// version that [SchemaOf] then reports.
func SchemaSQL(name string, since int64) (string, error) {
	if err := checkSchema(name); err != nil {
		return "", err
	}
	list, err := readMigrations()
	if err != nil {
		return "", err
	}
	if newest := int64(newest(list)); since < 0 || since > newest {
		return "", store.Invalid("version", fmt.Sprintf("%d is not between 0 and %d, the newest that this program knows", since, newest))
	}
	missing := after(list, int(since))
	if len(missing) == 0 {
		return "", nil
	}
	var b strings.Builder
	if since == 0 {
		b.WriteString("BEGIN;\n" + qualifyName(createSchema, name) + ";\n" + qualifyName(createTable, name) + ";\n")
		for _, m := range missing {
			fmt.Fprintf(&b, "%s\n%s;\n", strings.TrimSpace(qualify(m.atOnce(), name)), record(m.version, name))
		}
		b.WriteString("COMMIT;\n")
		return b.String(), nil
	}
	fmt.Fprintf(&b, "SET lock_timeout = '%dms';\n", lockTimeout.Milliseconds())
	version := int(since)
	for _, m := range missing {
		writeSteps(&b, m, version, name)
		version = m.version
	}
	return b.String(), nil
}

// writeSteps writes the parts of a migration for a client that continues after an error: each
// transaction first checks whether the part before it has succeeded.
func writeSteps(b *strings.Builder, m migration, version int, schema string) {
	fmt.Fprintf(b, "\n-- %s\n", m.name)
	for i, p := range m.parts {
		if p.index != "" {
			fmt.Fprintf(b, "%s;\n", qualify(p.stmts[0], schema))
			continue
		}
		fmt.Fprintf(b, "BEGIN;\n%s;\n", fmt.Sprintf(guard, quoteText(schema), version, qualify("pawl.migrations", schema)))
		for _, sql := range p.stmts {
			fmt.Fprintf(b, "%s;\n", qualify(sql, schema))
		}
		if i == len(m.parts)-1 {
			fmt.Fprintf(b, "%s;\n", record(m.version, schema))
		}
		b.WriteString("COMMIT;\n")
	}
}

// guard fails unless the schema has the expected version and all of its indexes are valid.
const guard = `DO $$ DECLARE broken text; BEGIN
    SELECT string_agg(i.indexrelid::regclass::text, ', ') INTO broken FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid JOIN pg_namespace n ON n.oid=c.relnamespace
        WHERE n.nspname=%[1]s AND NOT i.indisvalid;
    IF broken IS NOT NULL THEN RAISE EXCEPTION 'not valid: %%; drop it and run this again', broken; END IF;
    IF (SELECT max(version) FROM %[3]s) <> %[2]d THEN RAISE EXCEPTION 'the schema does not have version %[2]d; see pawl migrate status'; END IF;
END $$`

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// SchemaName returns the schema that a URL names.
func SchemaName(url string) (string, error) {
	_, opts, err := parameters(url, nil)
	if err != nil {
		return "", err
	}
	return newConfig(opts).schema, nil
}
