package exec

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// LimitNeed is a limit that the runs of a workflow are under, as workers register it with the
// workflow.
type LimitNeed struct {
	store.LimitUse
	// Keyed says that the key is worked out from a run's input.
	Keyed bool `json:"keyed,omitempty"`
	// Most is how many tokens an attempt may take at once, as the code defines the limit; 0: any
	// number.
	Most int64 `json:"most,omitempty"`
}

// CompleteUses returns the uses of a run of a workflow whose start gives only the keys: those
// that the workflow's registration names, with these keys.
func CompleteUses(workflow string, needs []LimitNeed, given []store.LimitUse) ([]store.LimitUse, error) {
	uses := make([]store.LimitUse, 0, len(needs))
	for _, need := range needs {
		use := need.LimitUse
		i := slices.IndexFunc(given, func(u store.LimitUse) bool { return u.Limit == need.Limit })
		if i >= 0 {
			use.Key = given[i].Key
		} else if need.Keyed {
			return nil, store.Invalid("limit "+need.Limit, fmt.Sprintf(
				"workflow %q is under it by a key that its code works out from the input; start the run with its workflow.Workflow, or give the key with engine.LimitKey(%q, key) or Reference.UnderKey", workflow, need.Limit))
		}
		uses = append(uses, use)
	}
	for _, u := range given {
		if !slices.ContainsFunc(needs, func(n LimitNeed) bool { return n.Limit == u.Limit }) {
			return nil, store.Invalid("limit "+u.Limit, fmt.Sprintf("the start gives a key of it, but workflow %q is not under it, as its workers have registered it", workflow))
		}
	}
	return uses, nil
}

// Callee is a workflow that another one runs by a reference, as workers have registered it.
type Callee struct {
	Queue string // if no worker has registered it, the workflow's name
	Needs []LimitNeed
}

// ChildInput is the input of a child.
type ChildInput struct {
	Data  []byte
	Under []store.LimitUse // of a child by a reference: those whose keys the reference works out
}

// findCalleeLocked finds out what workers have registered of the workflow of children, if that is
// needed: their queue, unless the code has set it, and their limits, if the code does not have the
// workflow. If the run was closed in the meantime, it ends the goroutine.
func (inv *Invocation) findCalleeLocked(workflow string, queue *string, open bool) (needs []LimitNeed) {
	if *queue != "" && !open {
		return nil
	}
	var found Callee
	inv.unlocked(func() {
		var ok bool
		if found, ok = inv.host.Callee(inv, workflow); !ok {
			inv.Lose() // has no effect if the invocation has already ended
			exit()
		}
	})
	if *queue == "" {
		*queue = found.Queue
	}
	inv.exitIfClosedLocked()
	return found.Needs
}

// usesLocked returns the limits that a child is under. If the start lacks a key, the run fails,
// because what its code does about that would depend on what is registered at the moment.
func (inv *Invocation) usesLocked(of, workflow string, open bool, needs []LimitNeed, given []store.LimitUse) []store.LimitUse {
	if !open || inv.cfg.Check { // a check spawns nothing
		return given
	}
	uses, err := CompleteUses(workflow, needs, given)
	if err != nil {
		inv.failLocked(&store.Failure{Code: CodeError, Message: of + ": " + err.Error()})
		inv.exitIfClosedLocked()
	}
	return uses
}
