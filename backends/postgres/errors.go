package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/store"
)

// setupError says which part of opening failed.
type setupError struct {
	doing setup
	err   error
}

type setup int

const (
	reading setup = 1 + iota
	creating
	migrating
)

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// openError explains what is wrong with a database that cannot be opened, where it is, and what to
// do. Poolers report problems as protocol violations, so their texts have to be parsed.
func openError(err error, at *pgx.ConnConfig, schema string) error {
	if errors.Is(err, store.ErrInvalid) {
		return err // it is already classified
	}
	if stuck := (*stuckError)(nil); errors.As(err, &stuck) {
		return err
	}
	var (
		pg      *pgconn.PgError
		connect *pgconn.ConnectError
		cert    *tls.CertificateVerificationError
		in      setupError
		step    *setupError
		quote   = func(name string) string { return pgx.Identifier{name}.Sanitize() }
		place   = fmt.Sprintf("database %q at %s as user %q", at.Database, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))), at.User)
		text    = strings.Join(strings.Fields(err.Error()), " ") // pgx lists several addresses in several lines
		invalid = func(what string) error {
			return store.Invalid("database", fmt.Sprintf("%s (%s: %s)", what, place, text))
		}
		starting = errors.As(err, &connect)
	)
	if errors.As(err, &step) {
		in = *step
	}
	if errors.As(err, &pg) {
		text = pg.Message
	}
	switch {
	case pg == nil && errors.As(err, &cert):
		return invalid("the server's certificate does not pass the verification that sslmode requires; set sslrootcert in the URL")
	case pg == nil && strings.Contains(text, "server refused TLS connection"):
		return invalid("the server does not support TLS; set sslmode in the URL")
	case pg == nil && starting:
		return fmt.Errorf("postgres: cannot reach %s; check the host and the port, and that the server is running: %w: %w", place, &oneLine{err}, store.ErrUnavailable)
	case pg == nil:
		return fmt.Errorf("postgres: open %s: %w: %w", place, &oneLine{err}, store.ErrUnavailable)
	}
	switch pg.Code {
	case "28P01", "28000":
		return invalid("the server rejects this user, password or client address")
	case "3D000":
		return invalid("the database does not exist; create it, or name another")
	case "08P01":
		switch {
		case strings.Contains(text, "unsupported startup parameter"):
			return invalid("a pooler rejects a parameter; remove it from the URL (Pawl needs none), or add it to the pooler's ignore_startup_parameters")
		case strings.Contains(text, "does not exist"), strings.Contains(text, "no such database"):
			return invalid("the pooler does not know this database or user")
		}
	case "42704", "22023":
		if starting {
			return invalid("a parameter of the URL is unknown to both Pawl and the server")
		}
	case "42703", "42P07", "42710":
		return invalid(fmt.Sprintf("schema %s contains objects of another program; choose another schema", quote(schema)))
	case "42501":
		user := quote(at.User)
		switch in.doing {
		case creating:
			return invalid(fmt.Sprintf("this user may not create schema %s; run GRANT CREATE ON DATABASE %s TO %s, or CREATE SCHEMA %[1]s AUTHORIZATION %[3]s, "+
				"or have the SQL of postgres.SchemaSQL applied", quote(schema), quote(at.Database), user))
		case migrating:
			return invalid(fmt.Sprintf("this user may not change schema %s; let the schema's owner open the store once, or run ALTER SCHEMA %[1]s OWNER TO %s, "+
				"or have the SQL of postgres.SchemaSQL applied", quote(schema), user))
		case reading:
			return invalid(fmt.Sprintf("this user may not use schema %s; run GRANT USAGE ON SCHEMA %[1]s TO %s and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s",
				quote(schema), user))
		}
		return invalid("this user may not connect, or lacks a privilege")
	}
	if pg.Code != codeReadOnly && !transient(pg.Code) {
		return fmt.Errorf("postgres: open %s: %s%w", place, advice(pg.Code), err)
	}
	return fmt.Errorf("postgres: open %s: %s%w: %w", place, advice(pg.Code), &oneLine{err}, store.ErrUnavailable)
}

// oneLine is an error whose text is joined into one line.
type oneLine struct{ error }

func (e *oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e *oneLine) Unwrap() error { return e.error }
