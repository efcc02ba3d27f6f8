// Package mine stands for a backend of somebody's own, whose URLs are mine:FILE. Under it is
// SQLite; to tools it is a backend without a schema.
package mine

import (
	"context"
	"strings"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

func init() {
	backends.Register("mine", backends.Backend{
		Open: func(ctx context.Context, url string, _ backends.Config) (store.Store, error) {
			path, _, _ := strings.Cut(strings.TrimPrefix(url, "mine:"), "?") // migrate, which tools give, says nothing to it
			s, err := sqlite.Open(ctx, path)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}
