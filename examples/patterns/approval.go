package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Request asks a person for a decision.
type Request struct {
	Title    string
	Approver string
	Every    time.Duration // between two mails
	Mails    int           // how many, before it is over
}

// Decision is how it came out.
type Decision struct {
	Approved bool
	Why      string
}

// Decided and Withdrawn are sent by whoever serves the buttons.
var (
	Decided   = workflow.NewSignal[Decision]("decided")
	Withdrawn = workflow.NewSignal[string]("withdrawn")
)

// Mailer asks a person. A repeated key is not mailed twice.
type Mailer interface {
	Ask(ctx context.Context, r Request, key string) error
}

// Approval waits for a person: it asks, reminds, and gives up.
func Approval(mail Mailer) *workflow.Workflow[Request, Decision] {
	return workflow.New("approval", func(ctx workflow.Context, r Request) (Decision, error) {
		for range r.Mails {
			err := workflow.Do(ctx, "ask", func(ctx context.Context) error {
				return mail.Ask(ctx, r, workflow.IdempotencyKey(ctx))
			})
			if err != nil {
				return Decision{}, err
			}
			var decision Decision
			var why string
			chosen, err := workflow.Select(ctx, "answer", Decided.Into(&decision), Withdrawn.Into(&why), workflow.Timer(r.Every))
			if err != nil {
				return Decision{}, err
			}
			switch chosen {
			case 0:
				return decision, nil
			case 1:
				return Decision{Why: "withdrawn: " + why}, nil
			}
		}
		return Decision{Why: "nobody has answered"}, nil
	})
}
