package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/sqldtest"
)

func TestMain(m *testing.M) { sqldtest.Run(m) }

// Each tick is a program of its own: only the database lasts.
func TestTicks(t *testing.T) {
	for name, url := range map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "edge.db") },
		"turso": func(t *testing.T) string {
			server := sqldtest.Start(t)
			server.NamespaceNamed(t, "127") // what the server reads out of 127.0.0.1
			return "http://" + server.Addr()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := url(t)
			var out bytes.Buffer
			tock := func(sign Trial) time.Time {
				next, err := tick(t.Context(), &out, location, sign)
				require.NoError(t, err)
				return next
			}
			require.True(t, tock(Trial{}).IsZero(), "nothing is to be done")

			ann := Trial{"ann@example.org", 24 * time.Hour}
			next := tock(ann)
			require.Equal(t, 1, strings.Count(out.String(), "Welcome"))
			require.WithinDuration(t, time.Now().Add(7*ann.Day), next, time.Hour)
			require.WithinDuration(t, next, tock(ann), time.Hour, "she signs up again")
			require.Equal(t, 1, strings.Count(out.String(), "Welcome"))

			// Bob's days are so short that his first week is over when he has signed up.
			bob := Trial{"bob@example.org", time.Millisecond}
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), "ends today"); bob = (Trial{}) {
				require.Less(t, time.Now(), deadline, "what was said: %s", out.String())
				tock(bob)
			}
			require.Equal(t, 2, strings.Count(out.String(), "Welcome"))
			require.Equal(t, 1, strings.Count(out.String(), "How do you like it?"))
		})
	}
}
