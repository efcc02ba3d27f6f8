// Edge: a program that runs only while there is something to do. A request or a
// clock starts it; it does what is due and says when to start it again. Between two
// starts nothing runs and nothing is paid for: the state is in the database, at
// the edge usually Turso.
//
//	export PAWL_URL='libsql://name.turso.io?authToken=...'   (default: a file of SQLite)
//	edge -sign-up ann@example.org     a request: starts her trial and does its first step
//	edge                              a tick of the clock: does what is due
//
// With -day 3s a day passes in three seconds.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type Trial struct {
	Email string
	Day   time.Duration
}

// trial sends three mails over two weeks.
func trial(out io.Writer) *workflow.Workflow[Trial, string] {
	return workflow.New("trial", func(ctx workflow.Context, t Trial) (string, error) {
		mail := func(name, text string) error {
			return workflow.Do(ctx, name, func(ctx context.Context) error {
				_, err := fmt.Fprintf(out, "to %s (key %s): %s\n", t.Email, workflow.IdempotencyKey(ctx), text)
				return err
			})
		}
		if err := mail("welcome", "Welcome!"); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "first week", 7*t.Day); err != nil {
			return "", err
		}
		if err := mail("halfway", "How do you like it?"); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "second week", 7*t.Day); err != nil {
			return "", err
		}
		return "trial of " + t.Email + " is over", mail("goodbye", "Your trial ends today.")
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := flag.String("url", cmp.Or(os.Getenv("PAWL_URL"), "sqlite:edge.db"), "the database; default: PAWL_URL")
	email := flag.String("sign-up", "", "start the trial of this address")
	day := flag.Duration("day", 24*time.Hour, "how long a day is")
	flag.Parse()
	next, err := tick(ctx, os.Stdout, *url, Trial{*email, *day})
	if err != nil {
		fmt.Fprintln(os.Stderr, "edge:", err)
		os.Exit(1)
	}
	if next.IsZero() {
		fmt.Println("nothing left to do")
	} else {
		fmt.Println("start me again at", next.Format(time.RFC3339))
	}
}

// tick starts a trial if an address is given, does what is due, and returns when
// the next thing is.
func tick(ctx context.Context, out io.Writer, url string, sign Trial) (next time.Time, err error) {
	// A platform that gives a program a minute should not see it use more.
	ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
	defer cancel()
	st, err := backends.Open(ctx, url)
	if err != nil {
		return next, err
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng, worker.Grace(5*time.Second))
	flow := trial(out)
	if err := w.Register(flow); err != nil {
		return next, err
	}
	if sign.Email != "" { // whoever signs up twice has one trial
		if _, err := flow.Start(ctx, eng, sign, engine.ExternalID("trial-"+sign.Email), engine.AnyInput()); err != nil {
			return next, err
		}
	}
	return w.RunUntilIdle(ctx)
}
