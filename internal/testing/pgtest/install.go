package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// binaries are the programs of an installed PostgreSQL.
type binaries struct {
	dir     string   // of initdb and postgres
	libs    []string // directories of libraries that they need in addition to the system's
	version int
}

func (b binaries) command(name string, args ...string) *exec.Cmd {
	return command(filepath.Join(b.dir, name), b.libs, args...)
}

// command returns a command with a fixed environment.
func command(path string, libs []string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	if len(libs) > 0 {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+strings.Join(libs, string(filepath.ListSeparator)))
	}
	return cmd
}

// postgres finds the PostgreSQL that the environment asks for, or fetches it.
var postgres = sync.OnceValues(func() (binaries, error) {
	want := os.Getenv(envPostgres)
	b, err := find(want)
	if err != nil {
		return b, &missingError{strings.TrimSpace("PostgreSQL " + want), want != "", err}
	}
	return b, nil
})

func find(want string) (binaries, error) {
	major, err := strconv.Atoi(want)
	if want != "" && err != nil {
		b, err := look(filepath.Join(want, "bin"), nil)
		if err != nil {
			err = fmt.Errorf("%s is neither a major version nor a directory whose bin holds initdb and postgres: %w", envPostgres, err)
		}
		return b, err
	}
	have := installed()
	for _, b := range have {
		if want == "" || b.version == major {
			return b, nil
		}
	}
	if want == "" || major == npmVersion {
		b, err := fetchNPM()
		if err != nil {
			err = fmt.Errorf("not installed (install Debian's package postgresql, or set %s or %s), and npm does not bring it: %w", envURL, envPostgres, err)
		}
		return b, err
	}
	name := "postgresql-" + want
	root, libs, err := fetchDebian(name)
	if err != nil {
		return binaries{}, fmt.Errorf("not installed; install Debian's package %s, or set %s to a directory: %w", name, envPostgres, err)
	}
	return look(filepath.Join(root, "usr/lib/postgresql", want, "bin"), libs)
}

// installed returns the installed versions: first the one that pg_config in PATH names, then the
// others, newest first.
func installed() []binaries {
	var first, others []binaries
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if b, err := look(strings.TrimSpace(string(out)), nil); err == nil {
			first = append(first, b)
		}
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, dir := range dirs {
		if b, err := look(dir, nil); err == nil {
			others = append(others, b)
		}
	}
	slices.SortFunc(others, func(a, b binaries) int { return b.version - a.version })
	return append(first, others...)
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// look returns the PostgreSQL whose binaries are in dir.
func look(dir string, libs []string) (binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	b := binaries{dir: dir, libs: libs}
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return b, err
	}
	cmd := b.command("postgres", "--version")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return b, fmt.Errorf("%s: %w", cmd, err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return b, fmt.Errorf("%s: cannot read the version %q", cmd, out)
	}
	b.version, err = strconv.Atoi(string(m[1]))
	return b, err
}
