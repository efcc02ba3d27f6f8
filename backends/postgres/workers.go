package postgres

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// PutWorker implements store.Registry. It also tells the other processes on which channel
// they can address the worker.
func (s *Store) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	if err := s.verbs.PutWorker(ctx, p); err != nil {
		return err
	}
	channel := s.relay.staff.signOn(s.relay, p.Namespace, p.Worker.ID)
	if channel == "" {
		return nil
	}
	// If this fails, all processes are told of the worker's work, which does not justify an error.
	_ = s.write(ctx, stmt{sql: setChannel, args: []any{[]string{p.Namespace}, []string{p.Worker.ID}, channel}})
	return nil
}

// RemoveWorker implements store.Registry.
func (s *Store) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	s.relay.staff.signOff(p.Namespace, p.ID)
	return s.verbs.RemoveWorker(ctx, p)
}
