// Mutation measures which faults in the code of the SQL backends the conformance suite finds. It changes one
// place of a backend's source at a time, builds the backend's tests with the changed file, and runs them.
//
//	go run ./internal/testing/mutation -backend sqlite                  # the planted faults, each ten times
//	go run ./internal/testing/mutation -backend postgres -only claim    # those whose names contain a text
//	go run ./internal/testing/mutation -backend sqlite -generate -for 2h -out /tmp/sqlite.json # generated mutations, drawn by a seed
//
// A planted fault ([Patch]) must be killed by the case of the conformance suite that it names, each
// time. What is outside the contract, such as opening a database, has a test of the backend instead.
//
// On a generated mutation, the cases that have found most faults in the same file run first, and then one
// tier after another until one fails. A case that fails beside others must fail alone, too. The
// report counts mutations by the kind of the change and by file. A survivor is either a gap in the
// suite or a change that no caller can see; the report has its place and its text. The list in
// equivalent.go has the latter, each with the reason, and the tool does not try them. With -out,
// results are written as they come, and a later run goes on where the last one stopped.
//
// Source files are replaced with the go command's -overlay flag; the tree does not change. Nearly all
// changes need no build of their own: one binary contains those inside strings, conditions,
// comparisons and removed statements, and an environment variable selects one.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	backend                              string
	generate, elsewhere, print, trusting bool
	only, out                            string
	count, sample, tiers, jobs           int
	limit                                time.Duration
	seed                                 uint64
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutation", flag.ExitOnError)
	flags.StringVar(&o.backend, "backend", "sqlite", "whose `tests` run: "+strings.Join(names(), ", "))
	flags.BoolVar(&o.generate, "generate", false, "generate mutations instead of the planted faults")
	flags.StringVar(&o.only, "only", "", "only mutations whose name, file or case contains this `text`, or one of several with commas between them")
	flags.IntVar(&o.count, "count", 10, "runs of the case that must find a planted fault")
	flags.BoolVar(&o.elsewhere, "elsewhere", true, "look through the whole store tier for a case that finds a planted fault that its own case misses")
	flags.DurationVar(&o.limit, "for", time.Hour, "start no further mutation after this time")
	flags.IntVar(&o.sample, "n", 0, "at most so many generated mutations (0: as many as the time allows)")
	flags.IntVar(&o.tiers, "tiers", 0, "at most so many tiers for a generated mutation (0: all); a later run with the same -out goes on with the next")
	flags.IntVar(&o.jobs, "jobs", 1, "mutations that are tried at a time")
	flags.Uint64Var(&o.seed, "seed", 1, "draws the order of generated mutations")
	flags.StringVar(&o.out, "out", "", "append a line of JSON for each mutation to this `file`, and try none again that is in it")
	flags.BoolVar(&o.trusting, "trust", false, "do not run the tests without any mutation first, because they are known to pass")
	flags.BoolVar(&o.print, "report", false, "only print the report of the file of -out")
	_ = flags.Parse(args)
	if backends[o.backend] == nil || flags.NArg() > 0 {
		flags.Usage()
		return o, errors.New("unknown backend or argument")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	b := backends[o.backend]
	r := &runner{root: root, backend: b, count: o.count, elsewhere: o.elsewhere, quick: newQuick(b), depth: len(b.tiers), trusting: o.trusting}
	if o.tiers > 0 {
		r.depth = min(o.tiers, r.depth)
	}
	if r.log, err = openHistory(o.out); err != nil {
		return err
	}
	list, err := o.list(root, b)
	if err != nil {
		return err
	}
	if o.print {
		r.log.report(list).print(os.Stdout, 0)
		return nil
	}
	if r.dir, err = os.MkdirTemp("", "mutation-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	tiers := b.tiers[:r.depth]
	if !o.generate {
		tiers = patterns(b.store, list)
	}
	if err := r.baseline(ctx, list, tiers); err != nil {
		return err
	}
	rep, err := r.tryAll(ctx, list, o.limit, o.jobs)
	if err != nil {
		return err
	}
	if !o.generate && rep.survivors() > 0 {
		return fmt.Errorf("%d planted faults survived", rep.survivors())
	}
	return nil
}

// list returns the mutations that the flags select, in the order in which they are tried.
func (o options) list(root string, b *backend) ([]Mutation, error) {
	var list []Mutation
	var err error
	if o.generate {
		if list, err = generated(root, b); err != nil {
			return nil, err
		}
		if _, err = excused(root, list, equivalents); err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewPCG(o.seed, 0))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	} else if list, err = planted(root, b.patches); err != nil {
		return nil, err
	}
	list = matching(list, o.only)
	if o.sample > 0 && len(list) > o.sample {
		list = list[:o.sample]
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no mutation matches %q", o.only)
	}
	return list, nil
}

// tryAll tries the mutations that the history does not decide, and starts none after the limit. It
// prints and logs what it finds.
func (r *runner) tryAll(ctx context.Context, list []Mutation, limit time.Duration, jobs int) (*report, error) {
	next := make(chan Mutation)
	untried := r.log.pending(list, r.depth)
	slices.SortStableFunc(untried, func(a, b Mutation) int { return cmp.Compare(min(b.id, 1), min(a.id, 1)) }) // a build of its own takes long
	left := len(untried)
	var group sync.WaitGroup
	var failed error // of the last worker that could not write its result
	for range max(jobs, 1) {
		group.Go(func() {
			for m := range next {
				res := r.try(ctx, m, r.log.of(m))
				if ctx.Err() != nil {
					continue
				}
				fmt.Println(res)
				if err := r.log.add(res); err != nil {
					r.log.mu.Lock()
					failed = err
					r.log.mu.Unlock()
				}
			}
		})
	}
	for began := time.Now(); len(untried) > 0 && time.Since(began) < limit && ctx.Err() == nil; untried = untried[1:] {
		select {
		case next <- untried[0]:
			left--
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	rep := r.log.report(list)
	rep.print(os.Stdout, left)
	return rep, failed
}

func matching(list []Mutation, text string) []Mutation {
	var out []Mutation
	texts := strings.Split(text, ",")
	for _, m := range list {
		if slices.ContainsFunc(texts, func(text string) bool {
			return strings.Contains(m.Name, text) || strings.Contains(m.File, text) || strings.Contains(m.Case, text)
		}) {
			out = append(out, m)
		}
	}
	return out
}

// moduleRoot finds the directory of go.mod from the working directory upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod here or above; run it in the repository")
		}
		dir = up
	}
}
