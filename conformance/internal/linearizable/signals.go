package linearizable

import (
	"slices"
)

// sightings is what the answers of a run's claims say about when a signal was stored.
type sightings struct {
	behind string // the signal that was stored just before it, "3,"; empty: not known
	after  int64  // the epoch of the last claim that did not return it
	before int64  // the epoch of the first claim that returned it; 0: none did
}

// permit reports whether the signal may be stored in the state. Without this rule, the check would
// try all orders of signals that were sent at the same time, because only a later claim shows
// their order.
func (s sightings) permit(run *spec, id int) bool {
	had := split(run.had)
	if slices.Contains(had, id) {
		return true // sent again
	}
	for _, n := range split(s.behind) {
		if !slices.Contains(had, n) {
			return false
		}
	}
	return run.epoch >= s.after && (s.before == 0 || run.epoch < s.before)
}

// withSightings adds to the signals of a run what its claims have shown. A claim returns all unread
// signals in the order in which they were stored. A signal that it does not return was stored later,
// unless a commit may have consumed it.
func withSightings(ops []timed) []timed {
	seen := map[int]sightings{}
	consumed := map[int]bool{}
	var claims []timed
	for _, op := range ops {
		for _, id := range split(op.request.consumed) {
			consumed[id] = true
		}
		if op.request.verb == "claim" && !op.answer.unknown && op.answer.epoch > 0 {
			claims = append(claims, op)
		}
	}
	for _, c := range claims {
		last := ""
		for _, id := range split(c.answer.signals) {
			s := seen[id]
			if last != "" {
				s.behind = last
			}
			if s.before == 0 || c.answer.epoch < s.before {
				s.before = c.answer.epoch
			}
			seen[id], last = s, joined([]int{id})
		}
	}
	out := slices.Clone(ops)
	for i := range out {
		r := &out[i].request
		if r.verb != "signal" {
			continue
		}
		s := seen[r.id]
		for _, c := range claims {
			if !consumed[r.id] && !slices.Contains(split(c.answer.signals), r.id) {
				s.after = max(s.after, c.answer.epoch)
			}
		}
		r.sightings = s
	}
	return out
}
