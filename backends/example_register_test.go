package backends_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// A backend's package registers its scheme. Programs that import the package open its URLs like any
// others.
func init() {
	backends.Register("scratch", backends.Backend{
		Open: func(ctx context.Context, url string, c backends.Config) (store.Store, error) {
			return sqlite.Open(ctx, ":memory:")
		},
	})
}

func ExampleRegister() {
	st, err := backends.Open(context.Background(), "scratch:pad")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	fmt.Println(st.Features().Name)
	// Output:
	// sqlite
}
