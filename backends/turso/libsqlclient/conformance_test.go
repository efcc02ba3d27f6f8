package libsqlclient_test

import (
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
)

func TestMain(m *testing.M) {
	conformance.DurableChild(openPlace)
	sqldtest.Run(m)
}
