package sqlite

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/store"
)

// FuzzParse reads locations without opening them.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"pawl.db", "sqlite:pawl.db", "sqlite:/var/lib/pawl.db?synchronous=normal&busy_timeout=10s", "sqlite::memory:", ":memory:", "", "sqlite:",
		"sqlite:///a%20b.db?migrate=false", "sqlite:a.db?mode=ro", "sqlite:a.db?synchronous=off", "sqlite:a%zz", "sqlite:a?b=%zz", "sqlite:a?;",
		"sqlite:a.db?synchronous=full&synchronous=normal", "a.db?mode=memory", "a#b.db", "a%3Fmode=ro", "sqlite:a.db?busy_timeout=-1s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, location string) {
		var c config
		if err := c.parse(location); err != nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("saw %v, expected an error that matches ErrInvalid", err)
			}
			return
		}
		if c.path == "" || c.memory != (c.path == ":memory:") {
			t.Fatalf("saw the path %q, memory %v", c.path, c.memory)
		}
		if c.busyTimeout < 0 {
			t.Fatalf("saw a busy timeout of %v", c.busyTimeout)
		}
		// No part of the path may reach SQLite as a parameter.
		dsn, ok := strings.CutSuffix(c.dsn(), atOnce)
		if !ok || strings.ContainsAny(dsn, "?#") {
			t.Fatalf("saw the data source %q, with parameters", dsn)
		}
		if path, err := url.PathUnescape(strings.TrimPrefix(dsn, "file:")); err != nil || path != c.path {
			t.Fatalf("the data source %q names %q, %v, expected %q", dsn, path, err, c.path)
		}
	})
}

// FuzzParameter sets one parameter: unknown parameters are refused.
func FuzzParameter(f *testing.F) {
	f.Add("synchronous", "NORMAL")
	f.Add("busy_timeout", "1h")
	f.Add("migrate", "1")
	f.Add("mode", "ro")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, key, value string) {
		var c config
		err := c.parse("sqlite:pawl.db?" + url.QueryEscape(key) + "=" + url.QueryEscape(value))
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("saw %v, expected an error that matches ErrInvalid", err)
		}
		switch key {
		case "synchronous", "busy_timeout", "migrate":
		default:
			if err == nil {
				t.Fatalf("parameter %q is taken", key)
			}
		}
		if c.path != "pawl.db" && err == nil {
			t.Fatalf("saw the path %q", c.path)
		}
	})
}
