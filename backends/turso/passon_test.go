package turso_test

import (
	"testing"

	"github.com/pawlhq/pawl/internal/testing/passtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
)

func TestPassOn(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Shared(t)
	passtest.Run(t, open(t, srv, sqldtest.Namespace(t)))
}
