package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// Parcel is what a customer has ordered.
type Parcel struct{ Order, Customer, Region string }

// Label prints the label of a parcel.
var Label = workflow.New("label", func(_ workflow.Context, p Parcel) (string, error) { return "label of " + p.Order, nil })

// Delivery sends a parcel. Its runs are found by the customer, the region and the state of the
// delivery.
func Delivery(pack func(context.Context, Parcel) error, transit time.Duration) *workflow.Workflow[Parcel, string] {
	return workflow.New("delivery", func(ctx workflow.Context, p Parcel) (string, error) {
		text, err := workflow.Child(ctx, "label", Label, p, workflow.InheritTags())
		if err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "pack", func(ctx context.Context) error { return pack(ctx, p) }); err != nil {
			return "", err
		}
		if err := workflow.SetTags(ctx, map[string]string{"state": "in-transit"}); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "transit", transit); err != nil {
			return "", err
		}
		return text, workflow.SetTags(ctx, map[string]string{"state": "delivered"})
	})
}

// Deliver starts a delivery with its tags.
func Deliver(ctx context.Context, eng *engine.Engine, delivery *workflow.Workflow[Parcel, string], p Parcel) (workflow.Handle[string], error) {
	return delivery.Start(ctx, eng, p, engine.ExternalID(p.Order), engine.Tags(map[string]string{
		"customer": p.Customer, "region": p.Region, "state": "new",
	}))
}

// Moving lists the parcels of a customer that are on their way, and returns the cursor of the next
// page.
func Moving(ctx context.Context, eng *engine.Engine, customer, cursor string) ([]store.Run, string, error) {
	page, err := eng.List(ctx, store.RunFilter{Tags: []store.TagMatch{
		{Name: "customer", Values: []string{customer}},
		{Name: "state", Values: []string{"new", "in-transit"}},
	}}, cursor, 50)
	return page.Runs, page.Next, err
}

// Strike cancels all deliveries in the regions whose names begin with a prefix.
func Strike(ctx context.Context, eng *engine.Engine, prefix string) (engine.Bulk, error) {
	return eng.CancelMany(ctx, store.RunFilter{Workflow: "delivery", Tags: []store.TagMatch{{Name: "region", Prefix: prefix}}}, "strike")
}
