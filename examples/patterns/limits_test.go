package patterns

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// busy counts who is at work, by key.
type busy struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (b *busy) work(ctx context.Context, key string) error {
	b.mu.Lock()
	b.now[key]++
	b.most[key] = max(b.most[key], b.now[key])
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now[key]--
		b.mu.Unlock()
	}()
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestChargeBillOfOneCustomerAtATime(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		b := &busy{now: map[string]int{}, most: map[string]int{}}
		flow := ChargeBill(func(ctx context.Context, bill Bill, _ string) error { return b.work(ctx, bill.Customer) })
		var runs []*workflowtest.Started[string]
		for i := range 6 {
			runs = append(runs, workflowtest.Start(env, flow, Bill{[]string{"ann", "bob"}[i%2], fmt.Sprint(i)}))
		}
		for i, r := range runs {
			require.Equal(t, fmt.Sprint(i), r.Result())
		}
		require.Equal(t, map[string]int{"ann": 1, "bob": 1}, b.most)
	})
}

func TestCrawlThreePagesOfATenantAtATime(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		b := &busy{now: map[string]int{}, most: map[string]int{}}
		flow := CrawlPage(func(ctx context.Context, url string) (int, error) { return 200, b.work(ctx, url) })
		var runs []*workflowtest.Started[int]
		for i := range 10 {
			tenant := []string{"big", "big", "big", "big", "small"}[i%5]
			runs = append(runs, workflowtest.Start(env, flow, Page{tenant, tenant}))
		}
		for _, r := range runs {
			require.Equal(t, 200, r.Result())
		}
		require.Equal(t, map[string]int{"big": 3, "small": 2}, b.most)
	})
}

// kept is what steps have left, in order.
type kept[T any] struct {
	mu  sync.Mutex
	all []T
}

func (k *kept[T]) add(v T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, v)
}

func (k *kept[T]) list() []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

func TestPublishLastChangeOnly(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		var published kept[int]
		flow := PublishLast(func(_ context.Context, c Change) error { published.add(c.Version); return nil })
		env.Register(flow)
		change := func(version int) workflow.Handle[int] {
			h, err := Changed(env.Context(), env.Engine(), flow, Change{"report", version})
			env.NoError(err)
			return h
		}
		first := change(1)
		for version := 2; version <= 5; version++ {
			env.Advance(30 * time.Second)
			require.Equal(t, first.ID(), change(version).ID())
		}
		env.Advance(59 * time.Second)
		require.Empty(t, published.list())
		env.Advance(2 * time.Second)
		require.Equal(t, []int{5}, published.list())
		second := change(6)
		require.NotEqual(t, first.ID(), second.ID())
		for version := 7; version <= 40; version++ { // never quiet
			env.Advance(30 * time.Second)
			change(version)
		}
		require.Equal(t, []int{5, 25}, published.list()[:2], "ten minutes after the first change")
	})
}
