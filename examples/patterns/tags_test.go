package patterns

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflowtest"
)

func TestDelivery(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		env.Register(Label)
		delivery := Delivery(func(context.Context, Parcel) error { return nil }, 48*time.Hour)
		tags := func(p Parcel) engine.StartOption {
			return engine.Tags(map[string]string{"customer": p.Customer, "region": p.Region, "state": "new"})
		}
		lamp, sofa := Parcel{"lamp", "4711", "eu-west"}, Parcel{"sofa", "4711", "us-east"}
		first := workflowtest.Start(env, delivery, lamp, tags(lamp))
		workflowtest.Start(env, delivery, sofa, tags(sofa))
		again, err := Deliver(env.Context(), env.Engine(), delivery, Parcel{"chair", "1", "eu-north"})
		env.NoError(err)
		env.Advance(time.Hour)
		runs, next, err := Moving(env.Context(), env.Engine(), "4711", "")
		env.NoError(err)
		require.Len(t, runs, 4, "two parcels and their labels")
		require.Empty(t, next)
		run, err := env.Engine().Get(env.Context(), again.ID())
		env.NoError(err)
		require.Equal(t, store.Tags{"customer": "1", "region": "eu-north", "state": "in-transit"}, run.Tags)
		done, err := Strike(env.Context(), env.Engine(), "us-")
		env.NoError(err)
		require.EqualValues(t, 1, done.Done)
		require.Equal(t, "label of lamp", first.Result())
	})
}
