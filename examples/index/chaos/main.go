// Chaos kills the index example with -9 at random moments, starts it again each
// time, and checks what comes of it:
//
//   - the report equals the one of an undisturbed index, byte for byte;
//   - every file has one completed run with one recorded step, and the tree has one;
//   - no run was held longer than one lease after its process had died.
//
// It is run by make chaos:
//
//	go run ./examples/index/chaos [-kills 25] [-seed N] [directory]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func main() {
	c := chaos{lease: 3 * time.Second, out: os.Stdout}
	flag.IntVar(&c.kills, "kills", 25, "how often the index is killed")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "what the moments are drawn from")
	flag.Parse()
	c.root = flag.Arg(0)
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

type chaos struct {
	root  string // empty: the index's default
	kills int
	seed  uint64
	lease time.Duration
	out   io.Writer

	dir, program string
	random       *rand.Rand
}

func (c *chaos) run(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp("", "pawl-chaos-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	c.random = rand.New(rand.NewPCG(c.seed, 0))
	fmt.Fprintf(c.out, "seed %d\n", c.seed)
	c.program = filepath.Join(c.dir, "index")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", c.program, "github.com/pawlhq/pawl/examples/index").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}

	from := time.Now()
	if err := c.index(ctx, "calm").Run(); err != nil {
		return fmt.Errorf("undisturbed index: %w", err)
	}
	calm := time.Since(from)
	fmt.Fprintf(c.out, "undisturbed: %v\n", calm.Round(time.Millisecond))

	for kill := range c.kills {
		done, err := c.killOnce(ctx, calm, c.kills-kill)
		if err != nil {
			return fmt.Errorf("kill %d: %w", kill+1, err)
		}
		fmt.Fprintf(c.out, "kill %d: %d files done\n", kill+1, done)
	}
	from = time.Now()
	if err := c.index(ctx, "stormy").Run(); err != nil {
		return fmt.Errorf("last index: %w", err)
	}
	took := time.Since(from)
	fmt.Fprintf(c.out, "after the last kill: %v\n", took.Round(time.Millisecond))
	if limit := 2*calm + c.lease + 5*time.Second; took > limit {
		return fmt.Errorf("the last index took %v, over %v: a run was stuck for longer than a lease", took, limit)
	}
	return c.check(ctx)
}

func (c *chaos) index(ctx context.Context, name string) *exec.Cmd {
	args := []string{"-db", c.path(name + ".db"), "-report", c.path(name + ".txt"), "-lease", c.lease.String()}
	if c.root != "" {
		args = append(args, c.root)
	}
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Stderr = io.Discard
	return cmd
}

func (c *chaos) path(name string) string { return filepath.Join(c.dir, name) }

// killOnce starts the index and kills it at a random moment, at which it has not
// finished: the moments are drawn from what is left of the work.
func (c *chaos) killOnce(ctx context.Context, calm time.Duration, left int) (done int64, err error) {
	cmd := c.index(ctx, "stormy")
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	moment := 20*time.Millisecond + time.Duration(c.random.Int64N(int64(calm)/int64(left+1)+int64(100*time.Millisecond)))
	time.Sleep(moment)
	if err := cmd.Process.Kill(); err != nil {
		return 0, fmt.Errorf("the index had finished after %v: %w", moment, err)
	}
	killed := time.Now()
	if err := cmd.Wait(); err == nil {
		return 0, fmt.Errorf("the index had finished within %v", moment)
	}
	if _, err := os.Stat(c.path("stormy.db")); errors.Is(err, os.ErrNotExist) {
		return 0, nil // killed before it had made its database
	}
	st, err := sqlite.Open(ctx, c.path("stormy.db"))
	if err != nil {
		return 0, err
	}
	defer st.Close()
	return c.held(ctx, st, killed)
}

// held checks that no lease outlives its dead process by more than its length, and
// counts the completed runs.
func (c *chaos) held(ctx context.Context, st store.Store, killed time.Time) (done int64, err error) {
	eng := engine.New(st)
	defer eng.Close()
	for cursor := ""; ; {
		page, err := eng.List(ctx, store.RunFilter{Statuses: []store.Status{store.Running}}, cursor, store.MaxPage)
		if err != nil {
			return 0, err
		}
		for _, run := range page.Runs {
			if run.VisibleAt.After(killed.Add(c.lease)) {
				return 0, fmt.Errorf("run %s is held until %v, longer than a lease after its process died", run.ID, run.VisibleAt.Sub(killed))
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	counts, err := eng.Count(ctx, store.RunFilter{Statuses: []store.Status{store.Completed}})
	for _, n := range counts {
		done += n.Count
	}
	return done, err
}

func (c *chaos) check(ctx context.Context) error {
	calm, err1 := os.ReadFile(c.path("calm.txt"))
	stormy, err2 := os.ReadFile(c.path("stormy.txt"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !bytes.Equal(calm, stormy) {
		return errors.New("the report differs from the undisturbed one")
	}
	st, err := sqlite.Open(ctx, c.path("stormy.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	var runs, trees, attempts int
	for cursor := ""; ; {
		page, err := eng.List(ctx, store.RunFilter{}, cursor, store.MaxPage)
		if err != nil {
			return err
		}
		for _, run := range page.Runs {
			steps, err := eng.Steps(ctx, run.ID)
			if err != nil {
				return err
			}
			if run.Status != store.Completed || len(steps) != 1 || steps[0].Status != store.StepCompleted {
				return fmt.Errorf("run %s is %v with %d recorded steps, expected completed with one", run.ID, run.Status, len(steps))
			}
			if run.Parent.IsZero() {
				trees++
			} else {
				runs++
			}
			attempts += int(run.Epoch)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if trees != 1 {
		return fmt.Errorf("the tree has %d runs, expected one", trees)
	}
	fmt.Fprintf(c.out, "%d files, each recorded once; %d claims; reports are equal\n", runs, attempts)
	return nil
}
