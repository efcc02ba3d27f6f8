package flow

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// NodeError says which node of a flow has failed, and why. It is the error of a flow's
// run; of what is recorded of that, [FailedNode] tells the node.
type NodeError struct {
	Node string
	Err  error // has the code that workflow.ErrorCode tells
}

func (e *NodeError) Error() string { return nodePrefix + strconv.Quote(e.Node) + ": " + e.Err.Error() }

// Unwrap gives the node's own error.
func (e *NodeError) Unwrap() error { return e.Err }

const nodePrefix = "node "

// FailedNode returns the name of the node by which a flow's run has failed; ok is false
// for failures of other kinds.
func FailedNode(f *store.Failure) (name string, ok bool) {
	if f == nil {
		return "", false
	}
	name, _, ok = cutNode(f.Message)
	return name, ok
}

// cutNode takes the text of a NodeError apart.
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

// nodeErrorOf makes a NodeError of its record.
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
