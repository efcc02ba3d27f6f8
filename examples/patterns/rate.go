package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Reply is what a service with a limit answers.
type Reply struct {
	Body       string
	RetryAfter time.Duration // not now: come again after that time; 0: answered
}

// Service answers some calls in a second, and refuses the others.
type Service interface {
	Call(ctx context.Context, request, key string) (Reply, error)
}

// Limit lets calls of this process through one by one, so many in a second.
type Limit <-chan time.Time

// NewLimit makes a limit.
func NewLimit(perSecond int) Limit { return time.Tick(time.Second / time.Duration(perSecond)) }

// Wait waits for this call's turn.
func (l Limit) Wait(ctx context.Context) error {
	select {
	case <-l:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CallService calls a service that bears a few calls in a second. Give its worker a
// worker.Limit, which bounds the calls at a time as well, and leaves the other slots
// to other workflows.
func CallService(service Service, limit Limit) *workflow.Workflow[string, string] {
	return workflow.New("call-service", func(ctx workflow.Context, request string) (string, error) {
		for {
			reply, err := workflow.Step(ctx, "call", func(ctx context.Context) (Reply, error) {
				if err := limit.Wait(ctx); err != nil {
					return Reply{}, err
				}
				return service.Call(ctx, request, workflow.IdempotencyKey(ctx))
			})
			if err != nil || reply.RetryAfter == 0 {
				return reply.Body, err
			}
			// Durable, and it holds no slot; the service says how long.
			if err := workflow.Sleep(ctx, "refused", reply.RetryAfter); err != nil {
				return "", err
			}
		}
	})
}
