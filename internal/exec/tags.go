package exec

import (
	"maps"
	"sync/atomic"

	"github.com/pawlhq/pawl/store"
)

// CodeTags is the failure code of a change of tags after which the run would have too many.
const CodeTags = "tags"

// tags are the tags of a run, with the changes that no commit has stored yet.
type tags struct{ now atomic.Pointer[store.Tags] }

func (t *tags) set(now store.Tags) { t.now.Store(&now) }

func (t *tags) get() store.Tags {
	if p := t.now.Load(); p != nil {
		return *p
	}
	return nil
}

// ChildTags are the tags of a child.
type ChildTags struct {
	Own     store.Tags
	Inherit bool // those of the parent as well, unless Own has another value
}

// tagsOf returns the tags of a child that is spawned now.
func (inv *Invocation) tagsOf(child ChildTags) store.Tags {
	if !child.Inherit {
		return child.Own.Clone()
	}
	return changed(inv.tags.get(), child.Own)
}

// changed returns tags after a change, in which an empty value removes a tag.
func changed(t, change store.Tags) store.Tags {
	out := maps.Clone(t)
	if out == nil {
		out = store.Tags{}
	}
	for name, value := range change {
		if value == "" {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}

// SetTags changes the run's tags once: the commit that records the operation contains them. A change
// after which the run would have too many tags fails, which is recorded.
func (b *Branch) SetTags(change store.Tags) error {
	inv := b.inv
	set := changed(nil, change) // without those that are removed
	if err := set.Validate(); err != nil {
		return err
	}
	replay := func(o *op) (none, error) {
		if f := o.recorded.Failure; f != nil {
			return none{}, store.Invalid("tags", f.Message)
		}
		return none{}, nil
	}
	_, err := durable(b, store.KindState, "tags", replay, func(o *op) (none, error) {
		next := changed(inv.tags.get(), change)
		if err := next.Validate(); err != nil {
			r := o.record(store.StepCompleted)
			r.Failure = &store.Failure{Code: CodeTags, Message: err.Error()}
			o.finishLocked(r)
			return none{}, store.Invalid("tags", r.Failure.Message)
		}
		inv.makeRoomLocked(store.MaxTags * (store.MaxTagName + store.MaxTagValue))
		inv.tags.set(next)
		inv.outbox.tag(next)
		o.finishLocked(o.record(store.StepCompleted))
		return none{}, nil
	})
	return err
}
