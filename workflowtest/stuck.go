package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A run that is waited for is stuck when for so long, in the bubble's time, nothing has
// changed in the store and nothing was due.
const (
	stuckLook  = 30 * 24 * time.Hour
	stuckLooks = 13 // more than a year
)

// errStuck ends a wait for a run that waits for ever.
type errStuck struct{ what string }

func (e *errStuck) Error() string { return e.what }

// await calls wait with a context that ends, with an *errStuck, when the run is stuck.
func (e *Env) await(id store.ID, wait func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.watch(ctx, id, cancel)
	}()
	err := wait(ctx)
	cancel(nil)
	<-done
	var stuck *errStuck
	if err != nil && errors.As(context.Cause(ctx), &stuck) {
		return stuck
	}
	return err
}

// watch looks at the store from time to time until ctx ends.
func (e *Env) watch(ctx context.Context, id store.ID, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(stuckLook)
	defer ticker.Stop()
	last, same := "", 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, waits, err := e.picture(ctx)
		if err != nil {
			continue // the store is being closed, or ctx has ended
		}
		if now != last || !waits {
			last, same = now, 0
			continue
		}
		if same++; same >= stuckLooks {
			stop(&errStuck{e.explain(ctx, id)})
			return
		}
	}
}

// picture describes all runs that are not final, and tells whether none of them goes on
// by itself at some time.
func (e *Env) picture(ctx context.Context) (picture string, waits bool, err error) {
	e.life.Lock()
	served := slices.Clone(e.names)
	e.life.Unlock()
	var b strings.Builder
	waits = true
	err = e.open(ctx, func(r *store.Run) error {
		steps, err := e.engine.Steps(ctx, r.ID)
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, r.ID, r.Status, r.Epoch, r.Events, len(steps))
		asleep := r.Status == store.Pending || r.Status == store.Sleeping
		waits = waits && !(asleep && !r.VisibleAt.IsZero() && slices.Contains(served, r.Workflow))
		return nil
	})
	return b.String(), waits, err
}

// open goes through the runs that are not final.
func (e *Env) open(ctx context.Context, each func(r *store.Run) error) error {
	open := slices.DeleteFunc(store.Statuses(), store.Status.Final)
	for cursor := ""; ; {
		page, err := e.engine.List(ctx, store.RunFilter{Statuses: open}, cursor, store.MaxPage)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			if err := each(&page.Runs[i]); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// explain says what the run, and those that are not final beside it, wait for.
func (e *Env) explain(ctx context.Context, id store.ID) string {
	const most = 10
	text := "the run waits for ever: for a year nothing has changed, and nothing is due"
	tell := func(id store.ID) {
		if x, err := e.engine.Explain(ctx, id); err == nil {
			text += "\n" + x.String()
		}
	}
	tell(id)
	n := 0
	_ = e.open(ctx, func(r *store.Run) error {
		if n++; r.ID != id && n <= most {
			tell(r.ID)
		}
		return nil
	})
	return text
}
