package libsqlclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/tursodatabase/libsql-client-go/libsql"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/migrations"
)

// Open is turso.Open with the driver as its transport; it takes the same URLs.
func Open(ctx context.Context, location string, opts ...turso.Option) (*turso.Store, error) {
	return turso.Open(ctx, location, append([]turso.Option{turso.WithTransport(Transport())}, opts...)...)
}

// Transport uses the driver as the transport of a store. The driver's own options may be given in
// addition to the URL and the token: headers, an encryption key, a proxy.
func Transport(opts ...libsql.Option) func(turso.Endpoint) (turso.Transport, error) {
	return func(e turso.Endpoint) (turso.Transport, error) {
		all := slices.Clone(opts)
		if e.Token != "" {
			all = append(all, libsql.WithAuthToken(e.Token))
		}
		connector, err := libsql.NewConnector(e.URL, all...)
		if err != nil {
			return nil, fmt.Errorf("libsqlclient: %w", err)
		}
		db := sql.OpenDB(connector)
		db.SetMaxIdleConns(-1) // a connection is a stream, which the server ends soon anyway
		return &transport{db}, nil
	}
}

type transport struct{ db *sql.DB }

// Close implements turso.Transport.
func (t *transport) Close() error { return t.db.Close() }

// Migrate implements turso.Transport. The files are applied by goose's provider.
func (t *transport) Migrate(ctx context.Context) error {
	provider, err := goose.NewProvider(goose.DialectTurso, t.db, migrations.SQLite(), goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

// Run implements turso.Transport. The driver sends several statements as one batch. Each statement
// runs only if the one before it succeeded; a ROLLBACK follows them.
func (t *transport) Run(ctx context.Context, stmts []turso.Statement) ([][][]any, error) {
	var text strings.Builder
	var args []any
	for i, s := range stmts {
		if i > 0 {
			text.WriteString(";\n")
		}
		sql, used := numbered(s.SQL, s.Args)
		text.WriteString(sql)
		args = append(args, used...)
	}
	rows, err := t.db.QueryContext(ctx, text.String(), args...)
	if err != nil {
		return nil, said(err)
	}
	defer func() { _ = rows.Close() }()
	var sets [][][]any
	for {
		set, err := readSet(rows)
		if err != nil {
			return sets, err
		}
		sets = append(sets, set)
		if len(sets) == len(stmts) {
			return sets, nil
		}
		if rows.NextResultSet() {
			continue
		}
		err = rows.Err()
		switch {
		case err == nil:
			return nil, fmt.Errorf("libsqlclient: %d results of %d statements", len(sets), len(stmts))
		case strings.Contains(err.Error(), notRun):
			// The driver ignores the error of the first statement.
			return sets[:len(sets)-1], &turso.StatementError{}
		}
		return sets, &turso.StatementError{Message: strings.TrimPrefix(err.Error(), "failed to execute statement\n")}
	}
}

// notRun is what the driver reports for a statement without a result, whose condition did not hold.
const notRun = "no results for statement"

func readSet(rows *sql.Rows) ([][]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var set [][]any
	for rows.Next() {
		row, dest := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		set = append(set, row)
	}
	return set, nil // rows.Err reports the error of the next set
}

var status = regexp.MustCompile(`(?s)^(?:failed to execute SQL:\n)?error code (\d+): (.*)$`)

// said distinguishes the server's errors from those of the network. The driver drops the server's
// codes and keeps its messages.
func said(err error) error {
	text := err.Error()
	if m := status.FindStringSubmatch(text); m != nil {
		code, _ := strconv.Atoi(m[1])
		return &turso.StatusError{Status: code, Message: m[2]}
	}
	if text, ok := strings.CutPrefix(text, "failed to execute SQL:\n"); ok && errors.Unwrap(errors.Unwrap(err)) == nil {
		return &turso.StatementError{Message: text, Whole: true}
	}
	return err
}

// numbered numbers the parameters of a statement from one, in the order in which they occur, and
// leaves out arguments that are not used. If numbers are missing, the driver passes wrong arguments
// to the statements that follow.
func numbered(sql string, args []any) (string, []any) {
	var b strings.Builder
	var used []any
	known := map[int]int{}
	next := 0
	for len(sql) > 0 {
		switch c := sql[0]; c {
		case '\'', '"':
			n := strings.IndexByte(sql[1:], c)
			if n < 0 {
				n = len(sql) - 2
			}
			b.WriteString(sql[:n+2])
			sql = sql[n+2:]
			continue
		case '?':
			sql = sql[1:]
			n := 0
			for n < len(sql) && sql[n] >= '0' && sql[n] <= '9' {
				n++
			}
			number, err := strconv.Atoi(sql[:n])
			if err != nil {
				number = next + 1
			}
			next, sql = max(next, number), sql[n:]
			if known[number] == 0 && number <= len(args) {
				used = append(used, args[number-1])
				known[number] = len(used)
			}
			fmt.Fprintf(&b, "?%d", known[number])
			continue
		default:
			b.WriteByte(c)
			sql = sql[1:]
		}
	}
	return b.String(), used
}
