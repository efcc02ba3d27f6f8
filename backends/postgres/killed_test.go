package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// openPlace opens the database of a place, in any process.
func openPlace(ctx context.Context, place string) (store.Store, error) {
	return postgres.Open(ctx, place)
}

// TestDurable kills processes, and then the server that they use.
func TestDurable(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t)
	conformance.RunDurable(t, conformance.DurableHarness{
		New: func(t testing.TB) string {
			return with(t, srv.URL(), func(u *url.URL) {
				q := u.Query()
				q.Set("schema", "pawl_"+strings.ToLower(rand.Text()))
				u.RawQuery = q.Encode()
			})
		},
		Open:  openPlace,
		Crash: func(t testing.TB, _ string) { require.NoError(t, srv.Restart(pgtest.Immediate)) },
	})
}

// overheard is a TB whose failures are recorded and not reported.
type overheard struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (o *overheard) hear(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, text)
}

func (o *overheard) Error(args ...any)                 { o.hear(fmt.Sprint(args...)) }
func (o *overheard) Errorf(format string, args ...any) { o.hear(fmt.Sprintf(format, args...)) }
func (o *overheard) Fatal(args ...any)                 { o.Error(args...); runtime.Goexit() }
func (o *overheard) Fatalf(format string, args ...any) { o.Errorf(format, args...); runtime.Goexit() }

// A server whose commits do not wait for its log loses acknowledged commits when it crashes.
// Features reports that, and RunDurable detects it. The server's log writer is slow, so that the
// loss is certain.
func TestDurableFindsWhatSynchronousCommitOffLoses(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Setting("wal_writer_delay", "10s"), pgtest.Setting("wal_writer_flush_after", "1GB"))
	place := with(t, srv.URL(), func(u *url.URL) {
		q := u.Query()
		q.Set("synchronous_commit", "off")
		u.RawQuery = q.Encode()
	})
	require.Equal(t, store.Delayed, open(t, place, "pawl").Features().Durability)
	heard := &overheard{TB: t}
	crashes := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		conformance.RunDurable(heard, conformance.DurableHarness{
			New: func(testing.TB) string {
				return with(t, place, func(u *url.URL) {
					q := u.Query()
					q.Set("schema", "pawl_"+strings.ToLower(rand.Text()))
					u.RawQuery = q.Encode()
				})
			},
			Open: openPlace,
			Crash: func(testing.TB, string) {
				crashes++
				assert.NoError(t, srv.Restart(pgtest.Immediate))
			},
			Seed: 1,
		})
	}()
	<-done
	require.Positive(t, crashes, "processes alone were killed, and that loses nothing: %q", heard.said)
	require.NotEmpty(t, heard.said, "the server has lost nothing that it had acknowledged, or nobody has seen it")
	require.Contains(t, heard.said[0], "was acknowledged")
}
