package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func paceOperations() []*operation {
	return []*operation{
		read("getPace", "/v1/pace", ReadQueues, "Get how many runs ended in each of the last 30 minutes, by queue.", getPace),
	}
}

const (
	paceMinutes = 30
	paceRest    = 5 * time.Second       // after its end a minute is counted: a run's end may be stored a moment after its time
	paceBudget  = 50 * time.Millisecond // of one answer; a later one counts the minutes before
)

// pace keeps how many runs ended in each of the last minutes. A minute is counted once, for all who ask.
type pace struct {
	mu      sync.Mutex
	minutes map[int64]minute // by the number of minutes since 1970
}

type minute struct {
	queues map[string]ends
	capped bool
}

type ends struct{ all, failed int64 }

func getPace(c *call, _ *wire.In) (wire.Pace, error) {
	now, err := c.eng.Store().Clock(c.ctx)
	if err != nil {
		return wire.Pace{}, err
	}
	return c.space.pace.read(c.ctx, c.eng, now, paceBudget)
}

// read counts the minutes that are missing, the latest first, at least one of them.
func (p *pace) read(ctx context.Context, eng *engine.Engine, now time.Time, budget time.Duration) (wire.Pace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.minutes == nil {
		p.minutes = map[int64]minute{}
	}
	until := now.Add(-paceRest).Unix() / 60 // the first minute that has not ended
	maps.DeleteFunc(p.minutes, func(m int64, _ minute) bool { return m < until-paceMinutes || m >= until })
	first, began := until, time.Now()
	for counted := 0; first > until-paceMinutes; first-- {
		if _, ok := p.minutes[first-1]; ok {
			continue
		}
		if counted > 0 && time.Since(began) > budget {
			break
		}
		m, err := countMinute(ctx, eng, first-1)
		if err != nil {
			return wire.Pace{}, err
		}
		p.minutes[first-1] = m
		counted++
	}
	return p.since(first, until), nil
}

func countMinute(ctx context.Context, eng *engine.Engine, m int64) (minute, error) {
	from := time.Unix(m*60, 0).UTC()
	counts, err := eng.Count(ctx, store.RunFilter{FinishedAfter: from.Add(-time.Microsecond), FinishedBefore: from.Add(time.Minute)}) // both are exclusive
	if err != nil {
		return minute{}, err
	}
	out := minute{queues: map[string]ends{}}
	for _, n := range counts {
		out.capped = out.capped || n.Capped
		e, ok := out.queues[n.Queue]
		if n.Count == 0 || !ok && len(out.queues) == mostLines {
			continue
		}
		e.all += n.Count
		if n.Status == store.Failed {
			e.failed += n.Count
		}
		out.queues[n.Queue] = e
	}
	return out, nil
}

// since returns the minutes from first to before until.
func (p *pace) since(first, until int64) wire.Pace {
	out := wire.Pace{From: time.Unix(first*60, 0).UTC(), Minutes: int(until - first), Queues: []wire.QueuePace{}}
	byName := map[string]*wire.QueuePace{}
	for i := range out.Minutes {
		m := p.minutes[first+int64(i)]
		if m.capped {
			out.Capped = append(out.Capped, i)
		}
		for name, e := range m.queues {
			q := byName[name]
			if q == nil {
				q = &wire.QueuePace{Name: name, Ended: make([]int64, out.Minutes), Failed: make([]int64, out.Minutes)}
				byName[name] = q
			}
			q.Ended[i], q.Failed[i] = e.all, e.failed
		}
	}
	for _, q := range slices.SortedFunc(maps.Values(byName), func(a, b *wire.QueuePace) int { return cmp.Compare(a.Name, b.Name) }) {
		if len(out.Queues) < mostLines {
			out.Queues = append(out.Queues, *q)
		}
	}
	return out
}
