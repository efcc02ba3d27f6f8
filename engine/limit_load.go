package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// LimitLoad is a limit with the sums of its keys.
type LimitLoad struct {
	store.Limit
	Keys    int       // keys that have a lease, a waiting run or a weight
	Held    int64     // leases under it
	Waiting int64     // due runs under it that no worker holds, whatever they wait for
	Since   time.Time // since when the one that has waited longest is due; zero: none waits
	// Full counts the keys that have no permit left, and FullWaiting the runs that wait under them.
	Full        int
	FullWaiting int64
	// Capped says that there may be more of everything: it has more than 1,000 keys, or a key
	// has more waiting runs than a store counts.
	Capped bool
}

// LimitLoads returns the limits of these names, or all of them, by name, with the sums of the first 1,000
// keys of each. It is for people and metrics.
func (e *Engine) LimitLoads(ctx context.Context, names ...string) ([]LimitLoad, error) {
	limits, err := e.Limits(ctx, names...)
	if err != nil {
		return nil, err
	}
	loads := make([]LimitLoad, len(limits))
	for i, l := range limits {
		page, err := e.limitKeys(ctx, store.LimitKeysParams{Limit: l.Name, Rows: store.MaxPage})
		if err != nil {
			return nil, err
		}
		loads[i] = sumKeys(l, page)
	}
	return loads, nil
}

func sumKeys(l store.Limit, page store.LimitKeyPage) LimitLoad {
	load := LimitLoad{Limit: l, Keys: len(page.Keys), Capped: page.Next != ""}
	most := l.Effective().Concurrency
	for _, k := range page.Keys {
		load.Held += k.Held
		load.Waiting += k.Waiting
		if !k.Since.IsZero() && (load.Since.IsZero() || k.Since.Before(load.Since)) {
			load.Since = k.Since
		}
		if most > 0 && k.Held >= most {
			load.Full++
			load.FullWaiting += k.Waiting
		}
		load.Capped = load.Capped || k.Waiting >= store.MaxWaiting
	}
	return load
}

// loadOfLimits returns the load of all limits for the metrics.
func (e *Engine) loadOfLimits(ctx context.Context) ([]telemetry.LimitLoad, error) {
	loads, err := e.LimitLoads(ctx)
	if err != nil || len(loads) == 0 {
		if errors.Is(err, store.ErrUnsupported) {
			err = nil
		}
		return nil, err
	}
	now, err := e.store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]telemetry.LimitLoad, len(loads))
	for i, l := range loads {
		list[i] = telemetry.LimitLoad{Limit: l.Name, Held: l.Held, Waiting: l.Waiting}
		if !l.Since.IsZero() {
			list[i].Oldest = max(0, now.Sub(l.Since))
		}
	}
	return list, nil
}
