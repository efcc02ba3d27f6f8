package patterns

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
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

// drafts counts how often documents are published.
type drafts struct {
	mu        sync.Mutex
	newest    int
	published []int
}

func (d *drafts) Version(context.Context, string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest, nil
}

func (d *drafts) Publish(context.Context, string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published = append(d.published, d.newest)
	return nil
}

func TestPublishLastChangeOnly(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		d := &drafts{}
		flow := PublishLast(d)
		var runs []*workflowtest.Started[bool]
		for range 5 {
			d.mu.Lock()
			d.newest++
			change := Change{"report", d.newest}
			d.mu.Unlock()
			runs = append(runs, workflowtest.Start(env, flow, change, engine.Delay(time.Minute)))
			env.Advance(10 * time.Second)
		}
		for i, r := range runs {
			require.Equal(t, i == 4, r.Result(), "change %d", i+1)
		}
		require.Equal(t, []int{5}, d.published)
	})
}
