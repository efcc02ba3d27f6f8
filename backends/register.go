package backends

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/store"
)

// Backend opens databases for [Open], [SchemaOf], [PlanOf] and [SchemaSQL]. Its functions may be
// called concurrently. They receive the URL unchanged.
type Backend struct {
	// Open opens a store. If the database has a schema, Open first brings it up to date, unless
	// Config.WithoutMigration or the URL's parameter migrate=false say that it must be up to date
	// already. Tools add migrate=true or migrate=false to each URL, so a backend without a schema
	// must ignore the parameter. The error for an invalid URL matches store.ErrInvalid.
	Open func(ctx context.Context, url string, c Config) (store.Store, error)
	// SchemaOf reports which migrations a database has had. It changes nothing. It is nil if there
	// is no versioned schema.
	SchemaOf func(ctx context.Context, url string) (store.Schema, error)
	// PlanOf reports what the missing migrations would do. It changes nothing. It is nil if the
	// backend cannot tell.
	PlanOf func(ctx context.Context, url string) (store.SchemaPlan, error)
	// SchemaSQL returns the SQL that migrates from a version of the schema to the newest. It does
	// not connect to anything. It is nil if there is no such SQL.
	SchemaSQL func(url string, since int64) (string, error)
}

// The backends by their URLs' schemes.
var (
	registering sync.RWMutex
	registered  = map[string]Backend{
		"postgres":   onPostgres,
		"postgresql": onPostgres,
		"sqlite":     onSQLite,
		"libsql":     onTurso,
		"https":      onTurso,
		"http":       onTurso,
	}
)

// schemes matches URL schemes as defined by RFC 3986, in lower case.
var schemes = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// Register adds a backend to [Open], and to the tools that use it, under a URL scheme, for example
// "bolt" for bolt:pawl.db. The backend's package calls Register in its init function, or a program
// calls it before it opens stores. Register panics if the scheme is not in lower case or is already
// registered, or if the backend has no Open.
func Register(scheme string, b Backend) {
	registering.Lock()
	defer registering.Unlock()
	switch _, taken := registered[scheme]; {
	case !schemes.MatchString(scheme):
		panic(fmt.Sprintf("backends: Register: %q is not a URL scheme in lower case", scheme))
	case taken || refused(scheme):
		panic(fmt.Sprintf("backends: Register: the scheme %q is already registered", scheme))
	case b.Open == nil:
		panic(fmt.Sprintf("backends: Register: the backend of scheme %q has no Open", scheme))
	}
	registered[scheme] = b
}

// Schemes returns the known schemes, sorted.
func Schemes() []string {
	registering.RLock()
	defer registering.RUnlock()
	return slices.Sorted(maps.Keys(registered))
}

// refused are schemes that a libSQL server has but the backend does not accept, with the
// reason.
func refused(scheme string) bool { return scheme == "ws" || scheme == "wss" }

func find(url string) (Backend, error) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return Backend{}, store.Invalid("database URL", "it has no scheme; known schemes: "+strings.Join(Schemes(), ", "))
	}
	if refused(scheme) {
		return onTurso, nil
	}
	registering.RLock()
	b, ok := registered[scheme]
	registering.RUnlock()
	if !ok {
		return Backend{}, store.Invalid("database URL", fmt.Sprintf("unknown scheme %q; known schemes: %s", scheme, strings.Join(Schemes(), ", ")))
	}
	return b, nil
}
