package workflow

import "github.com/pawlhq/pawl/store"

// SetTags changes the run's tags: the given ones get these values, one with an empty value is removed,
// and all others stay. The change is part of the commit that records it. It is made once, also if the
// run is executed again, and lists find the run by it from that commit on.
//
// It fails with store.ErrInvalid for names and values that [store.Tags.Validate] refuses, or if the
// run would have more than [store.MaxTags]; then nothing changes, and the run can continue. Further
// errors are [ErrCanceled] and [ErrDeadline]. A retry or a restart of the run keeps the tags that it
// has.
func SetTags(ctx Context, tags map[string]string) error {
	return public(ctx.branch.SetTags(store.Tags(tags)))
}
