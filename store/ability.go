package store

import "slices"

// Ability is something that the contract asks for and that a backend may lack. The list is
// complete: a backend must do everything else. A backend that lacks an ability says so in
// [Features].Gaps, with the reason, and its conformance harness declares the same.
type Ability string

// The abilities.
const (
	// Hints: the backend implements [Hinter], for the writes of all processes.
	Hints Ability = "hints"
	// Processes: several processes may work on the same data.
	Processes Ability = "processes"
	// Transactions: the backend implements [Transactor].
	Transactions Ability = "transactions"
	// Journals: the backend implements [Journal].
	Journals Ability = "journal"
	// Imports: the backend implements [Importer].
	Imports Ability = "import"
	// Exports: the backend implements [Exporter].
	Exports Ability = "export"
	// Diagnoses: the backend implements [Diagnoser].
	Diagnoses Ability = "diagnose"
	// Ranks: the backend implements [Ranker].
	Ranks Ability = "rank"
	// Streams: the backend implements [Streamer], and its commits take Streams.
	Streams Ability = "streams"
	// Trees: the backend implements [TreeReader].
	Trees Ability = "trees"
	// Outbox: the backend implements [Outboxer].
	Outbox Ability = "outbox"
)

// Abilities lists them all.
func Abilities() []Ability {
	return []Ability{Hints, Processes, Transactions, Journals, Imports, Exports, Diagnoses, Ranks, Streams, Trees, Outbox}
}

// Able reports whether a store has an ability, by its [Features] and by the optional
// interfaces that it implements.
func Able(s Store, a Ability) bool {
	f := s.Features()
	if slices.ContainsFunc(f.Gaps, func(g Gap) bool { return g.Ability == a }) {
		return false
	}
	switch a {
	case Hints:
		return f.Hints && is[Hinter](s)
	case Processes:
		return f.Processes
	case Transactions:
		return f.Transactions && is[Transactor](s)
	case Journals:
		return is[Journal](s)
	case Imports:
		return is[Importer](s)
	case Exports:
		return is[Exporter](s)
	case Diagnoses:
		return is[Diagnoser](s)
	case Ranks:
		return is[Ranker](s)
	case Streams:
		return is[Streamer](s)
	case Trees:
		return is[TreeReader](s)
	case Outbox:
		return is[Outboxer](s)
	}
	return false
}

func is[T any](s Store) bool {
	_, ok := s.(T)
	return ok
}
