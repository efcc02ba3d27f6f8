package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// Synchronous is what a commit waits for.
type Synchronous int

const (
	// Full makes every commit durable before it returns: nothing that was
	// acknowledged is lost, even when the machine loses power. It is the default.
	Full Synchronous = iota
	// Normal leaves the sync to the next checkpoint. The crash of a process loses
	// nothing. The crash of the machine may lose the last commits, so that recorded steps
	// run again. The file stays consistent.
	Normal
)

type config struct {
	path        string
	memory      bool
	synchronous Synchronous
	busyTimeout time.Duration
	limits      store.Limits
	logger      *slog.Logger
	migrate     bool
	driver      string // of database/sql
	atOnce      bool   // claims under limits try without a plan, as on Turso; for tests
}

func newConfig(location string, opts []Option) (config, error) {
	c := config{busyTimeout: 5 * time.Second, logger: slog.Default(), migrate: true, driver: "sqlite"}
	err := c.parse(location)
	for _, o := range opts {
		o(&c)
	}
	return c, err
}

// Option changes how Open opens.
type Option func(*config)

// WithLimits sets the size limits; zero fields keep their default (see [store.Limits.OrDefault]).
func WithLimits(l store.Limits) Option { return func(c *config) { c.limits = l } }

// WithSynchronous sets what a commit waits for. The default is [Full].
func WithSynchronous(s Synchronous) Option { return func(c *config) { c.synchronous = s } }

// WithBusyTimeout sets how long a write waits for another process's write before it fails
// with store.ErrUnavailable. The default is 5 seconds.
func WithBusyTimeout(d time.Duration) Option { return func(c *config) { c.busyTimeout = d } }

// WithLogger sets the logger. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithoutMigration leaves the schema unchanged. Open then fails with store.ErrInvalid unless the file
// exists and the program can use its schema ([store.Schema.Usable]): it is the program's own version,
// or a later one that says that it supports this program.
func WithoutMigration() Option { return func(c *config) { c.migrate = false } }

// core implements most of the contract.
type core = sqlitecore.Core

// Store is a store in one SQLite file, or in memory. Create one with [Open]. It implements store.Store
// and is safe for concurrent use.
type Store struct {
	*core
	runner *runner
	hub    store.Hub
	poller poller
	config config
	closed sync.Once
	fault  error // the error of Close

	checked integrity

	version string // of the SQLite library
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

// Open opens a database, creates it if it does not exist, and brings its schema up to
// date. It accepts a path, or a URL such as
//
//	sqlite:pawl.db
//	sqlite:/var/lib/app/pawl.db?synchronous=normal&busy_timeout=10s
//	sqlite::memory:
//
// with the parameters synchronous (full or normal), busy_timeout (a duration) and migrate
// (true or false). ":memory:" is a new database that ends with the store.
//
// Errors that only a person can fix match store.ErrInvalid and say what to do.
func Open(ctx context.Context, location string, opts ...Option) (*Store, error) {
	c, err := newConfig(location, opts)
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.limits, err = c.limits.OrDefault(); err != nil {
		return nil, err
	}
	db, err := sqlx.Open(c.driver, c.dsn())
	if err != nil {
		return nil, openError(c.path, err)
	}
	s := &Store{config: c}
	if err := s.open(ctx, db); err != nil {
		_ = db.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, db *sqlx.DB) error {
	c := &s.config
	if c.memory {
		db.SetMaxOpenConns(1) // each connection would have its own database
	}
	s.runner = newRunner(db, c)
	for _, step := range []func() error{
		func() (err error) { s.version, err = checkLibrary(ctx, db); return err },
		func() error { return useWAL(ctx, db, c) },
		func() error { return migrate(ctx, db, c) },
		func() error { return s.runner.start(ctx) },
	} {
		if err := c.patiently(ctx, step); err != nil {
			return openError(c.path, err)
		}
	}
	if !c.memory {
		var err error
		if s.runner.place, err = newPlace(c.path); err != nil {
			return openError(c.path, err)
		}
		if fs := network(c.path); fs != "" {
			c.logger.WarnContext(ctx, "the SQLite file is on a network file system; SQLite's locks are not safe there when several machines use it: use a local disk, or PostgreSQL",
				"path", c.path, "file_system", fs)
		}
	}
	s.core = sqlitecore.New(s.runner, s.coreConfig(s.hub.Publish))
	s.poller.store = s
	return nil
}

// coreConfig returns the configuration of a core that passes hints to publish.
func (s *Store) coreConfig(publish func(...store.Hint)) sqlitecore.Config {
	clock := func(context.Context) (time.Time, time.Time, error) { now := time.Now(); return now, now, nil }
	return sqlitecore.Config{Clock: clock, Limits: s.config.limits, InTurn: true, AtOnce: s.config.atOnce, Publish: publish}
}

// parse reads a path or a URL.
func (c *config) parse(location string) error {
	c.path = location
	if rest, ok := strings.CutPrefix(location, "sqlite:"); ok {
		path, query, _ := strings.Cut(rest, "?")
		path, err := url.PathUnescape(strings.TrimPrefix(path, "//"))
		if err != nil {
			return store.Invalid("database URL", fmt.Sprintf("%q: %v", location, err))
		}
		params, err := url.ParseQuery(query)
		if err != nil {
			return store.Invalid("database URL", fmt.Sprintf("%q: %v", location, err))
		}
		c.path = path
		for key, values := range params {
			if err := c.set(key, values[len(values)-1]); err != nil {
				return err
			}
		}
	}
	c.memory = c.path == ":memory:"
	if c.path == "" {
		return store.Invalid("database", "the path is empty; a path looks like pawl.db, a URL like sqlite:pawl.db")
	}
	if !c.memory {
		c.path = filepath.Clean(c.path) // some write sqlite:////tmp/x.db, with one slash too many
	}
	return nil
}

func (c *config) set(key, value string) error {
	wrong := func(want string) error {
		return store.Invalid("database URL", fmt.Sprintf("parameter %s=%s is not %s", key, value, want))
	}
	switch key {
	case "synchronous":
		switch strings.ToLower(value) {
		case "full":
			c.synchronous = Full
		case "normal":
			c.synchronous = Normal
		default:
			return wrong("full or normal")
		}
	case "busy_timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return wrong("a duration such as 5s")
		}
		c.busyTimeout = d
	case "migrate":
		if value != "true" && value != "false" {
			return wrong("true or false")
		}
		c.migrate = value == "true"
	default:
		return store.Invalid("database URL", fmt.Sprintf("unknown parameter %q; want synchronous, busy_timeout or migrate", key))
	}
	return nil
}

// check detects problems that SQLite would report less clearly.
func (c *config) check() error {
	if c.memory {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return store.Invalid("database", fmt.Sprintf("%s: ", c.path)+fmt.Sprintf(format, args...))
	}
	dir := filepath.Dir(c.path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return wrong("the directory %s does not exist; create it, or choose another path", dir)
	case err != nil:
		return wrong("%v", err)
	case !info.IsDir():
		return wrong("%s is not a directory", dir)
	}
	switch info, err := os.Stat(c.path); {
	case errors.Is(err, os.ErrNotExist) && !c.migrate:
		return wrong("the file does not exist; check the path, or create it with pawl migrate up")
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return wrong("%v", err)
	case info.IsDir():
		return wrong("it is a directory; name a file")
	}
	// The file is not opened here: see writable.
	switch err := writable(c.path); {
	case errors.Is(err, os.ErrPermission):
		return wrong("this process may not write the file; Pawl must write it and create files beside it")
	case err != nil:
		return wrong("%v", err)
	}
	return nil
}

// atOnce makes transactions of database/sql take the write lock when they begin.
const atOnce = "?_txlock=immediate"

func (c *config) dsn() string {
	if c.memory {
		return ":memory:" + atOnce
	}
	return "file:" + (&url.URL{Path: c.path}).EscapedPath() + atOnce
}

// useWAL turns on the write-ahead log, which stays on in the file.
func useWAL(ctx context.Context, db *sqlx.DB, c *config) error {
	if c.memory {
		return nil
	}
	var mode string
	if err := db.GetContext(ctx, &mode, `PRAGMA journal_mode=WAL`); err != nil {
		return err
	}
	if mode != "wal" {
		return store.Invalid("database", c.path+": its file system has no shared memory for the write-ahead log; use a local disk")
	}
	return nil
}

// patiently retries an operation that fails because another process uses the file. It retries for
// the busy timeout, but for at least a second.
func (c *config) patiently(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(max(c.busyTimeout, time.Second))
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := f()
		if err == nil || !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// checkLibrary returns the version of the SQLite library, and refuses some versions.
func checkLibrary(ctx context.Context, db *sqlx.DB) (version string, err error) {
	if err := db.GetContext(ctx, &version, `SELECT sqlite_version()`); err != nil {
		return "", err
	}
	return version, checkVersion(version)
}

// checkVersion refuses the SQLite versions whose write-ahead log can lose committed data
// when it is reset: 3.7.0 to 3.51.2, except two backports.
func checkVersion(version string) error {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return store.Invalid("SQLite", fmt.Sprintf("cannot parse the version %q", version))
	}
	v := major*1_000_000 + minor*1_000 + patch
	switch {
	case v >= 3_051_003, minor == 50 && major == 3 && patch >= 7, minor == 44 && major == 3 && patch >= 6:
		return nil
	}
	return store.Invalid("SQLite", fmt.Sprintf("version %s can lose committed data when it resets its write-ahead log; "+
		"build with modernc.org/sqlite of SQLite 3.51.3 or later", version))
}

// Features implements store.Store.
func (s *Store) Features() store.Features {
	f := store.Features{Name: "sqlite", Contract: 2, Hints: true, Processes: !s.config.memory, Transactions: true, Version: "SQLite " + s.version}
	switch {
	case s.config.memory:
		f.Durability = store.Volatile
	case s.config.synchronous == Normal:
		f.Durability = store.Buffered
	}
	return f
}

// Close waits for calls in progress, then closes the file. Later calls fail with
// ErrUnavailable.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.hub.Close()
		s.fault = s.runner.close()
		s.poller.wait()
	})
	return s.fault
}
