package backends

import (
	"log/slog"

	"github.com/pawlhq/pawl/store"
)

// Option configures [Open] for any backend. Options that only one backend has are in its
// own package, or are parameters of its URLs.
type Option func(*Config)

// Config contains the options of [Open], for a [Backend].
type Config struct {
	Logger           *slog.Logger  // nil: slog.Default()
	Limits           *store.Limits // of payloads; nil: the backend's own
	WithoutMigration bool          // the schema is not changed, and must be usable as it is: see [store.Schema.Usable]
}

func apply(opts []Option) (c Config) {
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithLogger sets where the backend logs. The default, also for nil, is slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *Config) { c.Logger = l } }

// WithLimits sets the limits of payload sizes; zero fields keep their default (see
// [store.Limits.OrDefault]). All programs on one database should use the same limits.
func WithLimits(l store.Limits) Option { return func(c *Config) { c.Limits = &l } }

// WithoutMigration leaves the schema unchanged. [Open] then fails with store.ErrInvalid unless the
// program can use the schema as it is ([store.Schema.Usable]): it is the program's own version, or a
// later one that says that it supports this program.
func WithoutMigration() Option { return func(c *Config) { c.WithoutMigration = true } }

// of converts the options to those of a backend.
func of[T any](c Config, logger func(*slog.Logger) T, limits func(store.Limits) T, keep func() T) (list []T) {
	if c.Logger != nil {
		list = append(list, logger(c.Logger))
	}
	if c.Limits != nil {
		list = append(list, limits(*c.Limits))
	}
	if c.WithoutMigration {
		list = append(list, keep())
	}
	return list
}
