package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run twice, the program charges once, both tell of the receipt, and neither leaves a
// worker behind that misses its store.
func TestTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
	defer slog.SetDefault(before)
	said := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		said <- string(all)
	}()
	main()
	main()
	require.NoError(t, w.Close())
	all := <-said
	require.Empty(t, logged.String(), "warnings and errors")
	require.Equal(t, 1, strings.Count(all, "charging for a lamp"), all)
	require.Equal(t, 2, strings.Count(all, "a lamp is shipped, paid by charge-1 <nil>"), all)
}
