package exec

import (
	"math"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// history is what is recorded of a run. It is read in pages as the code reaches it, and
// dropped once the code has passed it, so that a long history uses no more memory than a
// short one.
//
// Its methods take no lock; the invocation's mutex guards it.
type history struct {
	branches map[string][]store.Step // by the branch's path and the step's index; without a name: not recorded, or not read
	forked   branchSet               // paths of the branches that the code has forked
	ahead    map[string]branchSet    // by a branch's path: those right below it that are recorded, and not forked yet
	readTo   int64                   // position of the last step that was read
	more     bool                    // more steps follow it
	reading  bool                    // a goroutine is reading them
	last     int64                   // the highest position in use
	come     map[string]int          // by a branch's path: the index behind the last operation that the code has come to
	left     int                     // operations that were read and that the code has not come to; see counts
	replayed func()                  // called when left becomes zero; may be nil
	loose    bool                    // branches right below the main one may be gone from the code: they are the nodes of a graph
}

// branchSet is a set of branches, by their paths.
type branchSet map[string]bool

// has reports whether a branch is in the set, or below one that is.
func (set branchSet) has(path string) bool {
	for end := range len(path) + 1 {
		if (end == len(path) || path[end] == '/') && set[path[:end]] {
			return true
		}
	}
	return false
}

// add takes in the next steps, in the order of their positions; more says whether others
// follow.
func (h *history) add(steps []store.Step, more bool) {
	h.more = more
	if len(steps) == 0 {
		return
	}
	if h.branches == nil {
		h.branches = make(map[string][]store.Step)
	}
	for i := range steps {
		s := &steps[i]
		line, known := h.branches[s.Branch]
		if !known {
			h.lieAhead(s.Branch)
		}
		for len(line) <= s.Index {
			line = append(line, store.Step{})
		}
		line[s.Index] = *s
		h.branches[s.Branch] = line
		if counts(s) && !h.mayBeGone(s.Branch) {
			h.left++
		}
	}
	h.readTo = steps[len(steps)-1].Position
	h.last = max(h.last, h.readTo)
}

// lieAhead notes a recorded branch and those above it, unless the code has forked them. The
// branch of a cleanup is left out: when a run is restarted after a cancel, the code comes to
// operations that the cancel had kept from beginning, and the cleanup is behind them.
func (h *history) lieAhead(path string) {
	parent := ""
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' || path == "" {
			continue
		}
		below := path[:end]
		if ofCleanup(below) {
			return
		}
		if !h.forked[below] && !h.mayBeGone(below) {
			if h.ahead == nil {
				h.ahead = make(map[string]branchSet)
			}
			if h.ahead[parent] == nil {
				h.ahead[parent] = make(branchSet)
			}
			h.ahead[parent][below] = true
		}
		parent = below
	}
}

// ofCleanup reports whether a branch is that of a cleanup, or below one.
func ofCleanup(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if name, _, _ := strings.Cut(part, "#"); name == cleanupBranch {
			return true
		}
	}
	return false
}

// mayBeGone reports whether a branch is that of a graph's node, or below one, and the code has
// not forked it. Nodes may be removed from a graph.
func (h *history) mayBeGone(path string) bool {
	node, _, _ := strings.Cut(path, "/")
	return h.loose && node != "" && !h.forked[node]
}

// fork notes that the code has forked a branch.
func (h *history) fork(parent, path string) {
	if h.forked == nil {
		h.forked = make(branchSet)
	}
	if h.mayBeGone(path) {
		defer h.found(path)
	}
	h.forked[path] = true
	delete(h.ahead[parent], path)
}

// found counts what is recorded of a graph's node that the code still has.
func (h *history) found(node string) {
	only := branchSet{node: true}
	for branch, line := range h.branches {
		if !only.has(branch) {
			continue
		}
		h.lieAhead(branch)
		for i := range line {
			if counts(&line[i]) {
				h.left++
			}
		}
	}
}

// past returns a recorded operation that the code of a branch comes to only later: one of
// the branch itself from this index on, or one of a branch that it has not forked yet. Its
// answer is final when all of the history is read.
func (h *history) past(path string, index int) (key store.StepKey, ok bool) {
	if key, _, ok = h.rest(path, index); ok {
		return key, true
	}
	key, _, ok = h.next(path)
	return key, ok
}

// next returns the first recorded operation below a branch of which the code has not forked
// the branch yet, and its position.
func (h *history) next(path string) (key store.StepKey, position int64, ok bool) {
	below := h.ahead[path]
	if len(below) == 0 {
		return key, 0, false
	}
	position = math.MaxInt64
	for branch, line := range h.branches {
		if !below.has(branch) {
			continue
		}
		for i := range line {
			if line[i].Name != "" && line[i].Position < position {
				position, key = line[i].Position, line[i].StepKey
			}
		}
	}
	return key, position, true
}

// gap reports whether a position between two is not recorded. A retry, a restart or a fork
// has forgotten the operation there, or a worker has ended before it recorded the operation.
func (h *history) gap(after, before int64) bool {
	recorded := int64(0)
	for _, line := range h.branches {
		for i := range line {
			if line[i].Name != "" && line[i].Position > after && line[i].Position < before {
				recorded++
			}
		}
	}
	return recorded < before-after-1
}

// missed returns a recorded operation of a branch that the code should have forked before it
// begins the operation with this index in the branch above it. Nothing is missed if an
// operation may have been forgotten since the one before it: the code does that one again.
func (h *history) missed(path string, index int) (key store.StepKey, ok bool) {
	key, position, ok := h.next(path)
	if !ok {
		return key, false
	}
	line, after := h.branches[path], int64(0)
	if index < len(line) && line[index].Name != "" && line[index].Position < position {
		return key, false // the branch was forked while the operation was under way
	}
	for i := min(index, len(line)) - 1; i >= 0 && after == 0; i-- {
		if line[i].Position < position { // a later one was forgotten, and done again
			after = line[i].Position
		}
	}
	return key, !h.gap(after, position)
}

// at returns the recorded operation of a branch with this index; nil: it is not recorded,
// or not read yet (see more).
func (h *history) at(path string, index int) *store.Step {
	line := h.branches[path]
	if index >= len(line) || line[index].Name == "" {
		return nil
	}
	s := line[index]
	return &s
}

// visit notes that the code has reached an operation, and drops its payloads.
func (h *history) visit(path string, index int) {
	s := &h.branches[path][index]
	s.Output, s.Failure = nil, nil
	if h.come == nil {
		h.come = make(map[string]int)
	}
	h.come[path] = index + 1
	if counts(s) {
		h.left--
	}
	if h.left == 0 && h.replayed != nil {
		h.replayed()
	}
}

// unforked returns the first recorded operation of a branch that the code has not forked,
// though it has forked the one right above it, and the operation's position.
func (h *history) unforked() (key store.StepKey, position int64, ok bool) {
	position = math.MaxInt64
	for parent := range h.ahead {
		if parent != "" && !h.forked[parent] {
			continue
		}
		if k, at, below := h.next(parent); below && at < position {
			key, position, ok = k, at, true
		}
	}
	return key, position, ok
}

// forgot reports whether a branch has a later operation recorded and not an earlier one. A
// retry or a restart has forgotten that one: it failed, and the code handled the error.
func (h *history) forgot() bool {
	for _, line := range h.branches {
		if slices.ContainsFunc(line, func(s store.Step) bool { return s.Name == "" }) {
			return true
		}
	}
	return false
}

// rest returns the first recorded operation of a branch from this index on, and its position. Marks
// that code may leave out do not count.
func (h *history) rest(path string, index int) (key store.StepKey, position int64, ok bool) {
	line := h.branches[path]
	for i := index; i < len(line); i++ {
		if line[i].Name != "" && !isDeprecated(&line[i]) {
			return line[i].StepKey, line[i].Position, true
		}
	}
	return key, 0, false
}

// newPosition returns a position for an operation that is not recorded.
func (h *history) newPosition() int64 {
	h.last++
	return h.last
}

// empty reports whether nothing at all is recorded.
func (h *history) empty() bool { return len(h.branches) == 0 && !h.more }
