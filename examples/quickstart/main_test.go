package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run twice, the program charges once, and both tell of the receipt.
func TestTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	said := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		said <- string(all)
	}()
	main()
	main()
	require.NoError(t, w.Close())
	all := <-said
	require.Equal(t, 1, strings.Count(all, "charging for a lamp"), all)
	require.Equal(t, 2, strings.Count(all, "a lamp is shipped, paid by charge-1 <nil>"), all)
}
