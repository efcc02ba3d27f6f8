package libsqlclient_test

import (
	"context"
	"log"
	"os"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/backends/turso/libsqlclient"
)

// The driver replaces the client of package turso.
func ExampleOpen() {
	ctx := context.Background()
	st, err := libsqlclient.Open(ctx, "libsql://shop-acme.turso.io", turso.WithToken(os.Getenv("TURSO_AUTH_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
}
