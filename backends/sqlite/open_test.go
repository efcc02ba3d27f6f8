package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/parallel"
	"github.com/pawlhq/pawl/internal/testing/txtest"
	"github.com/pawlhq/pawl/store"
)

// helper is the environment variable that makes the test binary another process
// of a test: "open PATH" or "create PATH".
const helper = "PAWL_SQLITE_HELPER"

func TestMain(m *testing.M) {
	txtest.Child(orderAndStart)
	conformance.DurableChild(openPlace)
	task, path, ok := strings.Cut(os.Getenv(helper), " ")
	if !ok {
		parallel.Raise()
		os.Exit(m.Run())
	}
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	for task == "create" { // until the process is killed
		runs := newRuns(1)
		if _, err := s.Create(context.Background(), store.CreateParams{Namespace: ns, Runs: runs}); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString(runs[0].ID.String() + "\n")
	}
	os.Exit(0)
}

func process(t *testing.T, task, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helper+"="+task+" "+path)
	return cmd
}

// open opens a store that ends with the test.
// patience is how long a test waits for the write lock. Many cases share a file, and on a busy
// machine one of them may hold the lock for longer than the default.
const patience = 2 * time.Minute

func open(t testing.TB, location string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), location, append([]sqlite.Option{sqlite.WithBusyTimeout(patience)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "pawl.db") }

// newest is a file with the newest schema and nothing else.
var newest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pawl.db")
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// migrated is file with the newest schema. Hundreds of cases open a file of their own, and a copy
// costs less than the migrations do.
func migrated(t testing.TB) string {
	t.Helper()
	content, err := newest()
	require.NoError(t, err)
	path := file(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// raw opens the file as an external tool would.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	known, err := sqlitecore.Migrations()
	require.NoError(t, err)
	newest := known[len(known)-1].Version
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte("these are notes, not a database"), 0o600))
	newer := filepath.Join(dir, "newer.db")
	require.NoError(t, open(t, newer).Close())
	_, err = raw(t, newer).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1); UPDATE compatibility SET minimum=?`, newest+1)
	require.NoError(t, err)

	t.Cleanup(func() { // when the cases have ended
		require.NoFileExists(t, filepath.Join(dir, "typo.db"), "made although it was not to be migrated")
	})
	empty := filepath.Join(dir, "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))

	for name, c := range map[string]struct {
		location string
		opts     []sqlite.Option
		says     []string
	}{
		"not a database":     {location: text, says: []string{"notes.txt", "not an SQLite database"}},
		"no directory":       {location: filepath.Join(dir, "none", "x.db"), says: []string{"does not exist", "create it"}},
		"a directory":        {location: dir, says: []string{dir}},
		"no path":            {location: "sqlite:", says: []string{"path is empty"}},
		"unknown parameter":  {location: "sqlite:x.db?sync=full", says: []string{`"sync"`, "synchronous, busy_timeout or migrate"}},
		"wrong synchronous":  {location: "sqlite:x.db?synchronous=off", says: []string{"full or normal"}},
		"wrong busy_timeout": {location: "sqlite:x.db?busy_timeout=5", says: []string{"duration"}},
		"wrong migrate":      {location: "sqlite:x.db?migrate=1", says: []string{"true or false"}},
		"newer schema":       {location: newer, says: []string{"version 99", fmt.Sprintf("know version %d or later", newest+1), fmt.Sprint("up to ", newest), "newer program"}},
		"not there":          {location: filepath.Join(dir, "typo.db"), opts: []sqlite.Option{sqlite.WithoutMigration()}, says: []string{"typo.db", "does not exist", "pawl migrate up"}},
		"no schema":          {location: empty, opts: []sqlite.Option{sqlite.WithoutMigration()}, says: []string{"version 0", fmt.Sprint("needs ", newest)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sqlite.Open(context.Background(), c.location, c.opts...)
			require.ErrorIs(t, err, store.ErrInvalid)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
	after, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Equal(t, "these are notes, not a database", string(after))
}

func TestNewerSchemaThatOlderProgramsMayUse(t *testing.T) {
	t.Parallel()
	known, err := sqlitecore.Migrations()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "newer.db")
	require.NoError(t, open(t, file).Close())
	_, err = raw(t, file).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1); UPDATE compatibility SET minimum=?`, known[len(known)-1].Version)
	require.NoError(t, err)
	for _, opts := range [][]sqlite.Option{nil, {sqlite.WithoutMigration()}} {
		s, err := sqlite.Open(t.Context(), file, opts...)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

func TestOpenByURL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?%#.db")
	open(t, path)
	require.FileExists(t, path)

	dir := t.TempDir()
	s, err := backends.Open(context.Background(), "sqlite:"+dir+"/x%20y.db?synchronous=normal&busy_timeout=1s")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "x y.db"))
	require.True(t, s.Features().Processes)
	require.Regexp(t, `^SQLite \d+\.\d+\.\d+$`, s.Features().Version)
	require.NoError(t, s.Close())

	for _, slashes := range []string{"", "//", "///"} { // before the path
		s, err := backends.Open(context.Background(), "sqlite:"+slashes+dir+"/slashes.db")
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, "slashes.db"))
		require.NoError(t, s.Close())
	}

	for _, url := range []string{"mysql://x", "pawl.db"} {
		_, err = backends.Open(context.Background(), url)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "sqlite")
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	for _, location := range []string{file(t), ":memory:"} {
		s := open(t, location)
		hints, err := s.Hints(context.Background())
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		_, open := <-hints
		require.False(t, open)
		_, err = s.Get(context.Background(), store.GetParams{Namespace: ns, IDs: []store.ID{store.NewID()}})
		require.ErrorIs(t, err, store.ErrUnavailable)
		_, err = s.Create(context.Background(), store.CreateParams{Namespace: ns, Runs: newRuns(1)})
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
}

// TestMigrationRace opens one new file from many handles and many processes.
func TestMigrationRace(t *testing.T) {
	t.Parallel()
	t.Run("handles", func(t *testing.T) {
		t.Parallel()
		path := file(t)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				s, err := sqlite.Open(context.Background(), path)
				if assert.NoError(t, err) {
					assert.NoError(t, s.Close())
				}
			})
		}
		wg.Wait()
	})
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		path := file(t)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				out, err := process(t, "open", path).CombinedOutput()
				assert.NoError(t, err, string(out))
			})
		}
		wg.Wait()
		open(t, path, sqlite.WithoutMigration())
	})
}

// TestKilledProcess checks FULL as far as a test can: everything that a process has reported before
// it is killed is stored.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	path := file(t)
	cmd := process(t, "create", path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var ids []store.ID
	line := make([]byte, 37)
	for len(ids) < 50 {
		_, err := readFull(out, line)
		require.NoError(t, err)
		id, err := store.ParseID(string(line[:36]))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	runs, err := open(t, path).Get(context.Background(), store.GetParams{Namespace: ns, IDs: ids})
	require.NoError(t, err)
	require.Len(t, runs, len(ids))
}

func readFull(r interface{ Read([]byte) (int, error) }, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// TestReadOnlyFile runs as another user, because root may write everything.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pawl") // not below the test's own directory, which other users may not enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "pawl.db")
	require.NoError(t, open(t, path).Close())
	require.NoError(t, os.Chmod(path, 0o444))
	require.NoError(t, os.Chmod(dir, 0o755))
	cmd := process(t, "open", path)
	if os.Getuid() == 0 {
		bin := filepath.Join(dir, "test") // where that user may read it
		data, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(bin, data, 0o755))
		cmd.Path, cmd.Dir = bin, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Contains(t, string(out), "may not write the file")
}

func TestCorruptFile(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path)
	create(t, s, newRuns(1000)...)
	require.NoError(t, s.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 8192; i < len(data); i++ {
		data[i] = 0xa5
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s, err = sqlite.Open(context.Background(), path)
	if err == nil {
		defer s.Close()
		_, err = s.Count(context.Background(), store.CountParams{Namespace: ns})
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.ErrorContains(t, err, "restore it from a backup")
}

func TestBytes(t *testing.T) {
	t.Parallel()
	s := open(t, file(t))
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, in := range [][]byte{nil, {}, {0}, every, bytes.Repeat(every, 64)} {
		run := newRuns(1)[0]
		run.Input, run.Meta = in, in
		create(t, s, run)
		got := claim(t, s, 1).Runs[0]
		require.Equal(t, in, got.Run.Input)
		require.Equal(t, in, got.Run.Meta)
		step := stepRecord(1)
		step.Output, step.Failure = in, &store.Failure{Details: in}
		res := commit(t, s, store.Commit{Lease: got.Lease, Seq: 1, Steps: []store.StepRecord{step}, State: []store.StateWrite{{Key: "k", Value: in}},
			Transition: &store.Transition{Kind: store.CompleteRun, Output: in}})
		require.NoError(t, res[0].Err)
		runs, err := s.Get(context.Background(), store.GetParams{Namespace: ns, IDs: []store.ID{run.ID}})
		require.NoError(t, err)
		require.Equal(t, in, runs[0].Input)
		require.Equal(t, in, runs[0].Output)
		page, err := s.Steps(context.Background(), store.StepsParams{Namespace: ns, Run: run.ID})
		require.NoError(t, err)
		require.Equal(t, in, page.Steps[0].Output)
		require.Equal(t, in, page.Steps[0].Failure.Details)
		state, err := s.GetState(context.Background(), store.GetStateParams{Namespace: ns, Run: run.ID})
		require.NoError(t, err)
		require.Equal(t, in, state[0].Value)
	}
}

// TestBubble runs a store in memory in simulated time.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), ":memory:")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		hints, err := s.Hints(ctx)
		require.NoError(t, err)
		run := newRuns(1)[0]
		run.After = 24 * time.Hour
		create(t, s, run)
		require.Equal(t, []store.Hint{{Kind: store.HintQueue, Namespace: ns, Queue: line}}, <-hints)
		require.Empty(t, claim(t, s, 1).Runs)
		time.Sleep(24 * time.Hour) // of the test's own clock: no time passes on the machine's
		require.Len(t, claim(t, s, 1).Runs, 1)
		cancel()
		_, open := <-hints
		require.False(t, open)
		require.NoError(t, s.Close())
	})
}

func TestMemoryStoresAreApart(t *testing.T) {
	t.Parallel()
	a, b := open(t, ":memory:"), open(t, "sqlite::memory:")
	create(t, a, newRuns(1)...)
	require.Empty(t, claim(t, b, 1).Runs)
	require.Len(t, claim(t, a, 1).Runs, 1)
	require.False(t, a.Features().Processes)
}

// TestReadableTables reads the file with SQL, as a person would.
func TestReadableTables(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path)
	run := newRuns(1)[0]
	create(t, s, run)
	claim(t, s, 1)
	var id, status, worker string
	require.NoError(t, raw(t, path).QueryRow(`SELECT id, status, worker FROM run_list`).Scan(&id, &status, &worker))
	require.Equal(t, strings.ReplaceAll(run.ID.String(), "-", ""), id)
	require.Equal(t, []string{"running", "w"}, []string{status, worker})
}
