package storetier

import (
	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/store"
)

// needs lists the cases of the store tier that need an ability. A name that ends with a slash or a
// hyphen matches all cases that begin with it. TestNeeds compares the table with what the cases
// use.
var needs = map[store.Ability][]string{
	store.Hints: {
		"hints/queue", "hints/woken-queue", "hints/canceled-queue", "hints/event", "hints/state", "hints/final", "hints/schedule", "hints/asked",
		"hints/each-subscriber", "hints/other-handle", "hints/end-with-context", "hints/unread-hinders-nobody", "close/ends-hints", "close/tells-first", "hints/of-",
	},
	store.Processes:    {"hints/other-handle", "close/tells-first", "close/leaves-the-data"},
	store.Journals:     {"journal/", "audit/", "clock/actions", "names/registry", "sizes/lists", "sizes/unsubscribed-in-parts"},
	store.Imports:      {"import/", "tree/imported", "tree/imported-in-a-circle", "outbox/imported", "build/imported", "tag/imported", "limit/import", "import/streams", "clock/imports", "sizes/events", "sizes/imported-numbers"},
	store.Exports:      {"export/", "import/consumed-signals"},
	store.Transactions: {"tx/"},
	store.Diagnoses:    {"diagnose/"},
	store.Streams:      {"stream/", "sizes/stream-", "import/streams", "hints/of-append", "hints/of-streams", "cost/append", "cost/stream"},
	store.Trees:        {"tree/", "cost/tree"},
	store.Outbox:       {"outbox/", "durable/outbox", "sizes/outbox", "sizes/unsubscribed-in-parts", "audit/one-subscription-too-many", "clock/outbox", "cost/changes", "cost/drop-changes"},
	store.Ranks:        {"build/ahead", "claim/ahead", "claim/ahead-is-capped", "clock/ranks"},
}

// Needs lists the abilities that a case of the store tier needs. The case is not run for a backend
// that lacks one of them.
func (cs Case) Needs() []store.Ability { return harness.Needed(needs, cs.Name) }
