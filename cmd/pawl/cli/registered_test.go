package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRegistered builds a program of somebody who has a backend of their own, without a
// schema, and calls it.
func TestRegistered(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mypawl")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/mypawl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	db := "mine:" + filepath.Join(t.TempDir(), "data.db")
	call := func(ctx context.Context, args ...string) result {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "PAWL_DB="+db, "PAWL_NAMESPACE=")
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	}
	must := func(args ...string) string {
		t.Helper()
		r := call(t.Context(), args...)
		require.Equal(t, exitOK, r.code, "mypawl %s: %s%s", strings.Join(args, " "), r.out, r.err)
		return r.out
	}

	doctor := must("doctor")
	require.Contains(t, doctor, db)
	require.Regexp(t, `schema +this backend does not use schema versions`, doctor)
	require.Contains(t, doctor, "0 faults")

	var started struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(must("runs", "start", "order", `"lamp"`, "--any", "--json")), &started))
	require.Contains(t, must("runs", "list"), started.ID)
	shown := must("runs", "show", started.ID)
	require.Contains(t, shown, started.ID)
	require.Contains(t, shown, "lamp")

	r := call(t.Context(), "migrate", "status")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, `databases of scheme "mine" have no schema`)
	r = call(t.Context(), "runs", "list", "--db", "bolt:x")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, `unknown scheme "bolt"; known schemes: `)
	require.Contains(t, r.err, "mine, ")
	r = call(t.Context(), "doctor", "--db", "mine:"+filepath.Join(t.TempDir(), "none", "data.db"))
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `fault +connection`, r.out)
}
