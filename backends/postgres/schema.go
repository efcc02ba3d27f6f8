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

// SchemaOf tells which migrations a schema has had, and changes nothing. It takes
// what Open takes.
func SchemaOf(ctx context.Context, url string, opts ...Option) (store.Schema, error) {
	url, opts, err := parameters(url, opts)
	if err != nil {
		return store.Schema{}, err
	}
	c := newConfig(opts)
	if err := checkSchema(c.schema); err != nil {
		return store.Schema{}, err
	}
	pc, err := pgxpool.ParseConfig(url) // pool_max_conns and the like are nothing to a connection
	if err != nil {
		return store.Schema{}, store.Invalid("database URL", err.Error()) // pgx hides the password
	}
	at := pc.ConnConfig
	first, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	list, err := applied(first, at, c.schema)
	if err != nil {
		if ctx.Err() != nil {
			return store.Schema{}, ctx.Err()
		}
		return store.Schema{}, openError(err, at, c.schema)
	}
	names, _, err := files()
	if err != nil {
		return store.Schema{}, err
	}
	s := store.Schema{
		Place:  fmt.Sprintf("schema %q of database %q at %s", c.schema, at.Database, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))),
		Newest: int64(len(names)),
	}
	for i, name := range names {
		s.Migrations = append(s.Migrations, store.Migration{Version: int64(i + 1), Name: name})
	}
	for _, m := range list { // in order
		s.Version = m.Version
		if m.Version <= s.Newest {
			s.Migrations[m.Version-1].AppliedAt = m.AppliedAt
		} else {
			s.Migrations = append(s.Migrations, m)
		}
	}
	return s, nil
}

// applied reads which migrations a schema has had, in order.
func applied(ctx context.Context, at *pgx.ConnConfig, schema string) (list []store.Migration, err error) {
	conn, err := pgx.ConnectConfig(ctx, at)
	if err != nil {
		return nil, err
	}
	defer hangUpSoon(conn)
	version, err := schemaVersion(ctx, conn, schema)
	if err != nil || version == 0 {
		return nil, orSetup(err)
	}
	rows, err := conn.Query(ctx, qualify(`SELECT version, applied_at FROM pawl.migrations WHERE version>0 ORDER BY version`, schema), pgx.QueryExecModeExec)
	if err != nil {
		return nil, orSetup(err)
	}
	var v int32
	var t time.Time
	_, err = pgx.ForEachRow(rows, []any{&v, &t}, func() error {
		list = append(list, store.Migration{Version: int64(v), AppliedAt: t.UTC()})
		return nil
	})
	return list, orSetup(err)
}

func orSetup(err error) error {
	if err == nil {
		return nil
	}
	return &setupError{reading, err}
}

// hangUpSoon says good-bye, but does not wait for long.
func hangUpSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// SchemaSQL returns the SQL that leads a schema of that name from a version, 0
// for none, to the newest, for those whose database administrator applies it;
// empty when there is nothing to do.
func SchemaSQL(name string, since int64) (string, error) {
	if err := checkSchema(name); err != nil {
		return "", err
	}
	list, err := steps(name)
	if err != nil {
		return "", err
	}
	if since < 0 || since > int64(len(list)) {
		return "", store.Invalid("version", fmt.Sprintf("%d is not between 0 and %d, the newest that this program knows", since, len(list)))
	}
	if since == int64(len(list)) {
		return "", nil
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	if since == 0 {
		b.WriteString(qualifyName(createSchema, name) + ";\n" + qualifyName(createTable, name) + ";\n")
	}
	for i, up := range list[since:] {
		fmt.Fprintf(&b, "%s\n%s;\n", strings.TrimSpace(up), qualify(fmt.Sprintf(`INSERT INTO pawl.migrations (version) VALUES (%d)`, int(since)+i+1), name))
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// SchemaName is the schema that a URL names.
func SchemaName(url string) (string, error) {
	_, opts, err := parameters(url, nil)
	if err != nil {
		return "", err
	}
	return newConfig(opts).schema, nil
}
