package backends

import (
	"log/slog"

	"github.com/pawlhq/pawl/store"
)

// Option configures [Open], whichever backend the URL names. What one backend alone has is
// an option of its own package, or a parameter of its URLs.
type Option func(*Config)

// Config is what the options of [Open] say, for a [Backend].
type Config struct {
	Logger           *slog.Logger  // nil: slog.Default()
	Limits           *store.Limits // of payloads; nil: the backend's own
	WithoutMigration bool          // the schema stays as it is, and must be the newest
}

func apply(opts []Option) (c Config) {
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithLogger sets where the backend logs. Default: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *Config) { c.Logger = l } }

// WithLimits sets the payload sizes that are enforced. All programs on one database should have the
// same ones.
func WithLimits(l store.Limits) Option { return func(c *Config) { c.Limits = &l } }

// WithoutMigration leaves the schema as it is, and fails if it is not the newest.
func WithoutMigration() Option { return func(c *Config) { c.WithoutMigration = true } }

// of makes a backend's own options.
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
