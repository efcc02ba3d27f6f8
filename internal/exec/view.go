package exec

import (
	"context"
	"maps"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// ViewPrefix begins the keys of flow state that hold published views.
const ViewPrefix = "pawl.view/"

// IsView reports whether a key of flow state holds a view.
func IsView(key string) bool { return strings.HasPrefix(key, ViewPrefix) }

// WithoutViews returns the part of a run's flow state that is not views.
func WithoutViews(v View) View {
	for key := range v {
		if IsView(key) {
			v = maps.Clone(v)
			maps.DeleteFunc(v, func(key string, _ store.StateEntry) bool { return IsView(key) })
			return v
		}
	}
	return v
}

// Publish writes a view once: the commit that records the operation contains the write.
func (b *Branch) Publish(w store.StateWrite) error {
	inv := b.inv
	if err := inv.checkWrite(&w); err != nil {
		return err
	}
	_, err := durable(b, store.KindState, "publish "+strings.TrimPrefix(w.Key, ViewPrefix), isDone, func(o *op) (none, error) {
		inv.makeRoomLocked(len(w.Value))
		inv.writeLocked(w)
		o.finishLocked(o.record(store.StepCompleted))
		return none{}, nil
	})
	return err
}

// Publish sets what a view is to be once the step's attempt succeeds: the commit that records its
// result contains the write.
func (i *StepInfo) Publish(ctx context.Context, w store.StateWrite) error {
	inv := i.Inv
	if err := inv.checkWrite(&w); err != nil {
		return err
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if err := i.refuseLocked(ctx); err != nil {
		return err
	}
	if !i.publishes {
		return store.Invalid("view", "step "+i.Key.String()+" has no commit of its own; publish in a step or in the workflow's function")
	}
	i.writes = putWrite(i.writes, w)
	return nil
}

// published returns what an attempt has published that is not committed with its transaction. The
// function's end ends it.
func (i *StepInfo) published() []store.StateWrite {
	i.over = true
	if i.inTx {
		return nil
	}
	return i.writes
}

// publishedBytes returns the size of what the step's attempt has published.
func (o *op) publishedBytes() (n int) {
	for _, w := range o.published {
		n += len(w.Value)
	}
	return n
}

// publishLocked adds what the step's attempt has published to the commit that its record comes to. There
// is room for both.
func (o *op) publishLocked() {
	for _, w := range o.published {
		o.b.inv.writeLocked(w)
	}
	o.published = nil
}
