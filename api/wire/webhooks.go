package wire

import "time"

// Webhook is the subscription of an outgoing webhook: what it selects, and how its delivery stands. The URL and the secret are
// not stored.
type Webhook struct {
	Name string `json:"name"`
	// Workflows is left out if the webhook tells of the runs of all workflows.
	Workflows []string `json:"workflows,omitempty"`
	// Kinds is left out if the webhook tells of changes of all kinds.
	Kinds []string `json:"kinds,omitempty"`
	// Keep is how long a change waits before it is dropped.
	Keep string `json:"keep"`
	// Waiting counts the changes that are not delivered yet.
	Waiting int64 `json:"waiting"`
	// Capped means that Waiting is a lower bound.
	Capped bool `json:"capped,omitempty"`
	// OldestAt is when the oldest of them happened.
	OldestAt *time.Time `json:"oldest_at,omitempty"`
	// Attempts counts the failed attempts to deliver it.
	Attempts int `json:"attempts,omitempty"`
	// DeliveredAt is when a change was last delivered.
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// FailedAt is when an attempt last failed, and Error is why.
	FailedAt *time.Time `json:"failed_at,omitempty"`
	Error    string     `json:"error,omitempty"`
	// Dropped counts the changes that were not delivered in time.
	Dropped   int64      `json:"dropped,omitempty"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// Webhooks lists outgoing webhooks by name.
type Webhooks struct {
	Webhooks []Webhook `json:"webhooks"`
}
