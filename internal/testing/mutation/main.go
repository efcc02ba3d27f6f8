// Mutation measures which faults in the code of the SQL backends the conformance suite finds. It changes one
// place of a backend's source at a time, builds the backend's tests with the changed file, and runs them.
//
//	go run ./internal/testing/mutation -backend sqlite                  # the planted faults, each ten times
//	go run ./internal/testing/mutation -backend postgres -only claim    # those whose names contain a text
//	go run ./internal/testing/mutation -backend sqlite -generate -for 2h # generated mutations, drawn by a seed
//
// A planted fault ([Patch]) must be killed by the case of the conformance suite that it names, each
// time. What is outside the contract, such as opening a database, has a test of the backend instead. Generated mutations go through one tier after another until one fails. The report counts
// them by the kind of the change. A survivor is either a gap in the suite or a change
// that no caller can see; the report has its place and its text.
//
// Source files are replaced with the go command's -overlay flag; the tree does not change. A change inside a
// string, as most changes of SQL are, needs no build of its own: one binary contains all of them, and an
// environment variable selects one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
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

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutation", flag.ExitOnError)
	name := flags.String("backend", "sqlite", "whose `tests` run: "+strings.Join(names(), ", "))
	generate := flags.Bool("generate", false, "generate mutations instead of the planted faults")
	only := flags.String("only", "", "only mutations whose name, file or case contains this `text`")
	count := flags.Int("count", 10, "runs of the case that must find a planted fault")
	elsewhere := flags.Bool("elsewhere", true, "look through the whole store tier for a case that finds a planted fault that its own case misses")
	limit := flags.Duration("for", time.Hour, "start no further mutation after this time")
	sample := flags.Int("n", 0, "at most so many generated mutations (0: as many as the time allows)")
	seed := flags.Uint64("seed", 1, "draws the order of generated mutations")
	out := flags.String("out", "", "append a line of JSON for each mutation to this `file`")
	_ = flags.Parse(args)

	b, ok := backends[*name]
	if !ok || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("unknown backend or argument")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	r := &runner{root: root, backend: b, count: *count, elsewhere: *elsewhere}
	if r.dir, err = os.MkdirTemp("", "mutation-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if *out != "" {
		f, err := os.OpenFile(*out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		r.log = json.NewEncoder(f)
	}
	var list []Mutation
	tiers := b.tiers
	if *generate {
		if list, err = generated(root, b.sources); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(*seed, 0))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	} else {
		if list, err = planted(root, b.patches); err != nil {
			return err
		}
	}
	list = matching(list, *only)
	if *sample > 0 && len(list) > *sample {
		list = list[:*sample]
	}
	if len(list) == 0 {
		return fmt.Errorf("no mutation matches %q", *only)
	}
	if !*generate {
		tiers = patterns(b.store, list)
	}
	if err := r.baseline(ctx, list, tiers); err != nil {
		return err
	}
	rep, err := r.tryAll(ctx, list, *limit)
	if err != nil {
		return err
	}
	if !*generate && rep.survivors() > 0 {
		return fmt.Errorf("%d planted faults survived", rep.survivors())
	}
	return nil
}

// tryAll tries mutations, and starts none after the limit. It prints and logs what it finds.
func (r *runner) tryAll(ctx context.Context, list []Mutation, limit time.Duration) (*report, error) {
	rep := &report{}
	for began := time.Now(); len(list) > 0 && time.Since(began) < limit && ctx.Err() == nil; list = list[1:] {
		res := r.try(ctx, list[0])
		if ctx.Err() != nil {
			break
		}
		rep.add(res)
		fmt.Println(res)
		if r.log != nil {
			if err := r.log.Encode(res); err != nil {
				return rep, err
			}
		}
	}
	rep.print(os.Stdout, len(list))
	return rep, nil
}

func matching(list []Mutation, text string) []Mutation {
	var out []Mutation
	for _, m := range list {
		if strings.Contains(m.Name, text) || strings.Contains(m.File, text) || strings.Contains(m.Case, text) {
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
