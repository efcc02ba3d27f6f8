package turso_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// openPlace opens the database of a place, in any process. The place holds the server's address and
// the database's URL, whose host cannot be resolved.
func openPlace(ctx context.Context, place string) (store.Store, error) {
	addr, url, _ := strings.Cut(place, " ")
	return turso.Open(ctx, url, turso.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}))
}

// TestDurable kills processes, and then the server that they use.
func TestDurable(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	conformance.RunDurable(t, conformance.DurableHarness{
		New:  func(t testing.TB) string { return srv.Addr() + " " + srv.Namespace(t) },
		Open: openPlace,
		Crash: func(t testing.TB, _ string) {
			require.NoError(t, srv.Kill())
			require.NoError(t, srv.Restart())
		},
	})
}
