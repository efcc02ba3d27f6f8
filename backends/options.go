package backends

import (
	"log/slog"

	"github.com/pawlhq/pawl/store"
)

// Option configures [Open], whichever backend the URL names. What one backend alone has is
// an option of its own package, or a parameter of its URLs.
type Option func(*options)

type options struct {
	logger *slog.Logger  // nil: the backend's default
	limits *store.Limits // likewise
	keep   bool          // the schema as it is
}

func apply(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithLogger sets where the backend logs. Default: slog.Default().
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithLimits sets the payload sizes that are enforced. All programs on one database should have the
// same ones.
func WithLimits(l store.Limits) Option { return func(o *options) { o.limits = &l } }

// WithoutMigration leaves the schema as it is, and fails if it is not the newest.
func WithoutMigration() Option { return func(o *options) { o.keep = true } }

// of makes a backend's own options.
func of[T any](o options, logger func(*slog.Logger) T, limits func(store.Limits) T, keep func() T) (list []T) {
	if o.logger != nil {
		list = append(list, logger(o.logger))
	}
	if o.limits != nil {
		list = append(list, limits(*o.limits))
	}
	if o.keep {
		list = append(list, keep())
	}
	return list
}
