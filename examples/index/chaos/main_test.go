package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A small tree and a few kills; make chaos does it at full size.
func TestChaos(t *testing.T) {
	root := t.TempDir()
	for i := range 2000 {
		text := bytes.Repeat(fmt.Appendf(nil, "package p%d // some words to count\n", i), 50)
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("f%04d.go", i)), text, 0o600))
	}
	var out bytes.Buffer
	c := chaos{root: root, kills: 4, seed: 1, lease: time.Second, out: &out}
	err := c.run(t.Context())
	t.Log(out.String())
	require.NoError(t, err)
}
