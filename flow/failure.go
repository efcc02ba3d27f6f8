package flow

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// NodeError says which node of a flow has failed, and why. A flow's run fails with it. To
// find the node in a run's recorded failure, use [FailedNode].
type NodeError struct {
	Node string // the node's name; "?" if the record does not say
	Err  error  // the node's own error; its code is that of the run's failure
}

// Error returns the node's name and its error. [FailedNode] reads the name from this text.
func (e *NodeError) Error() string { return nodePrefix + strconv.Quote(e.Node) + ": " + e.Err.Error() }

// Unwrap returns the node's own error.
func (e *NodeError) Unwrap() error { return e.Err }

const nodePrefix = "node "

// FailedNode returns the name of the node whose failure made a flow's run fail, from the run's
// recorded failure. ok is false for a nil failure and for failures of other kinds.
func FailedNode(f *store.Failure) (name string, ok bool) {
	if f == nil {
		return "", false
	}
	name, _, ok = cutNode(f.Message)
	return name, ok
}

// cutNode splits the text of a NodeError.
func cutNode(text string) (name, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, nodePrefix)
	if !ok {
		return "", "", false
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", false
	}
	if name, err = strconv.Unquote(quoted); err != nil {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(text[len(quoted):], ": ")
	return name, rest, ok
}

// nodeErrorOf makes a NodeError from its record.
func nodeErrorOf(f *store.Failure) *NodeError {
	name, rest, ok := cutNode(f.Message)
	if !ok {
		return &NodeError{Node: "?", Err: f}
	}
	own := *f
	own.Message = rest
	return &NodeError{Node: name, Err: &own}
}

// invalid makes an error about the flow.
func (b *builder) invalid(format string, args ...any) error {
	return store.Invalid(fmt.Sprintf("flow %q", b.name), fmt.Sprintf(format, args...))
}
