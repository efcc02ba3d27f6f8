package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/webhook"
)

// webhookSecret is the variable with the secret of a webhook whose file has none.
const webhookSecret = "PAWL_WEBHOOK_SECRET"

// subscriptionJSON describes a subscription.
type subscriptionJSON struct {
	Name        string             `json:"name"`
	Workflows   []string           `json:"workflows,omitempty"` // none: all
	Kinds       []store.ChangeKind `json:"kinds,omitempty"`     // none: all
	Keep        string             `json:"keep"`
	Waiting     int64              `json:"waiting"`
	Capped      bool               `json:"capped,omitempty"` // waiting is a lower bound
	OldestAt    *time.Time         `json:"oldest_at,omitempty"`
	Attempts    int                `json:"attempts,omitempty"` // of the oldest change
	DeliveredAt *time.Time         `json:"delivered_at,omitempty"`
	FailedAt    *time.Time         `json:"failed_at,omitempty"`
	Error       string             `json:"error,omitempty"`
	Dropped     int64              `json:"dropped,omitempty"`
	CreatedAt   *time.Time         `json:"created_at"`
	UpdatedAt   *time.Time         `json:"updated_at"`
}

func asSubscription(s store.Subscription) subscriptionJSON {
	return subscriptionJSON{s.Name, s.Workflows, s.Kinds, s.Keep.String(), s.Waiting, s.Waiting >= store.MaxWaitingChanges, asTime(s.OldestAt), s.Attempts,
		asTime(s.DeliveredAt), asTime(s.FailedAt), s.Error, s.Dropped, asTime(s.CreatedAt), asTime(s.UpdatedAt)}
}

func (a *app) webhooksCommand() *cobra.Command {
	return group("webhooks", "List and delete subscriptions of webhooks", "List and delete the subscriptions in which changes of runs wait until a webhook\nhas delivered them. Programs send them, and pawl serve --webhook.",
		a.webhooksListCommand(), a.webhooksDeleteCommand())
}

func (a *app) webhooksListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List subscriptions with what waits in them",
		Long: `List the subscriptions of the namespace. WAITING is the number of changes that
have not been delivered yet. OLDEST is when the first of them happened, and
ATTEMPTS how often its delivery has failed. DELIVERED and FAILED are when a
delivery last succeeded and failed, and ERROR says why it failed.`,
		Example: "  pawl webhooks list\n  pawl webhooks list --json | jq '.webhooks[] | select(.waiting>1000)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			eng, err := a.engine(cmd.Context())
			if err != nil {
				return err
			}
			list, err := eng.Subscriptions(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Webhooks []subscriptionJSON `json:"webhooks"`
				}{each(list, asSubscription)})
			}
			t := table{head: []string{"WEBHOOK", "WAITING", "OLDEST", "ATTEMPTS", "DELIVERED", "FAILED", "DROPPED", "ERROR"}}
			ago := func(at time.Time) cell {
				if at.IsZero() {
					return text("-")
				}
				return text(a.ago(at))
			}
			for _, s := range list {
				t.add(text(s.Name), atLeast(s.Waiting, s.Waiting >= store.MaxWaitingChanges), ago(s.OldestAt), atLeast(int64(s.Attempts), false), ago(s.DeliveredAt), ago(s.FailedAt), atLeast(s.Dropped, false), text(s.Error))
			}
			a.printTable(&t, "Namespace %q has no subscriptions yet.", eng.Namespace())
			return nil
		},
	}
}

func (a *app) webhooksDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete WEBHOOK",
		Short: "Delete a subscription with the changes that wait in it",
		Long: `Delete a subscription with the changes that wait in it. A sender that delivers
them ends. A program that still has the webhook puts the subscription again when
it starts.`,
		Example: "  pawl webhooks delete audit",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			eng, err := a.engine(cmd.Context())
			if err != nil {
				return err
			}
			if err := eng.Unsubscribe(cmd.Context(), args[0]); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"deleted": args[0]})
			}
			a.print("Deleted the subscription of webhook %q.\n", clean(args[0]))
			return nil
		},
	}
}

// webhookFile is what the file of a webhook has.
type webhookFile struct {
	Name      string             `json:"name"`
	URL       string             `json:"url"`
	Secret    string             `json:"secret"`
	OldSecret string             `json:"old_secret"`
	Workflows []string           `json:"workflows"`
	Kinds     []store.ChangeKind `json:"kinds"`
	Keep      string             `json:"keep"`
}

// senders reads the files of webhooks. No error contains a secret or a URL.
func (a *app) senders(eng *engine.Engine, files []string) (list []*webhook.Sender, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("--webhook: %v", err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		var f webhookFile
		if err := d.Decode(&f); err != nil {
			return nil, usage("--webhook %s: it is not the JSON object of a webhook, with name, url, secret, workflows, kinds and keep: %v", file, err)
		}
		ep := webhook.Endpoint{Name: f.Name, URL: f.URL, Secret: webhook.Secret(f.Secret), OldSecret: webhook.Secret(f.OldSecret), Workflows: f.Workflows, Kinds: f.Kinds}
		if ep.Secret == "" {
			ep.Secret = webhook.Secret(a.getenv(webhookSecret))
		}
		if f.Keep != "" {
			if ep.Keep, err = time.ParseDuration(f.Keep); err != nil {
				return nil, usage("--webhook %s: keep: %v", file, err)
			}
		}
		s, err := webhook.New(eng, ep)
		if err != nil {
			return nil, usage("--webhook %s: %v", file, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// deliver runs senders until the function that it returns is called. One that ends is logged, and the others go on.
func deliver(ctx context.Context, eng *engine.Engine, list []*webhook.Sender) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() {
			if err := s.Run(ctx); err != nil {
				eng.Logger().Error("a webhook has ended", "error", err)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
