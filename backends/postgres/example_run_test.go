package postgres_test

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// The examples read the database's URL from the environment, as programs do. An example with an
// Output comment would run without a server from the test harness. The examples therefore have
// none, and this test runs them.
func TestExamples(t *testing.T) {
	for name, example := range map[string]struct {
		run    func()
		prints string
	}{
		"Open": {ExampleOpen, "postgres\n"},
		"InTx": {ExampleInTx, "70 <nil>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DATABASE_URL", pgtest.Database(t))
			require.Equal(t, example.prints, printed(t, example.run))
		})
	}
}

// printed returns what f writes to the standard output.
func printed(t *testing.T, f func()) string {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer func(out *os.File) { os.Stdout = out }(os.Stdout)
	os.Stdout = w
	f() // prints less than a pipe holds
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
