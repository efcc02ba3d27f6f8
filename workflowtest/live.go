package workflowtest

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Namespace sets the namespace whose runs [ReplayLive] checks. The default is
// engine.DefaultNamespace.
func Namespace(name string) CheckOption { return func(o *checking) { o.namespace = name } }

// Sample lets [ReplayLive] check at most n runs of each workflow, chosen at random. The
// default is all.
func Sample(n int) CheckOption { return func(o *checking) { o.sample = n } }

// ReplayLive fails the test if an unfinished run in a live database does not fit the
// workflows' code. The message lists each kind of misfit with its workflow, step, reason and
// number of runs. It writes nothing and executes no step; see [worker.CheckHistories], which
// does the same outside of tests.
//
// Open the store without a migration (backends.WithoutMigration), so that a database with an older
// schema is refused and not changed.
func ReplayLive(t testing.TB, st store.Store, defs []workflow.Definition, opts ...CheckOption) {
	t.Helper()
	o := checking{codec: engine.JSON{}, namespace: engine.DefaultNamespace}
	for _, opt := range opts {
		opt(&o)
	}
	eng := engine.New(st, engine.Namespace(o.namespace), engine.PayloadCodec(o.codec))
	defer eng.Close()
	report, err := worker.CheckHistories(context.Background(), eng, defs, worker.CheckSample(o.sample))
	switch {
	case err != nil:
		t.Errorf("%v", err)
	case !report.OK():
		t.Errorf("%v", report)
	}
}
