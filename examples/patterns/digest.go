package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

// NoteFor is a note to a recipient, which is sent together with others.
var NoteFor = workflow.NewSignal[string]("note")

// Digest sends the notes to a recipient in batches: a batch is full with most notes, or ends a period
// after its first one. The run of a recipient sleeps while there are no notes, and never ends.
func Digest(send func(ctx context.Context, key, to string, notes []string) error, most int, period time.Duration) *workflow.Workflow[string, int] {
	return workflow.New("digest", func(ctx workflow.Context, to string) (int, error) {
		first, err := NoteFor.Receive(ctx)
		if err != nil {
			return 0, err
		}
		rest, err := NoteFor.ReceiveMany(ctx, most-1, period)
		if err != nil {
			return 0, err
		}
		err = workflow.Do(ctx, "send", func(ctx context.Context) error {
			return send(ctx, workflow.IdempotencyKey(ctx), to, append([]string{first}, rest...))
		})
		if err != nil {
			return 0, err
		}
		return 0, workflow.ContinueAsNew(ctx, to)
	})
}

// Notify adds a note to the digest of a recipient. It may be called again with the same id, also after
// a crash: the note is sent once.
func Notify(ctx context.Context, eng *engine.Engine, digest *workflow.Workflow[string, int], to, id, note string) error {
	_, err := digest.SignalWithStart(ctx, eng, to, NoteFor.With(note, workflow.SendKey(id)), engine.ExternalID("digest-of-"+to))
	return err
}

// Spend pays from an account, which is opened with a balance of 0 if it does not exist.
func Spend(ctx context.Context, eng *engine.Engine, account *workflow.Workflow[int64, int64], customer, order string, cents int64) (int64, error) {
	return Pay(ctx, account.WithStart(eng, 0, engine.ExternalID("account-of-"+customer, engine.WhileActive)), order, cents)
}
