package enginetier

import (
	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/store"
)

// engineNeeds is the same for the engine tier. The other cases tx/... check that a backend without
// transactions refuses them.
var engineNeeds = map[store.Ability][]string{
	store.Hints:        {"lost/end-and-hints"},
	store.Journals:     {"control/recorded-once"},
	store.Imports:      {"export/", "update/exported", "tags/kept", "stream/kept"},
	store.Exports:      {"export/", "update/exported", "tags/kept", "stream/kept", "histories/checked", "histories/open-items", "metrics/balance"},
	store.Streams:      {"stream/"},
	store.Trees:        {"progress/"},
	store.Outbox:       {"outbox/"},
	store.Ranks:        {"explain/waiting-for-a-worker"},
	store.Transactions: {"flow/transaction", "lost/recorded", "stream/in-a-transaction"},
}

// Needs lists the abilities that a case of the engine tier needs.
func (cs Case) Needs() []store.Ability { return harness.Needed(engineNeeds, cs.Name) }
