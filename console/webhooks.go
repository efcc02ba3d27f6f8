package console

import (
	"context"

	"github.com/pawlhq/pawl/api/wire"
)

// webhooksData is the page of outgoing webhooks.
type webhooksData struct {
	Webhooks []wire.Webhook
	None     bool // the database keeps no changes of runs
}

func (webhooksData) title() string { return "Webhooks" }

func listWebhooks(c *call) (any, error) {
	list, err := c.api.ListWebhooks(c.ctx, c.in)
	if unsupported(err) {
		return &webhooksData{None: true}, nil
	}
	return &webhooksData{Webhooks: list.Webhooks}, err
}

// failing reports whether the last attempt to deliver a change has failed.
func failing(w wire.Webhook) bool {
	return w.FailedAt != nil && (w.DeliveredAt == nil || w.DeliveredAt.Before(*w.FailedAt))
}

var webhookDeeds = []deed{{
	Action: "webhook-delete", Button: "Delete", Title: "Delete the webhook's subscription", Danger: true, needs: "webhooks.delete", back: backTo("webhooks"),
	what: forName("The subscription is deleted with the changes that wait in it: they are never delivered. A sender that delivers them ends. A program that still has the webhook creates the subscription again when it starts, and gets the changes from then on."),
	do: func(ctx context.Context, c *call) (string, error) {
		return "webhook-deleted", c.api.DeleteWebhook(ctx, c.form("name"), c.opts()...)
	},
}}
