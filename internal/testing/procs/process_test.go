package procs

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/selfexec"
)

// envRole is the role of a process that a test has started. Variables of the role contain
// everything else that it needs.
const envRole = "PAWL_PROCS_ROLE"

// roles are the functions of this binary when a test has started it.
var roles = map[string]func(ctx context.Context) error{
	"share":   share,
	"worker":  workerRole,
	"starter": starterRole,
	"victim":  victimRole,
	"limited": limitedRole,
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(envRole)]; role != nil {
		go selfexec.DieWithParent()
		if err := role(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, os.Getenv(envRole), "process:", err)
			os.Exit(1)
		}
		return
	}
	pgtest.Run(m)
}

// process is a process that the test has started.
type process = selfexec.Process

// spawn starts this binary again in a role.
func spawn(t *testing.T, role string, env []string, heard func(line string)) *process {
	t.Helper()
	return selfexec.Spawn(t, role, nil, append([]string{envRole + "=" + role}, env...), heard)
}
