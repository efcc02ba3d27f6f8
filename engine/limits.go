package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Under puts the run under these limits, in place of those of its workflow. Without uses, the run is
// under none. Package limit makes uses: limit.Limit.Use. [LimitKey] and [Tokens] apply to them.
//
// A start by a workflow.Workflow is under the limits of its workflow.Under and workflow.UnderKey. Any
// other start is under those with which workers have registered the workflow, and must give the keys
// that the workflow's code would work out from the input: see [LimitKey].
func Under(uses ...store.LimitUse) StartOption {
	return func(r *store.NewRun) {
		r.Under = slices.DeleteFunc(slices.Clone(r.Under), func(u store.LimitUse) bool { return !isSetting(u) || u.Limit == onlyThese })
		r.Under = append(append(r.Under, store.LimitUse{Limit: onlyThese}), uses...)
	}
}

// LimitKey sets the key of one of the run's limits, by the limit's name, in place of the one that the
// workflow's code works out. It must not be empty.
func LimitKey(limit, key string) StartOption {
	return func(r *store.NewRun) {
		r.Under = append(r.Under, store.LimitUse{Limit: keyOf + limit, Key: key})
	}
}

// Tokens sets how many tokens each attempt of the run takes of the rates that it is under, in place of
// one. More than the burst with which code has registered a limit is store.ErrInvalid. Of a fair limit
// it is also what the run counts in its key's share.
func Tokens(n int) StartOption {
	return func(r *store.NewRun) {
		r.Under = append(r.Under, store.LimitUse{Limit: tokensOf, Tokens: int64(n)})
	}
}

// What start options say of a run's limits is kept in its uses, until prepare knows the limits of its
// workflow. No limit has such a name.
const (
	setting   = "\x00"
	onlyThese = setting + "only"
	tokensOf  = setting + "tokens"
	keyOf     = setting + "key "
)

func isSetting(u store.LimitUse) bool { return strings.HasPrefix(u.Limit, setting) }

// usesOf returns the limits that a run of a workflow is under: those that its start gives, or else those
// with which workers have registered the workflow.
func usesOf(workflow string, needs []exec.LimitNeed, options []store.LimitUse) ([]store.LimitUse, error) {
	if len(options) == 0 && len(needs) == 0 {
		return nil, nil
	}
	var uses, keys []store.LimitUse
	only, tokens := false, int64(0)
	for _, u := range options {
		name, isKey := strings.CutPrefix(u.Limit, keyOf)
		switch {
		case u.Limit == onlyThese:
			only = true
		case u.Limit == tokensOf && u.Tokens < 1:
			return nil, store.Invalid("tokens", fmt.Sprintf("%d is not above zero", u.Tokens))
		case u.Limit == tokensOf:
			tokens = u.Tokens
		case isKey && u.Key == "":
			return nil, store.Invalid("limit "+name, "the key that the start gives is empty")
		case isKey:
			keys = append(slices.DeleteFunc(keys, func(k store.LimitUse) bool { return k.Limit == name }), store.LimitUse{Limit: name, Key: u.Key})
		default:
			uses = append(uses, u)
		}
	}
	most := make(map[string]int64)
	for _, need := range needs {
		most[need.Limit] = need.Most
	}
	if only {
		needs = nil
		for _, u := range uses {
			needs = append(needs, exec.LimitNeed{LimitUse: u})
		}
	}
	uses, err := exec.CompleteUses(workflow, needs, keys)
	if err != nil {
		return nil, err
	}
	for i := range uses {
		if tokens > 0 {
			uses[i].Tokens = tokens
		}
		if n := most[uses[i].Limit]; n > 0 && uses[i].Tokens > n {
			return nil, store.Invalid("limit "+uses[i].Limit, fmt.Sprintf("%d tokens are more than its burst of %d", uses[i].Tokens, n))
		}
	}
	return store.SortUses(uses), nil
}
