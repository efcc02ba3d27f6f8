package testserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// fetchTimeout limits a command that downloads.
const fetchTimeout = 5 * time.Minute

// Cached returns a directory of the cache. If there is none of that name, fill creates its contents
// in an empty one. Several processes may do so concurrently.
func Cached(name string, fill func(dir string) error) (string, error) {
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

// cacheDir returns a directory that only this user can change and that the user of the servers can
// read.
func cacheDir() (string, error) {
	who, err := Unprivileged()
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
	if who != nil { // the umask may deny what who needs
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// readable makes a tree readable for everybody.
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

// Output runs a command in dir and returns what it prints.
func Output(dir, name string, args ...string) (string, error) {
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

// ErrUntrusted: the fetched files are not the expected ones. This is never ignored.
var ErrUntrusted = errors.New("the package is not to be trusted")

// NPM installs the npm packages that a package.json and its lock file name into a directory of the
// cache, and returns it. It does not run the packages' scripts, which would have all privileges of
// this user; then does what they would do.
func NPM(name string, manifest, lock []byte, then func(dir string) error) (string, error) {
	return Cached(fmt.Sprintf("%s-npm-%.8x", name, sha256.Sum256(lock)), func(dir string) error {
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o644),
			os.WriteFile(filepath.Join(dir, "package-lock.json"), lock, 0o644),
		); err != nil {
			return err
		}
		if _, err := Output(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			if strings.Contains(err.Error(), "EINTEGRITY") {
				err = errors.Join(ErrUntrusted, err)
			}
			return err
		}
		return then(dir)
	})
}
