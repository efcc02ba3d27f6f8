package backends_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// FuzzOpen passes Open URLs of schemes that no backend has. URLs of known schemes are left to the
// backends' own fuzz tests: here they would create files.
func FuzzOpen(f *testing.F) {
	for _, url := range []string{"", ":", "pawl.db", "mysql://localhost/pawl", "SQLITE:pawl.db", " sqlite:pawl.db", "\xff:x", "a b:c", "sqlite"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if scheme, _, ok := strings.Cut(url, ":"); ok && known[scheme] {
			return // fuzzed by the backend
		}
		s, err := backends.Open(context.Background(), url)
		if s != nil || !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("saw %v, %v, expected no store and an error that matches ErrInvalid", s, err)
		}
	})
}

// known are the schemes that have a backend, or will have one.
var known = map[string]bool{"sqlite": true, "postgres": true, "postgresql": true, "libsql": true, "http": true, "https": true, "ws": true, "wss": true}
