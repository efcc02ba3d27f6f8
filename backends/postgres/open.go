package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

type config struct {
	schema   string
	limits   store.Limits
	logger   *slog.Logger
	timeout  time.Duration
	migrate  bool
	patience time.Duration // how long a migration waits for other transactions

	prepared  bool
	listenURL string
	listen    *pgx.ConnConfig // of listenURL
}

func newConfig(opts []Option) config {
	c := config{schema: "pawl", logger: slog.Default(), timeout: 30 * time.Second, migrate: true, patience: migrationPatience}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Option changes how Open and New open.
type Option func(*config)

// WithSchema sets the schema that holds Pawl's tables. The default is "pawl".
func WithSchema(name string) Option { return func(c *config) { c.schema = name } }

// WithLimits sets the size limits; zero fields keep their default (see [store.Limits.OrDefault]).
func WithLimits(l store.Limits) Option { return func(c *config) { c.limits = l } }

// WithLogger sets the logger. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithTimeout limits how long one operation waits for the database, so that a hanging
// connection is given up, and how long it takes to connect. Only a migration may take
// longer. d must be above 0; otherwise opening fails. The default is 30 seconds.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithoutMigration leaves the schema unchanged. Opening then fails with store.ErrInvalid unless the
// program can use the schema as it is ([store.Schema.Usable]): it is the program's own version, or a
// later one that says that it supports this program.
func WithoutMigration() Option { return func(c *config) { c.migrate = false } }

// Store is a store in one schema of a database. Create one with [Open] or [New]. It implements
// store.Store and is safe for concurrent use.
type Store struct {
	*base
	verbs
	in     inner          // a transaction in which the store acts; nil: one of its own for each call
	later  *[]sqlkit.Hint // collects hints until that transaction has committed; nil: it sends them itself
	number int64          // of a transaction of the program that has written
}

// base is what a store shares with the stores that act inside its transactions.
type base struct {
	pool    *pgxpool.Pool
	own     bool // the pool is this store's
	config  config
	texts   sync.Map // SQL as written to SQL with the schema's name
	lanes   sync.Map // lanes known to be in the table, with the failures before
	windows sync.Map // *window of the demands of a claim
	spaces  sync.Map // namespaces, with whether a run was ever under a limit
	permits sqlkit.Permits
	stirred atomic.Uint64 // how often hints have announced work
	// failures counts the calls that have lost the server. The database that answers next may have
	// lost commits that this store has seen.
	failures atomic.Uint64
	careful  atomic.Int64 // how many more calls expect steps that already have a record
	apart    atomic.Int64 // how many more calls end their runs one by one
	// steady says that connections keep the planner's settings, so that transactions need
	// not set them.
	steady bool
	hub    store.Hub
	way    *sqlkit.Way
	relay  *relay
	closed atomic.Bool
	// readOnly is when a write was last refused because the database is read-only, in Unix
	// nanoseconds; 0 if it is writable.
	readOnly atomic.Int64
	once     sync.Once

	// isolated says that connections begin transactions above READ COMMITTED, by the
	// configuration of the database or the role. Writes would then fail where they must
	// wait.
	isolated   bool
	durability store.Durability
	version    string // of the server
	pooled     bool   // a pooler is in front of the server; then:
	unprepared bool   // statements are sent unprepared
	deaf       bool   // LISTEN does not work

	sqlOnce sync.Once
	sqlDB   *sql.DB // uses the pool; nil until it is needed

}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Hinter     = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
	_ store.Diagnoser  = (*Store)(nil)
	_ store.Journal    = (*Store)(nil)
	_ store.Streamer   = (*Store)(nil)
	_ store.TreeReader = (*Store)(nil)
	_ store.Outboxer   = (*Store)(nil)
)

// Open opens a database by its URL and brings Pawl's schema up to date:
//
//	postgres://user:password@host:5432/database?schema=pawl
//
// Besides the parameters of pgx and pgxpool (pool_max_conns, default_query_exec_mode,
// sslmode, ...) it accepts schema, migrate (true or false) and listen (a URL, see
// WithListenURL). Without application_name in the URL or PGAPPNAME in the environment,
// connections are named "pawl". Errors that only a person can fix match store.ErrInvalid
// and say what to do.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	url, opts, err := parameters(url, opts)
	if err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, store.Invalid("database URL", err.Error()) // pgx hides the password
	}
	nameApplication(pc.ConnConfig)
	var unprepared, steady atomic.Bool
	pc.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
		if unprepared.Load() {
			cc.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return nil
	}
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if !steady.Load() {
			return nil
		}
		_, err := conn.Exec(ctx, keepSteady)
		return err
	}
	pc.BeforeClose = hangUp
	if c := newConfig(opts); pc.ConnConfig.ConnectTimeout <= 0 || pc.ConnConfig.ConnectTimeout > c.timeout {
		pc.ConnConfig.ConnectTimeout = c.timeout // it also limits the messages after the connection is established
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, openError(err, pc.ConnConfig, "")
	}
	s, err := New(ctx, pool, opts...)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	// Now it is known whether there is a pooler; later connections use it.
	if s.pooled {
		unprepared.Store(s.unprepared)
		pool.Reset()
		return s, nil
	}
	steady.Store(true)
	for _, conn := range pool.AcquireAllIdle(ctx) { // those that already exist
		if _, failed := conn.Exec(ctx, keepSteady); failed != nil {
			_ = conn.Conn().Close(ctx)
		}
		conn.Release()
	}
	s.steady = true
	return s, nil
}

// hangUp closes a connection that was given up without waiting for the server's answer, which may
// never come. pgx would wait for 15 seconds, during which the connection would keep its place in
// the pool.
func hangUp(conn *pgx.Conn) {
	if conn.IsClosed() {
		_ = conn.PgConn().Conn().Close()
	}
}

// New opens a store on the user's own pool, which it leaves open. The pool's connections
// are used for single transactions and carry no state between them. Behind a pooler the
// store's statements are not prepared, whatever mode the pool's connections have for
// others. The pool decides how long connecting may take, and how long a hanging
// connection keeps its place (pgxpool's BeforeClose); Open limits both.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	c := newConfig(opts)
	var err error
	if c.limits, err = c.limits.OrDefault(); err != nil {
		return nil, err
	}
	if c.timeout <= 0 {
		return nil, store.Invalid("timeout", fmt.Sprintf("%v is not positive", c.timeout))
	}
	if err := checkSchema(c.schema); err != nil {
		return nil, err
	}
	if c.listenURL != "" { // it may have the same parameters as the other URL
		plain, _, err := parameters(c.listenURL, nil)
		if err != nil {
			return nil, fmt.Errorf("postgres: for LISTEN: %w", err)
		}
		pc, err := pgxpool.ParseConfig(plain)
		if err != nil {
			return nil, store.Invalid("database URL for LISTEN", err.Error()) // pgx hides the password
		}
		c.listen = pc.ConnConfig
		nameApplication(c.listen)
	}
	first, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	found, err := lookAround(first, pool)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, openError(err, pool.Config().ConnConfig, c.schema)
	}
	if err := migrate(ctx, pool, &c, found.pooled); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, openError(err, pool.Config().ConnConfig, c.schema)
	}
	s := newStore(&base{pool: pool, way: sqlkit.NewWay(), config: c, isolated: found.isolated, pooled: found.pooled, durability: found.durability, version: found.version}, nil, nil)
	if found.pooled {
		s.adapt(found.named)
	}
	s.relay = newRelay(s)
	return s, nil
}

// nameApplication names the connection for pg_stat_activity and the server's log, unless
// the URL or PGAPPNAME does.
func nameApplication(c *pgx.ConnConfig) {
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "pawl"
	}
}

func checkSchema(name string) error {
	if len(name) > 63 || strings.HasPrefix(name, "pg_") {
		return store.Invalid("schema", fmt.Sprintf("%q is over 63 bytes long or begins with pg_, which PostgreSQL refuses", name))
	}
	return store.ValidateName("schema", name)
}

// sql puts the schema's name into a statement.
func (s *Store) sql(text string) string {
	late := s.later != nil
	if s.config.schema == "pawl" && !late {
		return text
	}
	key := sqlText{text, late}
	if t, ok := s.texts.Load(key); ok {
		return t.(string)
	}
	t := qualify(text, s.config.schema)
	if late {
		t = strings.ReplaceAll(t, "now()", "statement_timestamp()")
	}
	s.texts.Store(key, t)
	return t
}

// sqlText is a statement of Pawl. A late statement is part of a step's transaction: it runs at the
// end of the transaction, whereas now() is when the transaction began.
type sqlText struct {
	text string
	late bool
}

func qualify(text, schema string) string {
	return strings.ReplaceAll(text, "pawl.", pgx.Identifier{schema}.Sanitize()+".")
}

const clockNow = `SELECT (date_part('epoch', clock_timestamp())*1000000)::bigint`

// Clock implements store.Store.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	var t time.Time
	err := s.read(ctx, stmt{sql: clockNow, rows: sqlkit.One(sqlkit.Time(&t))})
	return t, err
}

// Features implements store.Store.
func (s *Store) Features() store.Features {
	f := store.Features{Name: "postgres", Contract: 2, Hints: !s.deaf, SharedClock: true, Processes: true, Transactions: true, Durability: s.durability, Version: "PostgreSQL " + s.version}
	if s.deaf {
		f.Gaps = []store.Gap{{Ability: store.Hints, Reason: "a pooler does not pass notices on, and there is no URL for LISTEN"}}
	}
	return f
}

// Limits implements store.Store.
func (s *Store) Limits() store.Limits { return s.config.limits }

// Close waits for calls in progress. It closes the pool if Open created it.
func (s *Store) Close() error {
	if s.in != nil {
		return nil
	}
	s.once.Do(func() {
		s.relay.flush()
		s.closed.Store(true)
		s.hub.Close()
		s.relay.close()
		if s.sqlDB != nil {
			_ = s.sqlDB.Close() // not the pool
		}
		if s.own {
			s.pool.Close()
		}
	})
	return nil
}
