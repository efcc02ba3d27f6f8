package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// run runs a workflow to its end, on a new database in memory.
func run[In, Out any](wf *workflow.Workflow[In, Out], in In) (Out, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(wf); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	h, err := wf.Start(ctx, eng, in)
	if err != nil {
		log.Fatal(err)
	}
	out, err := h.Result(ctx)
	cancel()
	<-stopped
	return out, err
}

func ExampleStep() {
	greet := workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
		return workflow.Step(ctx, "write", func(ctx context.Context) (string, error) {
			// Work with side effects belongs here: it is done once and recorded.
			return "Hello, " + name, nil
		})
	})
	fmt.Println(run(greet, "Ann"))
	// Output:
	// Hello, Ann <nil>
}

// The other side recognizes a repeated request by its key. The key is the same for
// each attempt of the step, also after a crash.
func ExampleIdempotencyKey() {
	var keys []string
	charge := workflow.New("charge", func(ctx workflow.Context, cents int) (string, error) {
		return workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			keys = append(keys, workflow.IdempotencyKey(ctx)) // a request would have it in a header
			if workflow.Attempt(ctx) == 1 {
				return "", errors.New("the answer was lost")
			}
			return "charged", nil
		}, workflow.Backoff(time.Millisecond, 1, time.Millisecond))
	})
	fmt.Println(run(charge, 500))
	fmt.Println(len(keys), keys[0] == keys[1])
	// Output:
	// charged <nil>
	// 2 true
}

// A step is tried again, with a growing wait between the attempts.
func ExampleAttempts() {
	fetch := workflow.New("fetch", func(ctx workflow.Context, url string) (string, error) {
		return workflow.Step(ctx, "get", func(ctx context.Context) (string, error) {
			if attempt := workflow.Attempt(ctx); attempt < 3 {
				return "", fmt.Errorf("attempt %d: connection refused", attempt)
			}
			return fmt.Sprintf("%s, at attempt %d", url, workflow.Attempt(ctx)), nil
		}, workflow.Attempts(5), workflow.Backoff(time.Millisecond, 2, time.Second))
	})
	fmt.Println(run(fetch, "example.org"))
	// Output:
	// example.org, at attempt 3 <nil>
}

// An error that no further attempt can repair fails the step at once.
func ExamplePermanent() {
	attempts := 0
	charge := workflow.New("charge", func(ctx workflow.Context, card string) (string, error) {
		return workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			attempts++
			return "", workflow.Permanent(errors.New("the card has expired"))
		}, workflow.Attempts(10))
	})
	_, err := run(charge, "4242")
	fmt.Println(errors.Is(err, engine.ErrFailed), attempts)
	// Output:
	// true 1
}

// Errors that a program knows need not be marked: the step names them.
func ExampleNonRetryable() {
	errNoAccount := errors.New("no such account")
	attempts := 0
	pay := workflow.New("pay", func(ctx workflow.Context, account string) (string, error) {
		return workflow.Step(ctx, "pay", func(ctx context.Context) (string, error) {
			attempts++
			return "", fmt.Errorf("%s: %w", account, errNoAccount)
		}, workflow.NonRetryable(errNoAccount))
	})
	_, err := run(pay, "ann")
	fmt.Println(errors.Is(err, engine.ErrFailed), attempts)
	// Output:
	// true 1
}

// A server that is busy says when to come back. The step's own backoff would be an hour.
func ExampleRetryAfter() {
	call := workflow.New("call", func(ctx workflow.Context, _ struct{}) (int, error) {
		return workflow.Step(ctx, "call", func(ctx context.Context) (int, error) {
			if workflow.Attempt(ctx) == 1 {
				return 0, workflow.RetryAfter(errors.New("429 Too Many Requests"), time.Millisecond)
			}
			return workflow.Attempt(ctx), nil
		}, workflow.Backoff(time.Hour, 1, time.Hour))
	})
	fmt.Println(run(call, struct{}{}))
	// Output:
	// 2 <nil>
}

// Each attempt gets a context that ends after the timeout. The function must heed it.
func ExampleTimeout() {
	slow := workflow.New("slow", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Step(ctx, "wait", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, workflow.Timeout(5*time.Millisecond), workflow.Attempts(1))
	})
	_, err := run(slow, struct{}{})
	fmt.Println(workflow.ErrorCode(err) == workflow.CodeTimeout)
	// Output:
	// true
}

// A step's error is recorded as text and code. Code that has to distinguish errors gives them
// codes, which are the same in a replay and in another process.
func ExampleCoded() {
	order := workflow.New("order", func(ctx workflow.Context, item string) (string, error) {
		err := workflow.Do(ctx, "reserve", func(ctx context.Context) error {
			return workflow.Permanent(workflow.Coded("sold-out", errors.New("no "+item+" is left")))
		})
		if workflow.ErrorCode(err) == "sold-out" {
			return "put on the waiting list", nil
		}
		return "reserved", err
	})
	fmt.Println(run(order, "lamp"))
	// Output:
	// put on the waiting list <nil>
}

// The workflow sees what is recorded of a step that has failed for good.
func ExampleStepError() {
	report := workflow.New("report", func(ctx workflow.Context, _ struct{}) (string, error) {
		err := workflow.Do(ctx, "send", func(ctx context.Context) error {
			return errors.New("mailbox full")
		}, workflow.Attempts(2), workflow.Backoff(time.Millisecond, 1, time.Millisecond))
		var failed *workflow.StepError
		if !errors.As(err, &failed) {
			return "", err
		}
		return fmt.Sprintf("step %s, %d attempts: %s", failed.Key, failed.Attempts, failed.Failure.Message), nil
	})
	fmt.Println(run(report, struct{}{}))
	// Output:
	// step send, 2 attempts: mailbox full <nil>
}

// A sleep may last for months. It is kept in the store, and survives every restart.
func ExampleSleep() {
	remind := workflow.New("remind", func(ctx workflow.Context, after time.Duration) (string, error) {
		if err := workflow.Sleep(ctx, "until due", after); err != nil {
			return "", err
		}
		return "time to water the plants", nil
	})
	fmt.Println(run(remind, 10*time.Millisecond))
	// Output:
	// time to water the plants <nil>
}

// Values that may differ each time are recorded, so that a replay gets the same ones.
func ExampleValue() {
	price := 100
	quote := workflow.New("quote", func(ctx workflow.Context, pieces int) (int, error) {
		each, err := workflow.Value(ctx, "price", func() int { return price })
		if err != nil {
			return 0, err
		}
		if ctx.Info().Attempt == 1 {
			price = 120 // does not change this quote any more
			return 0, errors.New("the printer is out of paper")
		}
		return pieces * each, nil
	}, workflow.RunAttempts(2), workflow.RunBackoff(time.Millisecond, 1, time.Millisecond))
	fmt.Println(run(quote, 3))
	// Output:
	// 300 <nil>
}

// Two branches run at the same time, each with steps of its own.
func ExampleGo() {
	trip := workflow.New("trip", func(ctx workflow.Context, city string) (string, error) {
		book := func(what string) *workflow.Future[string] {
			return workflow.Go(ctx, what, func(ctx workflow.Context) (string, error) {
				return workflow.Step(ctx, "book", func(ctx context.Context) (string, error) {
					return what + " in " + city, nil
				})
			})
		}
		hotel, car := book("hotel"), book("car")
		h, err := hotel.Get(ctx)
		if err != nil {
			return "", err
		}
		c, err := car.Get(ctx)
		return h + ", " + c, err
	})
	fmt.Println(run(trip, "Bergen"))
	// Output:
	// hotel in Bergen, car in Bergen <nil>
}

// A group waits for all of its branches and joins their errors.
func ExampleGroup() {
	publish := workflow.New("publish", func(ctx workflow.Context, page string) (string, error) {
		g := workflow.NewGroup(ctx)
		for _, place := range []string{"site", "mail", "archive"} {
			g.Go(place, func(ctx workflow.Context) error {
				return workflow.Do(ctx, "put", func(ctx context.Context) error {
					if place == "mail" {
						return workflow.Permanent(errors.New("no subscribers"))
					}
					return nil
				})
			})
		}
		var failed *workflow.StepError
		if err := g.Wait(); !errors.As(err, &failed) {
			return page + " is published", err
		}
		return fmt.Sprintf("step %s: %s", failed.Key, failed.Failure.Message), nil
	})
	fmt.Println(run(publish, "news"))
	// Output:
	// step mail/put: no subscribers <nil>
}

// One branch provides a result that others wait for.
func ExamplePromise() {
	relay := workflow.New("relay", func(ctx workflow.Context, name string) (string, error) {
		token := workflow.NewPromise[string](ctx)
		workflow.Go(ctx, "login", func(ctx workflow.Context) (struct{}, error) {
			token.Resolve(workflow.Step(ctx, "login", func(ctx context.Context) (string, error) {
				return "token of " + name, nil
			}))
			return struct{}{}, nil
		})
		return token.Get(ctx)
	})
	fmt.Println(run(relay, "Ann"))
	// Output:
	// token of Ann <nil>
}

// A run that works forever starts again from time to time, so that its records do not grow.
func ExampleContinueAsNew() {
	type Scan struct{ Page, Found int }
	scan := workflow.New("scan", func(ctx workflow.Context, s Scan) (int, error) {
		found, err := workflow.Step(ctx, "read page", func(ctx context.Context) (int, error) { return 10, nil })
		if err != nil {
			return 0, err
		}
		s = Scan{Page: s.Page + 1, Found: s.Found + found}
		if s.Page < 3 {
			return 0, workflow.ContinueAsNew(ctx, s)
		}
		return s.Found, nil
	})
	fmt.Println(run(scan, Scan{}))
	// Output:
	// 30 <nil>
}

// A workflow may be tried again as a whole. Completed steps stay completed.
func ExampleRunAttempts() {
	charged := 0
	order := workflow.New("order", func(ctx workflow.Context, _ struct{}) (string, error) {
		err := workflow.Do(ctx, "charge", func(ctx context.Context) error {
			charged++
			return nil
		})
		if err == nil && ctx.Info().Attempt < 3 {
			err = errors.New("the warehouse is closed")
		}
		return fmt.Sprintf("attempt %d, charged %d time", ctx.Info().Attempt, charged), err
	}, workflow.RunAttempts(5), workflow.RunBackoff(time.Millisecond, 1, time.Millisecond))
	fmt.Println(run(order, struct{}{}))
	// Output:
	// attempt 3, charged 1 time <nil>
}

func say(line string) func(context.Context) error {
	return func(context.Context) error { fmt.Println(line); return nil }
}

// A new step is put in front of one that existing runs may have done already.
func ExampleChanged() {
	order := workflow.New("order", func(ctx workflow.Context, id int) (string, error) {
		if workflow.Changed(ctx, "fraud-check") {
			if err := workflow.Do(ctx, "check", say("checked")); err != nil {
				return "", err
			}
		}
		return "shipped", workflow.Do(ctx, "ship", say("sent"))
	})
	fmt.Println(run(order, 1))
	// Output:
	// checked
	// sent
	// shipped <nil>
}

// The mark is before the loop, so that a run keeps one version for all iterations.
func ExampleChanged_loop() {
	send := workflow.New("send", func(ctx workflow.Context, pages int) (string, error) {
		numbered := workflow.Changed(ctx, "numbered-pages")
		for page := range pages {
			line := "a page"
			if numbered {
				line = fmt.Sprint("page ", page+1)
			}
			if err := workflow.Do(ctx, "send", say(line)); err != nil {
				return "", err
			}
		}
		return "sent", nil
	})
	fmt.Println(run(send, 2))
	// Output:
	// page 1
	// page 2
	// sent <nil>
}

// No run is left that ships without a check, so the old path is deleted.
func ExampleDeprecated() {
	order := workflow.New("order", func(ctx workflow.Context, id int) (string, error) {
		workflow.Deprecated(ctx, "fraud-check")
		if err := workflow.Do(ctx, "check", say("checked")); err != nil {
			return "", err
		}
		return "shipped", workflow.Do(ctx, "ship", say("sent"))
	})
	fmt.Println(run(order, 1))
	// Output:
	// checked
	// sent
	// shipped <nil>
}
