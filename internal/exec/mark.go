package exec

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// A mark is a decision of the workflow's code about which of its versions a run follows. It
// is an operation of its branch. Its record's name has a word before the mark's name: it is
// changedMark plus the name when the run follows the new path, and deprecatedMark plus the
// name when the code has that path alone.
const (
	changedMark    = "changed "
	deprecatedMark = "deprecated "
)

// CodeMark is the failure code of a run whose code uses a mark wrongly.
const CodeMark = "mark"

// markState says what a branch knows of a mark.
type markState int

const (
	markSkipped markState = 1 + iota // it is recorded, and the code has not asked for it yet
	markAsked                        // the code has asked for it
)

// isDeprecated reports whether a record is that of a mark which code may leave out.
func isDeprecated(s *store.Step) bool {
	return s.Kind == store.KindMark && strings.HasPrefix(s.Name, deprecatedMark)
}

// markName returns the name of the mark that a record is of; empty: it is of something else.
func markName(s *store.Step) string {
	if s.Kind != store.KindMark {
		return ""
	}
	_, name, _ := strings.Cut(s.Name, " ")
	return name
}

// Changed reports whether the run follows the code behind a mark: it comes to the mark for
// the first time, or did so before. False: the run's history is already past the mark. True
// is recorded. False is not: what the history has behind the mark says the same, and code
// without the mark can still read it.
func (b *Branch) Changed(name string) bool { return b.mark(changedMark, name) }

// Deprecated stands where a mark was whose old path is deleted. Code without it can read
// what it records.
func (b *Branch) Deprecated(name string) {
	if !b.mark(deprecatedMark, name) {
		b.inv.locked(func() { b.obsolete = name })
	}
}

// mark answers a mark, which is recorded with a prefix if the run comes to it for the first
// time.
func (b *Branch) mark(prefix, name string) bool {
	inv := b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	b.askLocked(prefix, name)
	s := b.comeToLocked(store.KindMark, name)
	switch {
	case b.marks[name] == markSkipped:
		b.marks[name] = markAsked
		return true
	case s != nil && markName(s) == name:
		b.marks[name] = markAsked
		inv.history.visit(b.path, b.next)
		b.uses[s.Name]++
		b.next++
		return true
	}
	b.marks[name] = markAsked
	if _, past := inv.history.past(b.path, b.next); past || inv.cfg.Whole {
		return false
	}
	o := &op{b: b, kind: store.KindMark, index: b.next, attempt: 1, position: inv.history.newPosition()}
	o.key = store.StepKey{Branch: b.path, Name: prefix + name, Occurrence: b.uses[prefix+name] + 1}
	b.next++
	b.uses[o.key.Name]++
	o.finishLocked(o.record(store.StepCompleted))
	return true
}

// askLocked fails the run, and ends the goroutine, if the branch cannot ask for the mark.
func (b *Branch) askLocked(prefix, name string) {
	err := b.freeLocked(name)
	if err == nil && name == "" {
		err = store.Invalid("mark", "it has no name")
	}
	if err == nil {
		err = store.ValidateName("mark", prefix+name)
	}
	if b.marks == nil {
		b.marks = make(map[string]markState)
	}
	if b.uses == nil {
		b.uses = make(map[string]int)
	}
	if err == nil && b.marks[name] == markAsked {
		err = fmt.Errorf("the code asks twice for mark %q in %s, and a branch decides a mark once. "+
			"In a loop, call workflow.Changed before the loop and use its answer in each turn; or name the mark after the turn, as in %q, "+
			"to decide in each turn anew. Give another change a mark of another name", name, b.describe(), name+" 2")
	}
	if err != nil {
		f := Fail(err)
		f.Code, f.Permanent = CodeMark, true
		b.inv.failLocked(f)
		exit()
	}
}

// comeToLocked returns what the history has at the place that the branch has come to; nil:
// nothing. It skips marks that code may leave out, except the one that is asked for.
func (b *Branch) comeToLocked(kind store.StepKind, name string) *store.Step {
	b.active = name
	defer func() { b.active = "" }()
	for {
		s := b.recordedLocked(b.next)
		if s == nil || !isDeprecated(s) || kind == store.KindMark && markName(s) == name {
			return s
		}
		if b.marks == nil {
			b.marks = make(map[string]markState)
		}
		if b.marks[markName(s)] == 0 {
			b.marks[markName(s)] = markSkipped
		}
		b.inv.history.visit(b.path, b.next)
		b.uses[s.Name]++
		b.next++
	}
}

// otherLocked fails a run whose history has another operation than the code asks for, and
// ends the goroutine.
func (b *Branch) otherLocked(o *op, s *store.Step) {
	hint := ""
	switch mark := markName(s); {
	case mark != "":
		hint = fmt.Sprintf("; the run follows the code behind mark %q: keep workflow.Changed(ctx, %q), or workflow.Deprecated(ctx, %q) in place of it, until no such run is left", mark, mark, mark)
	case b.obsolete != "":
		hint = fmt.Sprintf("; the run follows the code from before mark %q, which is deleted: run code that has workflow.Changed(ctx, %q)", b.obsolete, b.obsolete)
	}
	b.inv.mismatchLocked(misfit{s.StepKey.String(), fmt.Sprintf("%s %q", o.kind, o.key.Name), fmt.Sprintf("%s %q", s.Kind, s.Name)}, "operation %d of %s was recorded as %s %q, but the code now asks for %s %q%s",
		o.index+1, b.describe(), s.Kind, s.Name, o.kind, o.key.Name, hint)
}

// frontLocked fails a run, and ends the goroutine, if the code begins or resumes an operation
// while the history has a branch that it should have forked before. Otherwise the operation
// would be done under a history that does not fit. Values are let through: they have no side
// effect, and one that failed has left no record.
func (b *Branch) frontLocked(o *op) {
	if o.kind == store.KindValue || o.recorded != nil && o.recorded.Status.Final() {
		return
	}
	if key, missed := b.inv.history.missed(b.path, b.next); missed {
		b.inv.mismatchLocked(misfit{o.key.String(), fmt.Sprintf("%s %q", o.kind, o.key.Name), "step " + key.String()}, "the code now asks for %s %q as operation %d of %s, and the history has %s before it",
			o.kind, o.key.Name, o.index+1, b.describe(), key)
	}
}
