//go:build unix

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/reindex/search"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var (
	docsFlag  = flag.Int("reindex.docs", 1000, "how many documents there are")
	batchFlag = flag.Int("reindex.batch", 100, "how many are indexed at a time")
	rateFlag  = flag.Int("reindex.rate", 50, "how many changes the writer makes in a second")
	killsFlag = flag.Int("reindex.kills", 3, "how often the process is killed with -9")
	seedFlag  = flag.Uint64("reindex.seed", 0, "what the moments are drawn from; 0: another each time")
)

// envMain makes this binary the program.
const envMain = "PAWL_REINDEX_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) == "" {
		os.Exit(m.Run())
	}
	go func() { // it does not outlive the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	main()
}

// process is the program, started by the test.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // its output; closed at its end
}

func (c *chaosTest) spawn(args ...string) *process {
	t := c.t
	p := &process{t: t, cmd: exec.Command(os.Args[0], append(args, "-dir", c.dir, "-docs", fmt.Sprint(*docsFlag))...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), envMain+"=1")
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = stdin.Close()
	})
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// next is the next line; none: the process has ended.
func (p *process) next() (string, bool) {
	line, ok := <-p.lines
	require.NotContains(p.t, line, "WRONG", "a reader complains")
	return line, ok
}

// await reads lines until one is as wanted.
func (p *process) await(wanted func(line string) bool) string {
	for {
		line, ok := p.next()
		require.True(p.t, ok, "the process ended by itself")
		if wanted(line) {
			return line
		}
	}
}

// kill kills the process and reads what it has said before.
func (p *process) kill() {
	require.NoError(p.t, p.cmd.Process.Kill())
	p.drain()
	require.ErrorContains(p.t, p.cmd.Wait(), "killed")
}

// stop asks the process to end.
func (p *process) stop() (last string) {
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	last = p.drain()
	require.NoError(p.t, p.cmd.Wait())
	return last
}

func (p *process) drain() (last string) {
	for line, ok := p.next(); ok; line, ok = p.next() {
		last = line
	}
	return last
}

type chaosTest struct {
	t   *testing.T
	dir string
}

// at is what a line of progress says.
type at struct {
	backfilled, offset, target, log, queries int64
	alias                                    string
}

func parse(line string) (a at, ok bool) {
	n, _ := fmt.Sscanf(strings.ReplaceAll(line, "=", " "), "progress: backfilled %d consumer_offset %d target_watermark %d log %d alias %s queries %d",
		&a.backfilled, &a.offset, &a.target, &a.log, &a.alias, &a.queries)
	return a, n == 6
}

// TestChaos kills the process that serves and reindexes, while another one writes
// without a pause, and compares what comes of it with the source.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test -run TestChaos -reindex.docs=%d -reindex.kills=%d -reindex.seed=%d", *docsFlag, *killsFlag, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := &chaosTest{t: t, dir: t.TempDir()}
	c.prepare()

	writer := c.spawn("-write", "-rate", fmt.Sprint(*rateFlag))
	writer.await(func(line string) bool { return line == "writing" })
	begun := time.Now()

	// The last kill comes behind the switch, the others while the backfill is here or there.
	points := make([]float64, *killsFlag-1)
	for i := range points {
		points[i] = random.Float64() * 0.95
	}
	slices.Sort(points)
	serve := func() *process {
		return c.spawn("-no-writer", "-serve", "-to", "docs-2", "-batch", fmt.Sprint(*batchFlag), "-lease", "1s", "-progress", "100ms")
	}
	var queries int64
	for kill := range *killsFlag {
		p := serve()
		var first, now at
		p.await(func(line string) (ok bool) {
			if now, ok = parse(line); !ok {
				return strings.HasPrefix(line, "verified")
			}
			if first == (at{}) {
				first = now
			}
			works := now.backfilled > first.backfilled || now.offset > first.offset || now.alias != first.alias
			if kill < len(points) {
				return works && float64(now.backfilled) >= points[kill]*float64(*docsFlag)
			}
			return now.alias == "docs-2"
		})
		wait := time.Duration(random.IntN(100)) * time.Millisecond
		time.Sleep(wait)
		p.kill()
		queries += now.queries
		t.Logf("kill %d, %v behind %+v", kill+1, wait, now)
	}

	p := serve()
	t.Log(p.await(func(line string) bool { return strings.HasPrefix(line, "verified") }))
	t.Log(p.stop())
	writer.stop()
	c.check(time.Since(begun), queries)
}

// prepare fills the source and builds the first index.
func (c *chaosTest) prepare() {
	p := program{dir: c.dir, docs: *docsFlag, plan: Plan{Batch: 500}}
	src, err := p.openSource(c.t.Context())
	require.NoError(c.t, err)
	indices, err := search.Open(filepath.Join(c.dir, "indices"))
	require.NoError(c.t, err)
	require.NoError(c.t, p.first(c.t.Context(), src, indices))
	require.NoError(c.t, indices.Close())
	require.NoError(c.t, src.Close())
}

func (c *chaosTest) check(took time.Duration, queries int64) {
	t, ctx := c.t, c.t.Context()
	p := program{dir: c.dir, docs: *docsFlag}
	src, err := p.openSource(ctx)
	require.NoError(t, err)
	defer src.Close()
	indices, err := search.Open(filepath.Join(c.dir, "indices"))
	require.NoError(t, err)
	defer indices.Close()

	// The writer has written all the time, and readers have read.
	end, err := src.End(ctx)
	require.NoError(t, err)
	written := end - int64(*docsFlag)
	t.Logf("%d changes in %v, and %d queries of those that were killed", written, took.Round(time.Millisecond), queries)
	require.Greater(t, written, int64(took.Seconds())*int64(*rateFlag)/4)
	require.Positive(t, queries)

	// Once switched, both indices have all that the source has: there is a way back.
	require.Equal(t, search.Alias{Target: "docs-2", Previous: "docs-1", Generation: 2}, indices.Alias())
	for _, name := range []string{"docs-2", "docs-1"} {
		x, err := indices.Index(name)
		require.NoError(t, err)
		v, err := x.Verify(ctx, src)
		require.NoError(t, err)
		t.Log(v)
		require.True(t, v.OK(), v.String())
		require.Equal(t, end, v.Offset)
	}

	// Each step is recorded once, and the gate was kept.
	st, err := backends.Open(ctx, "sqlite:"+filepath.Join(c.dir, "pawl.db"))
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	run := store.DeriveID(store.ID{}, "reindex to docs-2")
	target, offset := stateOf(ctx, t, eng, run)
	require.GreaterOrEqual(t, offset, target)
	x, err := indices.Index("docs-2")
	require.NoError(t, err)
	require.LessOrEqual(t, offset, x.Offset())
	steps, err := eng.Steps(ctx, run)
	require.NoError(t, err)
	recorded := map[string]int{}
	for _, s := range steps {
		require.Equal(t, store.StepCompleted, s.Status, s.Name)
		recorded[s.Name]++
	}
	for _, name := range []string{"create-index", "backfill", "consume-changes", "caught-up", "seal-index", "switch-alias", "verify"} {
		require.Equal(t, 1, recorded[name], name)
	}
}

func stateOf(ctx context.Context, t *testing.T, eng *engine.Engine, run store.ID) (target, offset int64) {
	target, ok, err := TargetWatermark.Get(workflow.OfRun(ctx, eng, run))
	require.NoError(t, err)
	require.True(t, ok)
	offset, ok, err = ConsumerOffset.Get(workflow.OfRun(ctx, eng, run))
	require.NoError(t, err)
	require.True(t, ok)
	return target, offset
}
