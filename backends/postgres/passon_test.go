package postgres_test

import (
	"testing"

	"github.com/pawlhq/pawl/internal/testing/passtest"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

func TestPassOn(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	passtest.Run(t, open(t, url, schema))
}
