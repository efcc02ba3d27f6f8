package patterns

import (
	"context"

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

// Documents has the present version of each document, and publishes it.
type Documents interface {
	Version(ctx context.Context, document string) (int, error)
	Publish(ctx context.Context, document string) error
}

// OnePerDocument keeps two runs of one document from publishing it at the same time.
var OnePerDocument = limit.New("document", limit.Concurrency(1))

// PublishLast publishes a document unless a later change has come since: that one's run publishes it.
// Start it with engine.Delay, the time for which a document must be quiet.
func PublishLast(docs Documents) *workflow.Workflow[Change, bool] {
	return workflow.New("publish-last", func(ctx workflow.Context, c Change) (bool, error) {
		return workflow.Step(ctx, "publish", func(ctx context.Context) (bool, error) {
			newest, err := docs.Version(ctx, c.Document)
			if err != nil || c.Version < newest {
				return false, err
			}
			return true, docs.Publish(ctx, c.Document)
		})
	}, workflow.UnderKey(OnePerDocument, func(c Change) string { return c.Document }))
}
