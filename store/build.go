package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Pin binds a run to a build (P19): only claims of that build take the run. The other fields are
// for the engine and for people. They give the reason, and are empty if the run's workflow asks to
// stay on the build that started it.
type Pin struct {
	Build string `json:"build"` // required; a name, as [ValidateName] checks it

	By       string `json:"by,omitempty"`       // the build that found that the history does not fit
	Step     string `json:"step,omitempty"`     // the step where it found that
	Expected string `json:"expected,omitempty"` // what the code asked for there
	Found    string `json:"found,omitempty"`    // what the history has there
	// Ramp says that By takes only a share of the new runs, and has left this one to Build. Nothing
	// is recorded of the run. Workers unpin it when one of Build claims it, or when none of Build
	// is online; for the store it is a pin like any other.
	Ramp bool `json:"ramp,omitempty"`
}

// MaxPin limits the size of the reason of a [Pin], in bytes: By, Step, Expected and Found together.
const MaxPin = 2048

func (p *Pin) validate() error {
	for _, s := range []string{p.By, p.Step, p.Expected, p.Found} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return Invalid("pin", fmt.Sprintf("%q is not valid UTF-8 text", clip(s)))
		}
	}
	return first(ValidateName("pin", p.Build), size("pin", len(p.By)+len(p.Step)+len(p.Expected)+len(p.Found), MaxPin))
}

// check is validate for a run that need not be pinned.
func (p *Pin) check() error {
	if p == nil {
		return nil
	}
	return p.validate()
}

// PinnedTo returns the build that the run is pinned to; empty: the run is not pinned.
func (r *Run) PinnedTo() string {
	if r.Pin == nil {
		return ""
	}
	return r.Pin.Build
}

// Takes reports whether the claim takes a run with that pin (P19).
func (p *ClaimParams) Takes(pin *Pin) bool { return pin == nil || pin.Build == p.Build }

// validatePin checks what a commit says of its run's pin.
func (c *Commit) validatePin() error {
	t := c.Transition
	gives := t != nil && t.Kind == GiveBack
	switch {
	case c.Pin == nil && gives:
		return Invalid("commit", "a commit that gives a run back must name a build in Pin")
	case c.Pin == nil:
		return nil
	case t != nil && (t.Kind.Final() || t.Kind == Continue):
		return Invalid("pin", "a "+t.Kind.String()+" removes the pin, so the commit cannot set one")
	case gives && (len(c.Steps) > 0 || len(c.State) > 0 || len(c.Spawn) > 0 || len(c.Consumed) > 0 || len(c.Answers) > 0):
		return Invalid("commit", "a commit that gives a run back cannot have steps, state, children, consumed signals or answers")
	case gives && c.Crashes != 0:
		return Invalid("commit", "a commit that gives a run back cannot set Crashes")
	}
	return c.Pin.validate()
}

// UnpinParams is the input of [Runs.Unpin].
type UnpinParams struct {
	Namespace string
	IDs       []ID
	Now       time.Time // of the Record
	Record    []Action  // of each run; see [Journal]
}

// Validate checks the call.
func (p *UnpinParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), batch("ids", len(p.IDs)), recordOf(p.Record, p.IDs))
}

// NotPinned is the error of [Runs.Unpin] for a run that is not pinned.
func NotPinned(id ID, status Status) error {
	return fmt.Errorf("run %v is %v and not pinned to a build, so there is nothing to unpin: %w", id, status, ErrConflict)
}

// Build is a build as [Registry.ListBuilds] returns it.
type Build struct {
	Name    string
	Workers int64 // workers registered with it that are online or draining
	Online  int64 // of these, the online ones; if zero, runs pinned to the build are stranded
	Pinned  int64 // unfinished runs that are pinned to it
	// Runs counts the unfinished runs whose last step a worker of this build recorded. Capped says
	// that the call did not look at all unfinished runs, so Runs is a lower bound.
	Runs   int64
	Capped bool
}

// ListBuildsParams is the input of [Registry.ListBuilds].
type ListBuildsParams struct {
	Namespace string
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
	MaxScan   int // how many unfinished runs to look at for Runs; 0: DefaultScan
	Now       time.Time
}

// BuildPage is a page of builds; Next is empty on the last one.
type BuildPage struct {
	Builds []Build
	Next   string
}

// Validate checks the call, without its cursor.
func (p *ListBuildsParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err, maxScan(p.MaxScan))
}

// Position decodes the cursor: the name of the last build seen.
func (p *ListBuildsParams) Position() (string, error) {
	pos, err := DecodeCursor(cursorBuilds, p.Namespace, p.Cursor)
	return string(pos), err
}

// NextCursor makes the cursor that continues after a page's last build.
func (p *ListBuildsParams) NextCursor(last string) string {
	return EncodeCursor(cursorBuilds, p.Namespace, []byte(last))
}

func validateBuilds(builds []string) error {
	for i, b := range builds {
		if err := ValidateName("build "+strconv.Itoa(i), b); err != nil {
			return err
		}
	}
	return batch("builds", len(builds))
}
