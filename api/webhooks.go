package api

import (
	"net/http"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

func webhookOperations() []*operation {
	return []*operation{
		read("listWebhooks", "/v1/webhooks", ReadWebhooks, "List the subscriptions of outgoing webhooks with what waits in them.", listWebhooks),
		write(http.MethodDelete, "deleteWebhook", "/v1/webhooks/{name}", DeleteWebhooks, http.StatusNoContent,
			"Delete the subscription of an outgoing webhook with the changes that wait in it.", deleteWebhook),
	}
}

func asWebhook(s *store.Subscription) wire.Webhook {
	return wire.Webhook{Name: s.Name, Workflows: s.Workflows, Kinds: each(s.Kinds, func(k *store.ChangeKind) string { return k.String() }), Keep: text(s.Keep),
		Waiting: s.Waiting, Capped: s.Waiting >= store.MaxWaitingChanges, OldestAt: asTime(s.OldestAt), Attempts: s.Attempts, DeliveredAt: asTime(s.DeliveredAt),
		FailedAt: asTime(s.FailedAt), Error: s.Error, Dropped: s.Dropped, CreatedAt: asTime(s.CreatedAt), UpdatedAt: asTime(s.UpdatedAt)}
}

func listWebhooks(c *call, _ *wire.In) (out wire.Webhooks, err error) {
	list, err := c.eng.Subscriptions(c.ctx)
	if err != nil {
		return out, err
	}
	return wire.Webhooks{Webhooks: each(list, asWebhook)}, nil
}

func deleteWebhook(c *call, _ *wire.In, _ *none) (none, error) {
	return none{}, c.eng.Unsubscribe(c.ctx, c.r.PathValue("name"))
}

// measureWebhooks adds what waits for outgoing webhooks.
func (c *call) measureWebhooks(w *metricWriter) error {
	list, now, able, err := measured(c, c.eng.Subscriptions)
	if !able {
		return err
	}
	ns := c.eng.Namespace()
	w.family("pawl_webhook_waiting", "Changes of runs that wait until a webhook has delivered them. A lower bound from 10,000 on.")
	for _, s := range list {
		w.value("pawl_webhook_waiting", float64(s.Waiting), "namespace", ns, "webhook", s.Name)
	}
	w.family("pawl_webhook_oldest_waiting_seconds", "How long ago the oldest change happened that waits until a webhook has delivered it.")
	for _, s := range list {
		age := 0.0
		if !s.OldestAt.IsZero() {
			age = max(0, now.Sub(s.OldestAt).Seconds())
		}
		w.value("pawl_webhook_oldest_waiting_seconds", age, "namespace", ns, "webhook", s.Name)
	}
	w.family("pawl_webhook_dropped", "Changes that a webhook has not delivered in time, since its subscription was created.")
	for _, s := range list {
		w.value("pawl_webhook_dropped", float64(s.Dropped), "namespace", ns, "webhook", s.Name)
	}
	return nil
}
