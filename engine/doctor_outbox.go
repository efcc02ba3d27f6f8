package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// longUndelivered is how old the oldest change of a subscription may be before it is reported.
const longUndelivered = 10 * time.Minute

// subscriptions looks for subscriptions whose changes are not delivered.
func (d *doctor) subscriptions(ctx context.Context) error {
	list, err := d.e.Subscriptions(ctx)
	if errors.Is(err, store.ErrUnsupported) || len(list) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := d.e.store.Clock(ctx)
	if err != nil {
		return err
	}
	fine := true
	for _, s := range list {
		age := now.Sub(s.OldestAt)
		if s.Waiting == 0 || age < longUndelivered {
			continue
		}
		fine = false
		why := "no delivery has failed: perhaps no program sends them"
		if !s.FailedAt.IsZero() {
			why = fmt.Sprintf("a delivery failed %s: %s", d.ago(s.FailedAt), s.Error)
		}
		d.found("webhooks", store.Warning, fmt.Sprintf("look at the receiver, or run a sender; if nobody needs them, delete the subscription: pawl webhooks delete %q", s.Name),
			"webhook %q has %s changes waiting, the oldest from %s, and drops them after %v; %s", s.Name, bound3(s.Waiting, s.Waiting >= store.MaxWaitingChanges), d.ago(s.OldestAt), s.Keep, why)
	}
	if fine {
		d.found("webhooks", store.Fine, "", "changes of runs are delivered within %v", longUndelivered)
	}
	return nil
}
