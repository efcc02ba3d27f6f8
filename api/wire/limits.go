package wire

import "time"

// LimitRule is what a limit allows to each of its keys. A part that is left out does not limit.
type LimitRule struct {
	// Concurrency is how many runs or steps may be at work at the same time.
	Concurrency int64 `json:"concurrency,omitempty" minimum:"0"`
	// Tokens and Per are the rate: so many tokens in that time, a duration such as 1h.
	Tokens int64  `json:"tokens,omitempty" minimum:"0"`
	Per    string `json:"per,omitempty"`
	// Burst is how many tokens may be taken at once; the default is Tokens.
	Burst int64 `json:"burst,omitempty" minimum:"0"`
	// Fair lets the keys take turns.
	Fair bool `json:"fair,omitempty"`
	// Text says it in words. Requests leave it out.
	Text string `json:"text,omitempty"`
}

// LimitUse is a limit that a run or its step is under.
type LimitUse struct {
	Limit string `json:"limit"`
	Key   string `json:"key,omitempty"`
	// Tokens is how many tokens of the limit's rate each attempt takes.
	Tokens int64 `json:"tokens,omitempty"`
}

// Limit is a limit with the sums of its keys.
type Limit struct {
	Name string `json:"name"`
	// Rule is what code has registered.
	Rule LimitRule `json:"rule"`
	// Set is what an operator has set; it counts in place of Rule.
	Set *LimitRule `json:"set,omitempty"`
	// Keys counts the keys that have a lease, a waiting run or a weight.
	Keys int `json:"keys"`
	// Held counts the leases under the limit.
	Held int64 `json:"held"`
	// Waiting counts the due runs under the limit that no worker holds, whatever they wait for.
	Waiting int64 `json:"waiting"`
	// WaitingSince is when the one that has waited longest became due.
	WaitingSince *time.Time `json:"waiting_since,omitempty"`
	// Full counts the keys that have no permit left, and FullWaiting the runs that wait under them.
	Full        int   `json:"full"`
	FullWaiting int64 `json:"full_waiting"`
	// Capped means that the sums are lower bounds.
	Capped    bool       `json:"capped,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// Limits lists limits by name.
type Limits struct {
	Limits []Limit `json:"limits"`
}

// LimitKey is what a limit knows of one of its keys.
type LimitKey struct {
	// Key is empty for a limit that counts all runs together.
	Key          string     `json:"key"`
	Held         int64      `json:"held"`
	Waiting      int64      `json:"waiting"`
	WaitingSince *time.Time `json:"waiting_since,omitempty"`
	// NextTokenAt is when the rate permits a token again; left out if it does so now.
	NextTokenAt *time.Time `json:"next_token_at,omitempty"`
	// Weight divides the shares of a fair limit.
	Weight int64 `json:"weight"`
}

// LimitView is a limit with a page of its keys.
type LimitView struct {
	Limit Limit      `json:"limit"`
	Keys  []LimitKey `json:"keys"`
	Next  string     `json:"next,omitempty"`
}

// SetWeight sets the weight of a key of a fair limit.
type SetWeight struct {
	// Key is empty for a limit that counts all runs together.
	Key    string `json:"key,omitempty"`
	Weight int    `json:"weight" minimum:"1" maximum:"1000"`
}
