package patterns

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/limit"
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

// Partner is the quota that the service grants, over all workers.
var Partner = limit.New("partner", limit.Rate(10, time.Second, limit.Burst(2)), limit.Concurrency(4))

// CallService calls a service that bears a few calls in a second, and a few at a time.
func CallService(service Service) *workflow.Workflow[string, string] {
	return workflow.New("call-service", func(ctx workflow.Context, request string) (string, error) {
		for {
			reply, err := workflow.Step(ctx, "call", func(ctx context.Context) (Reply, error) {
				return service.Call(ctx, request, workflow.IdempotencyKey(ctx))
			}, workflow.StepUnder(Partner))
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
