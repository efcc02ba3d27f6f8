package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func (a *app) watchCommand() *cobra.Command {
	o := one{a: a}
	var every, patience time.Duration
	cmd := &cobra.Command{
		Use:   "watch RUN [flags]",
		Short: "Follow a run until it is final",
		Long: `Follow a run until it is final. Print a line whenever its status or one of its
steps changes, and, at most every --interval, how far its descendants of all
levels are. The exit code says how it ended: 0 completed, 6 failed, 7 canceled.

With --json, each line is an object with the changed "run", "step" or "progress".`,
		Example: `  pawl runs watch --external-id order-42
  pawl runs watch 0191a5c2-7e9a --timeout 5m && echo shipped`,
		Args:              o.args(0, 0),
		ValidArgsFunction: a.completeArgs(1, runIDs),
	}
	f := cmd.Flags()
	o.flags(f)
	every = time.Second
	f.Var(durationFlag{&every}, "interval", "`time` between reads")
	f.Var(durationFlag{&patience}, "timeout", "stop watching after this `time`; the run continues")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		eng, id, _, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		if every < 10*time.Millisecond {
			return usage("invalid --interval %v; want at least 10ms", every)
		}
		return a.patiently(ctx, patience, func(ctx context.Context) error { return a.watch(ctx, eng, id, every) })
	}
	return cmd
}

// patiently limits the time of wait; 0 means no limit.
func (a *app) patiently(ctx context.Context, patience time.Duration, wait func(context.Context) error) error {
	if patience <= 0 {
		return wait(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := wait(bounded)
	if bounded.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &codedError{exitTimeout, fmt.Errorf("the run was not final within %v; it continues", patience)}
	}
	return err
}

// await waits until a run is final and prints its output.
func (a *app) await(ctx context.Context, eng *engine.Engine, id store.ID, patience time.Duration) error {
	return a.patiently(ctx, patience, func(ctx context.Context) error {
		if _, err := eng.Wait(ctx, id); err != nil {
			return err
		}
		run, err := eng.Get(ctx, id)
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(asRun(run)); err != nil {
				return err
			}
		} else if run.Output != nil {
			a.print("%s\n", output(run.Output))
		}
		return ended(run)
	})
}

// output formats an output: JSON as is, with control characters escaped.
func output(b []byte) string {
	if json.Valid(b) {
		return string(visible(b))
	}
	return payload(b, 0)
}

// ended returns the error for a final run that is not completed.
func ended(run store.Run) error {
	says := "no reason was recorded"
	if run.Failure != nil {
		says = clean(run.Failure.Message)
	}
	switch run.Status {
	case store.Failed:
		return &codedError{exitRunFailed, fmt.Errorf("run %s failed: %s", run.ID, says)}
	case store.Canceled:
		return &codedError{exitRunCanceled, fmt.Errorf("run %s was canceled: %s", run.ID, says)}
	}
	return nil
}

// watch prints changes until the run is final. It reads the leading steps only until they
// are final.
func (a *app) watch(ctx context.Context, eng *engine.Engine, id store.ID, every time.Duration) error {
	hints, err := a.hints(ctx)
	if err != nil {
		return err
	}
	type seen struct {
		status  store.StepStatus
		attempt int
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	trees := followTree(watching, eng, id)
	var tree engine.Progress // the latest that is to be told
	steps := map[store.StepKey]seen{}
	var settled int64
	var last store.Run
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		run, err := eng.Get(ctx, id)
		if err != nil {
			return err
		}
		if run.Generation != last.Generation || run.Attempt != last.Attempt { // the steps were deleted
			clear(steps)
			settled = 0
		}
		firm := true
		for after := settled; ; {
			page, err := eng.Store().Steps(ctx, store.StepsParams{Namespace: eng.Namespace(), Run: id, After: after, Limit: store.MaxPage})
			if err != nil {
				return err
			}
			for _, s := range page.Steps {
				now := seen{s.Status, s.Attempt}
				if steps[s.StepKey] != now {
					steps[s.StepKey] = now
					if err := a.tellStep(s); err != nil {
						return err
					}
				}
				if firm = firm && s.Status.Final(); firm {
					settled = s.Position
				}
			}
			if after = page.Next; after == 0 {
				break
			}
		}
		if run.Status.Final() {
			if tree, err = eng.Progress(ctx, id); err != nil {
				return err
			}
		}
		if err := a.tellTree(&tree); err != nil {
			return err
		}
		if run.Status != last.Status || run.Attempt != last.Attempt || run.Worker != last.Worker && run.Status == store.Running {
			if err := a.tellRun(run); err != nil {
				return err
			}
		}
		if last = run; run.Status.Final() {
			if !a.json && run.Output != nil {
				a.print("%s\n", output(run.Output))
			}
			if err := ended(run); err != nil {
				return &codedError{code: exitCode(err)} // the reason has been printed
			}
			return nil
		}
		if hints, err = untilNews(ctx, id, tick.C, hints, trees, &tree); err != nil {
			return err
		}
	}
}

// untilNews waits for the next tick or a hint about the run, and keeps the latest progress of its tree. It returns
// the hints, nil if there are no more.
func untilNews(ctx context.Context, id store.ID, tick <-chan time.Time, hints <-chan []store.Hint, trees <-chan engine.Progress, tree *engine.Progress) (<-chan []store.Hint, error) {
	for wait := true; wait; {
		select {
		case <-ctx.Done():
			return hints, ctx.Err()
		case <-tick:
			wait = false
		case p := <-trees:
			*tree = p
		case batch, ok := <-hints:
			if !ok {
				hints = nil
			}
			for _, h := range batch {
				wait = wait && h.Run != id
			}
		}
	}
	return hints, nil
}

// followTree returns how far the descendants of a run are, whenever that changes, until ctx ends.
func followTree(ctx context.Context, eng *engine.Engine, id store.ID) <-chan engine.Progress {
	trees := make(chan engine.Progress)
	go func() {
		for p, err := range eng.WatchProgress(ctx, id) {
			if err != nil {
				return // the caller meets the same error
			}
			select {
			case trees <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	return trees
}

// tellTree prints how far the descendants of a run are, if it has any, and forgets it.
func (a *app) tellTree(p *engine.Progress) error {
	told := *p
	*p = engine.Progress{}
	switch {
	case told.Total == 0:
		return nil
	case a.json:
		return a.printLine(struct {
			Progress progressJSON `json:"progress"`
		}{asProgress(&told)})
	}
	a.print("%s  tree %s\n", a.clockTime(a.now()), treeText(&told))
	return nil
}

// treeText says how far the descendants of a run are.
func treeText(p *engine.Progress) string {
	text := fmt.Sprintf("%d of %d ended", p.Ended(), p.Total)
	if p.Capped {
		text = fmt.Sprintf("%d+ of %d+ ended", p.Ended(), p.Total)
	}
	for _, part := range []struct {
		n    int64
		says string
	}{{p.Failed, "failed"}, {p.Canceled, "canceled"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.says)
		}
	}
	if p.Rate > 0 && p.Open > 0 {
		text += fmt.Sprintf(", %.3g/s", p.Rate)
	}
	if p.Left > 0 {
		text += ", about " + span(p.Left.Round(time.Second)) + " left"
	}
	return text
}

// hints subscribes to the hints of the store, if it sends any.
func (a *app) hints(ctx context.Context) (<-chan []store.Hint, error) {
	h, ok := a.store.(store.Hinter)
	if !ok {
		return nil, nil
	}
	return h.Hints(ctx, store.HintsOfRuns)
}

func (a *app) clockTime(t time.Time) string {
	return a.paint(dim, t.In(a.zone).Format("15:04:05"))
}

func (a *app) tellRun(r store.Run) error {
	if a.json {
		return a.printLine(struct {
			Run runJSON `json:"run"`
		}{asRun(r)})
	}
	remark := a.remark(r)
	if remark != "" {
		remark = "  " + remark
	}
	at := a.now()
	if !r.FinishedAt.IsZero() {
		at = r.FinishedAt
	}
	a.print("%s  %s %s%s\n", a.clockTime(at), a.paint(bold, "run"), a.paint(statusStyle(r.Status), r.Status.String()), clean(remark))
	return nil
}

func (a *app) tellStep(s store.Step) error {
	if a.json {
		return a.printLine(struct {
			Step stepJSON `json:"step"`
		}{asStep(s)})
	}
	at := s.FinishedAt
	if at.IsZero() {
		at = s.StartedAt
	}
	cells := a.stepCells(&node{step: &s}, s.StartedAt)
	line := fmt.Sprintf("%s  %s %s", a.clockTime(at), clean(s.StepKey.String()), a.paint(cells[1].style, cells[1].text))
	if s.Attempt > 1 {
		line += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if took := cells[4].text; took != "" && s.Status.Final() {
		line += ", took " + took
	}
	if note := cells[6].text; note != "" {
		line += ": " + note
	}
	a.print("%s\n", line)
	return nil
}
