package enginetier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// withEffects is a workflow whose middle step has a table of its own, in the store's database. Its
// output is the number of rows at the end.
func withEffects(middle func(ctx workflow.Context, table string) error) *workflow.Workflow[int, int] {
	return workflow.New("effects", func(ctx workflow.Context, _ int) (n int, err error) {
		table := "effects_" + strings.ReplaceAll(ctx.Info().RunID.String(), "-", "")
		err = workflow.DoTx(ctx, "setup", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+table+" (n integer)")
			return err
		})
		if err == nil {
			err = middle(ctx, table)
		}
		if err != nil {
			return 0, err
		}
		return workflow.StepTx(ctx, "count", func(ctx context.Context, tx *sql.Tx) (int, error) {
			err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
			if err == nil {
				_, err = tx.ExecContext(ctx, "DROP TABLE "+table)
			}
			return n, err
		})
	})
}

func addRow(ctx context.Context, tx *sql.Tx, table string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	return err
}

var errNoTx = errors.New("the backend declares no transactions")

// transactions runs a case if the backend has transactions; otherwise it checks that they are
// refused.
func transactions(run func(e *E)) func(e *E) {
	return func(e *E) {
		if e.s.Features().Transactions {
			run(e)
			return
		}
		wf := workflow.New("refused", func(ctx workflow.Context, _ int) (int, error) {
			return 0, workflow.DoTx(ctx, "step", func(context.Context, *sql.Tx) error { return errNoTx })
		})
		e.process(defs(wf))
		_, err := start(e, wf, 0).Result(e.ctx)
		e.check(err != nil && strings.Contains(err.Error(), store.ErrUnsupported.Error()),
			"a step in a transaction: saw %v, expected it to fail with %v", err, store.ErrUnsupported)
	}
}

var txEngineCases = []Case{
	{Name: "tx/commits-with-the-record", Promise: "P3", Rule: "What a transactional step writes and its record become durable together, once.", Run: transactions(func(e *E) {
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			for range 3 {
				n, err := workflow.StepTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) (int, error) {
					return ran.add("add"), addRow(ctx, tx, table)
				})
				if err != nil || n == 0 {
					return fmt.Errorf("the step's result is %d: %w", n, err)
				}
				if err := workflow.Sleep(ctx, "nap", e.d(10*time.Second)); err != nil {
					return err
				}
			}
			return nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("rows", result(e, h), 3)
		e.eq("executions", ran.get("add"), 3)
		e.eq("the record of the third", e.steps(h.ID())["add#3"].Status, store.StepCompleted)
	})},
	{Name: "tx/record-has-its-times", Promise: "P13", Rule: "The record of a transactional step begins when its attempt did and ends when its function had returned, just before the commit.", Run: transactions(func(e *E) {
		var last time.Time
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				if err := addRow(ctx, tx, table); err != nil {
					return err
				}
				pause(e)
				var err error
				last, err = e.s.Clock(ctx)
				return err
			})
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("rows", result(e, h), 1)
		s := e.steps(h.ID())["add"]
		e.check(!s.FinishedAt.Before(last), "the record ends at %v, and its function read the time as %v", s.FinishedAt, last)
		e.check(s.StartedAt.Before(s.FinishedAt), "the record begins at %v and ends at %v", s.StartedAt, s.FinishedAt)
	})},
	{Name: "tx/failure-leaves-nothing", Promise: "P3", Rule: "An attempt that fails or panics leaves nothing of its writes; the next one begins anew.", Run: transactions(func(e *E) {
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				if err := addRow(ctx, tx, table); err != nil {
					return err
				}
				switch ran.add("add") {
				case 1:
					return errFlaky
				case 2:
					panic("in a transaction")
				}
				return nil
			}, workflow.Backoff(e.d(time.Second), 1, 0))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("rows", result(e, h), 1)
		e.eq("executions", ran.get("add"), 3)
		e.eq("attempts", e.steps(h.ID())["add"].Attempt, 3)
	})},
	{Name: "tx/swallowed-error", Promise: "P3", Rule: "A transaction that cannot commit fails its step, and the error says so.", Run: transactions(func(e *E) {
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				if err := addRow(ctx, tx, table); err != nil {
					return err
				}
				return tx.Rollback()
			}, workflow.Attempts(1))
		})
		e.process(defs(wf))
		_, err := start(e, wf, 0).Result(e.ctx)
		e.check(err != nil && strings.Contains(err.Error(), "together with the step's record"),
			"a step that ended its transaction itself: saw %v, expected an error that explains it", err)
	})},
	{Name: "tx/lost-answers", Promise: "P4", Rule: "When the answer to COMMIT is lost, its outcome is determined; nothing is done twice.", Run: transactions(func(e *E) {
		const rows = 12
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			for range rows {
				err := workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
					ran.add("add")
					return addRow(ctx, tx, table)
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		e.process(defs(wf)).wire.loseEvery(3)
		e.eq("rows", result(e, start(e, wf, 0)), rows)
		e.eq("executions", ran.get("add"), rows)
	})},
	{Name: "tx/attempt-gives-number-back", Promise: "P4", Rule: "A transaction that was not applied uses no number: its step is done again under the same lease.", Run: transactions(func(e *E) {
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			for range 3 {
				err := workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
					ran.add("add")
					return addRow(ctx, tx, table)
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		p := e.build(defs(wf))
		var calls atomic.Int64
		p.wire.hook(func(verb string) {
			if verb == "commit-tx" && calls.Add(1)%2 == 1 {
				p.wire.set(wireDown)
			} else {
				p.wire.set(wireUp)
			}
		})
		h := start(e, wf, 0)
		p.run()
		e.eq("rows", result(e, h), 3)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch", run.Epoch, int64(1))
		e.check(ran.get("add") > 3, "saw %d executions, expected some to be repeated", ran.get("add"))
	})},
	{Name: "tx/killed-before-commit", Promise: "P6", Rule: "If a process dies between a step's writes and COMMIT, neither they nor the record remain. The worker that takes over does both.", Run: transactions(func(e *E) {
		var ran tally
		blocked, goOn := make(chan struct{}, 1), make(chan struct{})
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				err := addRow(ctx, tx, table)
				if ran.add("add") == 1 {
					blocked <- struct{}{}
					<-goOn
				}
				return err
			})
		})
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the first execution", blocked)
		first.wire.set(wireCut)
		close(goOn) // what it still sends is discarded
		first.kill()
		e.process(defs(wf))
		e.eq("rows", result(e, h), 1)
		e.eq("executions", ran.get("add"), 2)
	})},
	{Name: "tx/branches", Promise: "P3", Rule: "Branches continue beside a transactional step. Their records are written after it has ended.", Run: transactions(func(e *E) {
		const rounds = 5
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			g := workflow.NewGroup(ctx)
			for _, name := range []string{"left", "right"} {
				g.Go(name, func(ctx workflow.Context) error {
					for range rounds {
						err := workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error { return addRow(ctx, tx, table) })
						if err == nil {
							err = workflow.Do(ctx, "plain", func(context.Context) error { ran.add("plain"); return nil })
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			return g.Wait()
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("rows", result(e, h), 2*rounds)
		e.eq("executions of the plain step", ran.get("plain"), 2*rounds)
		e.eq("recorded steps", len(e.steps(h.ID())), 4*rounds+2)
	})},
	{Name: "tx/timeout", Promise: "P3", Rule: "When the context of a transactional step ends, its transaction is undone.", Run: transactions(func(e *E) {
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			return workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				err := addRow(ctx, tx, table)
				if ran.add("add") == 1 {
					<-ctx.Done()
				}
				return err
			}, workflow.Timeout(e.d(5*time.Second)), workflow.Backoff(e.d(time.Second), 1, 0))
		})
		e.process(defs(wf))
		e.eq("rows", result(e, start(e, wf, 0)), 1)
		e.check(ran.get("add") >= 2, "saw %d executions, expected two, or more if a later one reached its timeout too", ran.get("add"))
	})},
	{Name: "tx/other-type", Promise: "P16", Rule: "A transaction of a type that the backend does not offer fails the step at once, with an error that names the supported types.", Run: transactions(func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return workflow.StepTx(ctx, "step", func(context.Context, *strings.Builder) (int, error) { return 1, nil })
		})
		e.process(defs(wf))
		_, err := start(e, wf, 0).Result(e.ctx)
		e.check(err != nil && strings.Contains(err.Error(), "*sql.Tx") && strings.Contains(err.Error(), "step step:"),
			"a step in a *strings.Builder: saw %v, expected an error of its first attempt that names *sql.Tx", err)
	})},
}
