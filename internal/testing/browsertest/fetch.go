package browsertest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// The npm package is pinned, with its hash, in npm/package-lock.json. After changing package.json,
// run npm install --package-lock-only --omit-lockfile-registry-resolved there.
var (
	//go:embed npm/package.json
	npmPackage []byte
	//go:embed npm/package-lock.json
	npmLock []byte
)

// program finds the Chromium that the environment asks for, or installs it.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(envChromium); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", &missingError{"Chromium", true, fmt.Errorf("%s: %w", envChromium, err)}
		}
		return path, nil
	}
	if path, ok := installed(); ok {
		return path, nil
	}
	err := install()
	if path, ok := installed(); ok && err == nil {
		return path, nil
	}
	return "", &missingError{"Chromium", false, fmt.Errorf("not installed (install Debian's package chromium, or set %s): %w", envChromium, err)}
})

func installed() (string, bool) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// install installs Debian's package.
func install() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can install it")
	}
	get := func(args ...string) error {
		_, err := testserver.Output("", "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get"}, args...)...)
		return err
	}
	packages := []string{"install", "-y", "--no-install-recommends", "chromium"}
	if err := get(packages...); err == nil {
		return nil
	}
	if err := get("update"); err != nil { // the lists may be missing or old
		return err
	}
	return get(packages...)
}

// axe is the text of axe-core.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := testserver.NPM("axe", npmPackage, npmLock, func(string) error { return nil })
	if err != nil {
		return "", &missingError{"axe-core", false, fmt.Errorf("npm does not bring it: %w", err)}
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
})
