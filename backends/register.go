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

// Backend is how [Open], [SchemaOf] and [SchemaSQL] reach the databases of a URL's scheme.
// Its functions may be called concurrently. They get the URL as it was given.
type Backend struct {
	// Open opens a store. Where the database has a schema, it is brought up to date before,
	// unless Config.WithoutMigration or the URL's parameter migrate=false say that it must
	// be up to date: tools give migrate=true or migrate=false with each URL, so a backend
	// without a schema ignores the parameter. A URL that makes no sense is an error that
	// matches store.ErrInvalid.
	Open func(ctx context.Context, url string, c Config) (store.Store, error)
	// SchemaOf tells which migrations a database has had, and changes nothing. Nil: there
	// is no schema that has versions.
	SchemaOf func(ctx context.Context, url string) (store.Schema, error)
	// SchemaSQL returns the SQL that leads from a version of the schema to the newest, and
	// connects to nothing. Nil: there is none.
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

// schemes are what RFC 3986 takes for one, in lower case.
var schemes = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// Register makes a backend known by the scheme of its URLs, such as "bolt" for
// bolt:pawl.db, to [Open] and to the tools that are built on it. It is called by the
// backend's package, in its init, or by a program before it opens stores. Register panics
// if the scheme is not one in lower case or is taken, or if the backend has no Open.
func Register(scheme string, b Backend) {
	registering.Lock()
	defer registering.Unlock()
	switch _, taken := registered[scheme]; {
	case !schemes.MatchString(scheme):
		panic(fmt.Sprintf("backends: Register: %q is not a URL's scheme in lower case", scheme))
	case taken || refused(scheme):
		panic(fmt.Sprintf("backends: Register: the scheme %q is taken", scheme))
	case b.Open == nil:
		panic(fmt.Sprintf("backends: Register: the backend of scheme %q has no Open", scheme))
	}
	registered[scheme] = b
}

// Schemes lists the schemes that are known, sorted.
func Schemes() []string {
	registering.RLock()
	defer registering.RUnlock()
	return slices.Sorted(maps.Keys(registered))
}

// refused are schemes that a libSQL server has and that the backend does not take; it
// says why.
func refused(scheme string) bool { return scheme == "ws" || scheme == "wss" }

func find(url string) (Backend, error) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return Backend{}, store.Invalid("database URL", "it has no scheme; known are: "+strings.Join(Schemes(), ", "))
	}
	if refused(scheme) {
		return onTurso, nil
	}
	registering.RLock()
	b, ok := registered[scheme]
	registering.RUnlock()
	if !ok {
		return Backend{}, store.Invalid("database URL", fmt.Sprintf("scheme %q is unknown; known are: %s", scheme, strings.Join(Schemes(), ", ")))
	}
	return b, nil
}
