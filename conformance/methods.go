package conformance

import "strings"

// methods names, for the cases of the store tier, what of package store each is about: a
// method ("Leases.Claim"), or an interface ("Runs", "Store") for a rule that holds for all
// of its methods. Of the entries that match a case, the longest one counts; one that ends
// with a slash or a hyphen matches all names that begin with it.
var methods = map[string]string{
	"create/": "Runs.Create",
	"get/":    "Runs.Get", "get/find-": "Runs.Find",
	"list/": "Runs.List", "list/count": "Runs.Count", "list/count-": "Runs.Count",
	"cancel/": "Runs.Cancel", "cancel/retry-is-due-at-once": "Leases.Commit", "cancel/continue-is-due-at-once": "Leases.Commit",
	"pause/": "Runs.Pause", "pause/queue": "Registry.PauseTarget", "pause/queue-": "Registry.PauseTarget", "pause/workflow": "Registry.PauseTarget",
	"pause/listed": "Registry.ListPaused", "pause/pages": "Registry.ListPaused", "pause/behind-": "Registry.ListPaused",
	"restart/": "Runs.Restart",
	"fork/":    "Runs.Fork",
	"purge/":   "Runs.Purge",

	"claim/": "Leases.Claim", "claim/release-": "Leases.Commit", "claim/released-": "Leases.Commit", "claim/crashes-kept-": "Leases.Commit",
	"claim/crashes-reset-by-commit": "Leases.Commit", "claim/ahead": "Ranker.Ahead", "claim/ahead-": "Ranker.Ahead",
	"extend/": "Leases.Extend",
	"commit/": "Leases.Commit",
	"sleep/":  "Leases.Commit",
	"steps/":  "Leases.Commit", "steps/pages-": "Runs.Steps", "steps/page-": "Runs.Steps", "steps/behind-": "Runs.Steps",
	"children/": "Leases.Commit", "children/list-": "Runs.Children", "children/bounded-": "Runs.Children", "children/behind-": "Runs.Children",

	"signal/": "Coordination.Signal",
	"state/":  "Coordination.SetState", "state/set-and-get": "Coordination.SetState, Coordination.GetState", "state/by-commit": "Leases.Commit",
	"state/byte-order": "Coordination.GetState", "state/unknown-run": "Coordination.GetState", "state/pages": "Coordination.GetState", "state/behind-": "Coordination.GetState",
	"inbox/":  "Coordination.Inbox",
	"answer/": "Coordination.Answers, Leases.Commit",

	"tree/": "TreeReader.Tree", "tree/purged": "TreeReader.Tree, Runs.Purge", "tree/purged-outside": "Runs.Purge",
	"stream/": "Streamer.Append, Streamer.ReadStream", "stream/pages": "Streamer.ReadStream", "stream/bounded-pages": "Streamer.ReadStream", "stream/closed": "Streamer.ReadStream",
	"stream/committed": "Leases.Commit", "stream/with-transitions": "Leases.Commit", "stream/superseded-by-commit": "Leases.Commit", "stream/repeated-commit": "Leases.Commit",
	"stream/purged": "Runs.Purge", "stream/forked": "Runs.Fork", "stream/closed-at-once": "Leases.Commit",

	"tag/": "Runs.List, Runs.Count", "tag/created": "Runs.Create", "tag/eager": "Runs.Create", "tag/repeated": "Runs.Create", "tag/committed": "Leases.Commit", "tag/with-transitions": "Leases.Commit",
	"tag/refused-commit": "Leases.Commit", "tag/invalid": "Runs", "tag/restarted": "Runs.Restart", "tag/forked": "Runs.Fork", "tag/spawned": "Leases.Commit", "tag/fired": "Schedules.Fire",
	"tag/purged": "Runs.Purge", "tag/imported": "Importer.Import", "tag/at-once": "Leases.Commit, Runs.List",

	"workers/": "Registry.PutWorker", "workers/remove": "Registry.RemoveWorker", "workers/asked": "Registry.AskWorkers", "workers/asked-": "Registry.AskWorkers",
	"workers/put-and-list": "Registry.PutWorker, Registry.ListWorkers", "workers/held": "Registry.ListWorkers", "workers/without-held": "Registry.ListWorkers",
	"workers/bounded-": "Registry.ListWorkers", "workers/pages": "Registry.ListWorkers", "workers/behind-": "Registry.ListWorkers", "workers/not-needed": "Leases.Claim",
	"workers/offline-": "Registry.PutWorker, Registry.ListWorkers",
	"workflows/":       "Registry.PutWorkflows", "workflows/put-and-list": "Registry.PutWorkflows, Registry.ListWorkflows",
	"workflows/bounded-": "Registry.ListWorkflows", "workflows/pages": "Registry.ListWorkflows",
	"lock/": "Registry.Lock",

	"limit/": "Leases.Claim, Runs.Create", "limit/ends-when-": "Leases.Commit", "limit/pass-on": "Leases.Commit", "limit/pass-on-": "Leases.Commit", "limit/ends-when-run-is-ended-by-force": "Runs.Cancel", "limit/ends-when-run-is-canceled-with-its-parent": "Runs.Cancel",
	"limit/returns": "Limiter.LimitKeys", "limit/list": "Limiter.ListLimits, Limiter.PutLimits", "limit/updated-at": "Limiter.PutLimits, Limiter.SetLimit", "limit/set": "Limiter.SetLimit", "limit/set-only": "Limiter.SetLimit",
	"limit/lowered": "Limiter.PutLimits", "limit/raised": "Limiter.PutLimits", "limit/undefined": "Limiter.PutLimits", "limit/restart": "Runs.Restart", "limit/fork": "Runs.Fork", "limit/purge": "Runs.Purge",
	"limit/import": "Importer.Import", "limit/fired": "Schedules.Fire", "limit/paused": "Runs.Pause", "limit/paused-queue": "Registry.PauseTarget", "limit/canceled-waiting": "Runs.Cancel", "limit/cleanup": "Runs.Cancel",
	"debounce/": "Runs.Create", "tx/debounce": "Transactor.Join", "limit/held-counts": "Limiter.LimitKeys", "limit/invalid": "Limiter", "limit/step": "Leases.Commit, Leases.Claim", "limit/step-": "Leases.Commit, Leases.Claim", "limit/zombie": "Leases.Commit", "limit/children": "Leases.Commit",
	"rate/": "Leases.Claim", "rate/raised": "Limiter.PutLimits", "rate/key": "Limiter.LimitKeys", "fair/": "Leases.Claim", "fair/weights": "Limiter.SetWeight", "fair/live": "Limiter.PutLimits",

	"build/": "Leases.Claim", "build/given-back-": "Leases.Commit", "build/pinned-by-": "Leases.Commit", "build/recorded-": "Leases.Commit",
	"build/new-generation": "Leases.Commit", "build/eager-start": "Runs.Create", "build/restarted": "Runs.Restart, Runs.Fork", "build/unpin": "Runs.Unpin",
	"build/unpin-": "Runs.Unpin", "build/filtered": "Runs.List, Runs.Count", "build/filtered-pages": "Runs.List", "build/filtered-capped": "Runs.Count", "build/listed": "Registry.ListBuilds", "build/of-workers": "Registry.PutWorker, Registry.ListWorkers",
	"build/ahead": "Ranker.Ahead", "build/imported": "Importer.Import",

	"schedules/": "Schedules.PutSchedule", "schedules/put-and-list": "Schedules.PutSchedule, Schedules.ListSchedules", "schedules/delete": "Schedules.DeleteSchedule",
	"schedules/due": "Schedules.ListSchedules", "schedules/due-": "Schedules.ListSchedules", "schedules/pages": "Schedules.ListSchedules",
	"schedules/bounded-": "Schedules.ListSchedules", "schedules/behind-": "Schedules.ListSchedules",
	"fire/": "Schedules.Fire", "fire/list": "Schedules.ListFirings",

	"hints/":  "Hinter.Hints",
	"import/": "Importer.Import",
	"export/": "Exporter.Sent",
	"audit/":  "Journal, Runs, Coordination.Signal, Coordination.SetState, Registry.PauseTarget, Schedules, Limiter", "audit/rivals": "Runs.Restart", "audit/signals": "Coordination.Signal", "audit/items": "Runs", "audit/large-batch": "Runs, Coordination.Signal",
	"outbox/": "Outboxer", "outbox/kinds": "Runs, Leases.Commit", "outbox/creations": "Runs.Create, Runs.Fork, Schedules.Fire, Leases.Commit", "outbox/cascades": "Runs.Cancel, Leases.Commit", "outbox/refused": "Runs, Leases.Commit",
	"outbox/fields": "Outboxer.Changes", "outbox/clock": "Outboxer.Changes", "outbox/in-order": "Outboxer.Changes", "outbox/oldest-first": "Outboxer.Changes", "outbox/tried-first": "Outboxer.Changes", "outbox/at-once": "Outboxer.Changes, Outboxer.Settle",
	"outbox/retry": "Outboxer.Settle", "outbox/settled-again": "Outboxer.Settle", "outbox/standing": "Outboxer.ListSubscriptions", "outbox/selected": "Outboxer.PutSubscription", "outbox/replaced": "Outboxer.PutSubscription",
	"outbox/deleted": "Outboxer.DeleteSubscription", "outbox/dropped": "Outboxer.DropChanges", "outbox/purged": "Runs.Purge", "outbox/imported": "Importer.Import", "outbox/start-with-signal-repeated": "Runs.Create",
	"sizes/outbox": "Outboxer.Changes, Outboxer.DeleteSubscription", "sizes/unsubscribed-in-parts": "Outboxer.DeleteSubscription", "audit/one-subscription-too-many": "Outboxer.PutSubscription", "cost/changes": "Outboxer.Changes, Outboxer.Settle", "cost/drop-changes": "Outboxer.DropChanges",
	"journal/": "Journal.Record", "journal/record-and-list": "Journal.Record, Journal.ListActions", "journal/pages": "Journal.ListActions",
	"diagnose/": "Diagnoser.Diagnose",
	"tx/join-":  "Transactor.Join", "tx/claim-": "Leases.Claim", "tx/join-refused": "Transactor.Join, Tx.Backend", "tx/step-": "Transaction.Commit", "tx/zombie": "Transaction.Commit",
	"tx/step-commits": "Transactor.Begin, Transaction.Commit", "tx/step-refused": "Transactor.Begin, Transaction.Commit",
	"tx/step-rolls-back": "Transaction.Rollback", "tx/recorded": "Transactor.Recorded", "tx/signal-start": "Transactor.Join, Runs.Create", "tx/starts-and-cancels-": "Transactor.Join, Runs.Create",
	"features/": "Store.Features", "features/counts": "Counter.Counts",
	"close/": "Store.Close",

	"payload/": "Store", "payload/limits-declared": "Store.Limits",
	"payload/run-input": "Runs.Create", "payload/run-meta": "Runs.Create", "payload/call-of-runs": "Runs.Create", "payload/claimed-": "Leases.Claim", "payload/forked-": "Runs.Fork",
	"payload/continued-input": "Leases.Commit", "payload/child-input": "Leases.Commit", "payload/run-output": "Leases.Commit", "payload/child-output": "Runs.Children",
	"payload/step-output": "Leases.Commit", "payload/committed-state": "Leases.Commit", "payload/call-of-commits": "Leases.Commit", "payload/large-commit": "Leases.Commit",
	"payload/failure-text": "Leases.Commit", "payload/signal": "Coordination.Signal", "payload/call-of-signals": "Coordination.Signal", "payload/state": "Coordination.SetState",
	"payload/schedule-": "Schedules.PutSchedule", "payload/fired-input": "Schedules.Fire", "payload/workflow-meta": "Registry.PutWorkflows",

	"time/": "Store", "time/store-clock": "Store.Clock",
	"clock/readings": "Store.Clock, Leases.Claim, Schedules.ListSchedules", "clock/creates": "Runs.Create", "clock/claims": "Leases.Claim", "clock/extends": "Leases.Extend",
	"clock/records": "Leases.Commit", "clock/delays": "Leases.Commit", "clock/due": "Leases.Claim", "clock/events": "Coordination", "clock/steering": "Runs", "clock/purges": "Runs.Purge",
	"clock/schedules": "Schedules", "clock/workers": "Registry.PutWorker, Registry.ListWorkers", "clock/asked": "Registry.AskWorkers", "clock/registry": "Registry",
	"clock/locks": "Registry.Lock", "clock/imports": "Importer.Import", "clock/actions": "Journal.Record", "clock/ranks": "Ranker.Ahead",

	"namespaces/": "Store", "namespaces/runs": "Runs", "namespaces/leases": "Leases", "namespaces/coordination": "Coordination", "namespaces/registry": "Registry",
	"namespaces/schedules": "Schedules", "namespaces/external-ids": "Runs.Create", "namespaces/locks": "Registry.Lock",
	"errors/": "Store",
	"faults/": "Store", "faults/step-commit": "Transaction.Commit, Transactor.Recorded",
	"durable/": "Store", "durable/runs": "Runs", "durable/commits": "Leases.Commit", "durable/leases": "Leases", "durable/coordination": "Coordination",
	"durable/schedules": "Schedules", "durable/registry": "Registry",
	"names/": "Store", "names/runs": "Runs", "names/registry": "Registry", "names/order": "Registry.ListWorkflows",

	"sizes/": "Store", "sizes/stream-": "Streamer.Append", "sizes/steps": "Leases.Commit", "sizes/replaced-steps": "Leases.Commit", "sizes/commits": "Leases.Commit", "sizes/leases": "Leases",
	"sizes/tree": "Runs.Cancel", "sizes/lanes": "Leases.Claim", "sizes/queues": "Leases.Claim", "sizes/imported-numbers": "Importer.Import", "sizes/events": "Leases.Commit",
	"sizes/signals": "Coordination.Signal, Coordination.Inbox", "sizes/state": "Coordination.SetState, Coordination.GetState", "sizes/groups": "Leases.Commit",
	"sizes/worker": "Registry.PutWorker, Registry.ListWorkers",

	"cost/claim": "Leases.Claim", "cost/claim-none": "Leases.Claim", "cost/limit-": "Leases.Claim", "cost/append": "Streamer.Append", "cost/stream": "Streamer.ReadStream", "cost/tree": "TreeReader.Tree", "cost/wake-due": "Leases.Claim", "cost/extend": "Leases.Extend", "cost/commit-": "Leases.Commit",
	"cost/create": "Runs.Create", "cost/create-": "Runs.Create", "cost/get": "Runs.Get", "cost/find": "Runs.Find", "cost/children": "Runs.Children", "cost/steps": "Runs.Steps",
	"cost/parent-ends": "Leases.Commit", "cost/parent-canceled": "Runs.Cancel", "cost/cancel": "Runs.Cancel", "cost/pause": "Runs.Pause", "cost/restart": "Runs.Restart",
	"cost/fork": "Runs.Fork", "cost/purge": "Runs.Purge", "cost/list": "Runs.List", "cost/list-": "Runs.List", "cost/count": "Runs.Count", "cost/count-": "Runs.Count",
	"cost/signal": "Coordination.Signal", "cost/signal-": "Coordination.Signal", "cost/inbox": "Coordination.Inbox", "cost/state": "Coordination.SetState, Coordination.GetState",
	"cost/fire": "Schedules.Fire", "cost/schedules-due": "Schedules.ListSchedules", "cost/lock": "Registry.Lock", "cost/worker": "Registry.PutWorker, Leases.Extend",
	"cost/journal": "Journal.ListActions",
	"cost/builds":  "Registry.ListBuilds",
}

// Methods names what of package store a case is about: methods such as "Leases.Claim", or
// an interface such as "Store" for a rule that holds for all of its methods. Package store
// states the rule there.
func (cs Case) Methods() []string { return methodsOf(cs.Name) }

// methodsOf is [Case.Methods], by the name of the case.
func methodsOf(name string) []string {
	best := ""
	for key := range methods {
		prefix := strings.ContainsAny(key[len(key)-1:], "/-")
		if len(key) > len(best) && (key == name || prefix && strings.HasPrefix(name, key)) {
			best = key
		}
	}
	if best == "" {
		return nil
	}
	return strings.Split(methods[best], ", ")
}
