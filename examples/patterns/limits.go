package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/workflow"
)

// Bill is a bill of a customer.
type Bill struct{ Customer, Number string }

// OnePerCustomer lets one job of each customer run at a time.
var OnePerCustomer = limit.New("customer", limit.Concurrency(1))

// ChargeBill charges a customer. Two charges of one customer never overlap.
func ChargeBill(charge func(ctx context.Context, b Bill, key string) error) *workflow.Workflow[Bill, string] {
	return workflow.New("charge-bill", func(ctx workflow.Context, b Bill) (string, error) {
		err := workflow.Do(ctx, "charge", func(ctx context.Context) error {
			return charge(ctx, b, workflow.IdempotencyKey(ctx))
		})
		return b.Number, err
	}, workflow.UnderKey(OnePerCustomer, func(b Bill) string { return b.Customer }))
}

// Page is a page that a tenant wants crawled.
type Page struct{ Tenant, URL string }

// Tenants lets three pages of each tenant be crawled at a time, and shares the workers between them.
var Tenants = limit.New("tenant", limit.Concurrency(3), limit.Fair())

// CrawlPage crawls a page.
func CrawlPage(fetch func(ctx context.Context, url string) (int, error)) *workflow.Workflow[Page, int] {
	return workflow.New("crawl-page", func(ctx workflow.Context, p Page) (int, error) {
		return workflow.Step(ctx, "fetch", func(ctx context.Context) (int, error) { return fetch(ctx, p.URL) })
	}, workflow.UnderKey(Tenants, func(p Page) string { return p.Tenant }))
}

// Change is a change of a document, with the version that it made.
type Change struct {
	Document string
	Version  int
}

// OnePerDocument keeps two runs of one document from publishing it at the same time.
var OnePerDocument = limit.New("document", limit.Concurrency(1))

// PublishLast publishes a version of a document.
func PublishLast(publish func(ctx context.Context, c Change) error) *workflow.Workflow[Change, int] {
	return workflow.New("publish-last", func(ctx workflow.Context, c Change) (int, error) {
		err := workflow.Do(ctx, "publish", func(ctx context.Context) error { return publish(ctx, c) })
		return c.Version, err
	}, workflow.UnderKey(OnePerDocument, func(c Change) string { return c.Document }))
}

// Changed has the last version of a document published when the document has not changed for a
// minute, and at the latest ten minutes after its first change.
func Changed(ctx context.Context, eng *engine.Engine, flow *workflow.Workflow[Change, int], c Change) (workflow.Handle[int], error) {
	return flow.Start(ctx, eng, c, engine.Debounce(c.Document, time.Minute, 10*time.Minute))
}
