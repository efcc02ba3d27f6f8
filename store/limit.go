package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limiter stores the limits that runs are under. The rules at [Store] hold for every method. [Limit]
// says what a limit is, and [Leases.Claim] what it does.
type Limiter interface {
	// PutLimits registers the rules of limits, as code defines them, all or none (P3). Of a limit that
	// exists it replaces Rule; Set, which an operator has set, stays and wins. It uses Name and Rule of
	// each limit. A limit whose Rule is the same does not change, and UpdatedAt stays.
	//
	// Claims that begin after PutLimits has returned follow the new rules. Runs that a lower concurrency
	// would no longer permit keep their leases. Runs that wait go as soon as the new rule permits them. A
	// store with hints sends a HintRescan if a rule has changed.
	//
	// P4: a repeated call registers the same rules. A call takes at most [MaxBatch] limits, no two of one
	// name. It returns ErrInvalid.
	PutLimits(ctx context.Context, p PutLimitsParams) error

	// SetLimit sets the rule of a limit as an operator wants it, whether code has registered the limit or
	// not. It wins over Rule until it is removed by a call without a Rule. Removing what is not set is not
	// an error if the limit exists; a limit that only an operator has set is gone with its rule. The new
	// rule takes effect as that of PutLimits does.
	//
	// It returns ErrInvalid, or ErrNotFound if it is to remove the rule of a limit that does not exist. P4:
	// if the answer is lost, send the call again; removing the rule of a limit that only an operator had
	// set is then ErrNotFound.
	SetLimit(ctx context.Context, p SetLimitParams) error

	// ListLimits returns a page of the limits, of the given names or all, by name. Next is the cursor of
	// the next page, and empty on the last page. [AllLimits] reads all pages.
	//
	// P14: limits that exist during the whole listing are returned exactly once, whatever is put and set
	// in the meantime. A cursor of another query is ErrInvalid.
	ListLimits(ctx context.Context, p ListLimitsParams) (LimitPage, error)

	// LimitKeys returns a page of the keys of a limit, by key: those that have a lease, a due run that
	// waits, a weight other than 1, or a RateAt. A limit need not be registered to have keys. Next is the
	// cursor of the next page, and empty on the last page.
	//
	// P24: Held is exact at one moment: it is the number of runs with a lease under the limit and key.
	// Waiting counts up to [MaxWaiting] runs.
	//
	// P14: keys that are in the listing throughout are returned exactly once. A cursor of another query is
	// ErrInvalid.
	LimitKeys(ctx context.Context, p LimitKeysParams) (LimitKeyPage, error)

	// SetWeight sets the weight of a key of a limit, from 1 to [MaxWeight]: under a limit that is fair, a
	// key of weight 3 gets three times the share of a key of weight 1, which is the weight of every key
	// that has none (P23). It holds for claims that begin later. The limit need not be registered. P4: if
	// the answer is lost, send the call again.
	SetWeight(ctx context.Context, p SetWeightParams) error
}

// A Limit is a named rule that restricts how many runs work at a time and how often they begin, for each
// key. Its runs say in [NewRun.Under] that they are under it.
//
// A lease holds a *permit* under each [LimitUse] of its run, from the claim until the transition, or
// whatever else ends the lease. A run that no worker holds holds no permit. A lease that expired holds
// its permits until its run is claimed again, which passes them on to the new lease, or until its run
// ends.
//
// A limit that does not exist permits everything. Its permits are counted nevertheless, and count once
// it exists.
type Limit struct {
	Name string
	// Rule is the rule that code has registered; zero: none.
	Rule LimitRule
	// Set is the rule that an operator has set; nil: none. It wins over Rule.
	Set *LimitRule
	// UpdatedAt is when Rule or Set last changed.
	UpdatedAt time.Time
}

// Effective returns the rule that is in force.
func (l *Limit) Effective() LimitRule {
	if l.Set != nil {
		return *l.Set
	}
	return l.Rule
}

// LimitRule says what a limit permits, for each of its keys. Fields that are zero do not limit.
type LimitRule struct {
	// Concurrency is how many leases may be under the limit and one key at a time (P21).
	Concurrency int64 `json:"concurrency,omitempty"`
	// Tokens and Per are a rate: a key gets Tokens in each Per, one after the other (P22). Both are set or
	// neither. The time between two tokens is Per divided by Tokens, rounded up to whole microseconds; it
	// is at least one microsecond.
	Tokens int64         `json:"tokens,omitempty"`
	Per    time.Duration `json:"per,omitempty"`
	// Burst is how many tokens a key that was idle has at most; 0: Tokens.
	Burst int64 `json:"burst,omitempty"`
	// Fair makes the keys take turns (P23).
	Fair bool `json:"fair,omitempty"`
}

// LimitUse says that a run, or one of its steps, is under a limit.
type LimitUse struct {
	Limit string `json:"limit"` // the limit's name; it need not be registered
	// Key is what the limit counts by: a tenant, an account, a document. Runs with an empty key are
	// counted together, as one more key. It is text of at most MaxName bytes, without NUL.
	Key string `json:"key,omitempty"`
	// Tokens is how many tokens of a rate an attempt takes; 0 means 1. It is also the weight of the run in
	// its key's share of a fair limit. It is at most MaxTokens.
	Tokens int64 `json:"tokens,omitempty"`
}

// Limits of limits.
const (
	MaxLimits  = 8         // uses of a run, those of its step included
	MaxTokens  = 1_000_000 // tokens of a use
	MaxWeight  = 1_000     // of a key
	MaxWaiting = 1_000     // up to which LimitKey.Waiting counts
)

// MaxPer is the longest time in which a rate gives its tokens, and in which its burst comes back.
const MaxPer = 366 * 24 * time.Hour

// Every returns the time between two tokens of the rule's rate, in microseconds; 0: it has no rate.
func (r LimitRule) Every() int64 {
	if r.Tokens <= 0 || r.Per <= 0 {
		return 0
	}
	per := int64((r.Per + time.Microsecond - 1) / time.Microsecond)
	return (per + r.Tokens - 1) / r.Tokens
}

// Most returns how many tokens a key that was idle has; 0: the rule has no rate.
func (r LimitRule) Most() int64 {
	if r.Every() == 0 {
		return 0
	}
	return cmp.Or(r.Burst, r.Tokens)
}

// PutLimitsParams is the input of [Limiter.PutLimits].
type PutLimitsParams struct {
	Namespace string
	Limits    []Limit // Name and Rule
	Now       time.Time
}

// SetLimitParams is the input of [Limiter.SetLimit].
type SetLimitParams struct {
	Namespace string
	Name      string
	Rule      *LimitRule // nil: remove what was set
	Now       time.Time
	Record    []Action // see [Journal]
}

// ListLimitsParams is the input of [Limiter.ListLimits].
type ListLimitsParams struct {
	Namespace string
	Names     []string // empty: all
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// LimitPage is a page of limits; Next is empty on the last one.
type LimitPage struct {
	Limits []Limit
	Next   string
}

// LimitKeysParams is the input of [Limiter.LimitKeys].
type LimitKeysParams struct {
	Namespace string
	Limit     string  // the limit's name
	Key       *string // only this key; nil: all
	Cursor    string
	Rows      int // of a page; 0: 100; at most MaxPage
	Now       time.Time
}

// LimitKeyPage is a page of keys; Next is empty on the last one.
type LimitKeyPage struct {
	Keys []LimitKey
	Next string
}

// LimitKey says how a key of a limit stands.
type LimitKey struct {
	Key  string
	Held int64 // leases under the limit and the key
	// Waiting counts the due runs under the limit and the key that no worker holds, up to MaxWaiting,
	// whatever they wait for; paused runs do not count.
	Waiting int64
	// Since is the earliest VisibleAt of these; zero: none.
	Since time.Time
	// RateAt is when the rate has a token again; zero: it has one now, or the limit has no rate.
	RateAt time.Time
	Weight int64 // from 1
}

// SetWeightParams is the input of [Limiter.SetWeight].
type SetWeightParams struct {
	Namespace string
	Limit     string
	Key       string
	Weight    int64 // from 1 to MaxWeight
	Now       time.Time
	Record    []Action // see [Journal]
}

// SortUses returns uses as a store keeps them: by limit, with at least one token each. It returns nil
// for an empty list, and does not change its argument.
func SortUses(uses []LimitUse) []LimitUse {
	if len(uses) == 0 {
		return nil
	}
	uses = slices.Clone(uses)
	for i := range uses {
		uses[i].Tokens = max(1, uses[i].Tokens)
	}
	slices.SortFunc(uses, func(a, b LimitUse) int { return cmp.Compare(a.Limit, b.Limit) })
	return uses
}

// CheckUses checks the uses of a run together with those of its step, if it waits for one: there are at
// most [MaxLimits], no two of one limit.
func CheckUses(own, step []LimitUse) error {
	all := slices.Concat(own, step)
	if len(all) > MaxLimits {
		return Invalid("limits", fmt.Sprintf("the run is under %d limits; at most %d are allowed", len(all), MaxLimits))
	}
	for i := range all {
		u := &all[i]
		if err := first(ValidateName("limit", u.Limit), limitKey(u.Key)); err != nil {
			return err
		}
		if u.Tokens < 0 || u.Tokens > MaxTokens {
			return Invalid("limit "+strconv.Quote(clip(u.Limit)), fmt.Sprintf("%d tokens are not between 0 and %d", u.Tokens, MaxTokens))
		}
		for j := range i {
			if all[j].Limit == u.Limit {
				return Invalid("limit "+strconv.Quote(clip(u.Limit)), "the run is under it twice")
			}
		}
	}
	return nil
}

// limitKey checks what a limit counts by.
func limitKey(s string) error {
	switch {
	case len(s) > MaxName:
		return Invalid("limit key", fmt.Sprintf("%q has %d bytes; at most %d are allowed", clip(s), len(s), MaxName))
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return Invalid("limit key", fmt.Sprintf("%q is not valid UTF-8 text", clip(s)))
	}
	return nil
}

// Validate checks the rule. name is that of its limit, for the error.
func (r LimitRule) Validate(name string) error {
	field := "limit " + strconv.Quote(clip(name))
	switch {
	case min(r.Concurrency, r.Tokens, r.Burst) < 0 || max(r.Concurrency, r.Tokens, r.Burst) > math.MaxInt32:
		return Invalid(field, fmt.Sprintf("its concurrency, tokens or burst are not between 0 and %d", math.MaxInt32))
	case r.Per < 0 || r.Per > MaxPer:
		return Invalid(field, fmt.Sprintf("its rate is per %v, which is not between 0 and %v", r.Per, MaxPer))
	case (r.Tokens == 0) != (r.Per == 0):
		return Invalid(field, "a rate needs tokens and the time in which it gives them")
	case r.Burst > 0 && r.Tokens == 0:
		return Invalid(field, "a burst needs a rate")
	case r.Tokens > int64(r.Per/time.Microsecond):
		return Invalid(field, fmt.Sprintf("a rate of %d tokens per %v is above one token per microsecond", r.Tokens, r.Per))
	case r.Most() > 0 && r.Most() > int64(MaxPer/time.Microsecond)/r.Every():
		return Invalid(field, fmt.Sprintf("a burst of %d tokens takes more than %v to come back", r.Most(), MaxPer))
	}
	return nil
}

// Validate checks the call.
func (p *PutLimitsParams) Validate() error {
	if err := first(ValidateName("namespace", p.Namespace), batch("limits", len(p.Limits))); err != nil {
		return err
	}
	seen := make(map[string]bool, len(p.Limits))
	for _, l := range p.Limits {
		if err := first(ValidateName("limit", l.Name), l.Rule.Validate(l.Name)); err != nil {
			return err
		}
		if seen[l.Name] {
			return Invalid("limit "+strconv.Quote(clip(l.Name)), "it is registered twice in one call")
		}
		seen[l.Name] = true
	}
	return nil
}

// Validate checks the call.
func (p *SetLimitParams) Validate() error {
	if err := first(ValidateName("namespace", p.Namespace), ValidateName("limit", p.Name), validateRecord(p.Record, 1)); err != nil || p.Rule == nil {
		return err
	}
	return p.Rule.Validate(p.Name)
}

// Validate checks the call, without its cursor.
func (p *ListLimitsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}

// Validate checks the call, without its cursor.
func (p *LimitKeysParams) Validate() error {
	_, err := Page(p.Rows)
	if err == nil && p.Key != nil {
		err = limitKey(*p.Key)
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("limit", p.Limit), err)
}

// Validate checks the call.
func (p *SetWeightParams) Validate() error {
	if p.Weight < 1 || p.Weight > MaxWeight {
		return Invalid("weight", fmt.Sprintf("%d is not between 1 and %d", p.Weight, MaxWeight))
	}
	return first(ValidateName("namespace", p.Namespace), ValidateName("limit", p.Limit), limitKey(p.Key), validateRecord(p.Record, 1))
}

// Position decodes the cursor: the name of the last limit seen.
func (p *ListLimitsParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorLimits, []any{p.Namespace, p.Names}, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last limit.
func (p *ListLimitsParams) NextCursor(last string) string {
	return EncodeCursor(cursorLimits, []any{p.Namespace, p.Names}, []byte(last))
}

// Position decodes the cursor: the last key seen. ok is false at the start of the listing, because a key
// may be empty.
func (p *LimitKeysParams) Position() (key string, ok bool, err error) {
	pos, err := DecodeCursor(cursorLimitKeys, []any{p.Namespace, p.Limit, p.Key}, p.Cursor)
	if err != nil || pos == nil {
		return "", false, err
	}
	if len(pos) == 0 || pos[0] != 0 {
		return "", false, Invalid("cursor", "it names no key; start without a cursor")
	}
	return string(pos[1:]), true, nil
}

// NextCursor makes the cursor that continues after a page's last key.
func (p *LimitKeysParams) NextCursor(last string) string {
	return EncodeCursor(cursorLimitKeys, []any{p.Namespace, p.Limit, p.Key}, append([]byte{0}, last...))
}

// AllLimits lists all limits that p selects: it reads all pages of ListLimits, each as large as possible,
// from p.Cursor on.
func AllLimits(ctx context.Context, l Limiter, p ListLimitsParams) ([]Limit, error) {
	p.Limit = MaxPage
	return allPages(p.Cursor, func(cursor string) ([]Limit, string, error) {
		p.Cursor = cursor
		page, err := l.ListLimits(ctx, p)
		return page.Limits, page.Next, err
	})
}
