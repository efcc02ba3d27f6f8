package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tags are the business's own words for a run: names with values, such as customer=4711. A run gets
// them when it is created ([NewRun.Tags]), and its holder can replace them ([Commit.Tags]).
//
// P26: a run has its tags from the write that creates it, and other ones from the commit that
// replaces them, completely: a reader sees the tags of before or those of after, on the run as in
// every list. They stay when the run ends, is restarted or continues as new; its forks begin with
// them. They are deleted with the run.
type Tags map[string]string

// Bounds of tags.
const (
	MaxTags      = 16      // of a run, and of the matches of a filter
	MaxTagName   = 64      // bytes
	MaxTagValue  = MaxName // bytes
	MaxTagValues = 16      // of one match
)

// Validate checks the tags of a run: at most [MaxTags]. A name has 1 to [MaxTagName] bytes: ASCII
// letters and digits, and any of "-_./:". A value has 1 to [MaxTagValue] bytes and follows
// [ValidateName].
func (t Tags) Validate() error {
	if len(t) > MaxTags {
		return Invalid("tags", fmt.Sprintf("there are %d; a run has at most %d", len(t), MaxTags))
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if err := first(validateTagName(name), ValidateName(fmt.Sprintf("value of tag %q", name), t[name])); err != nil {
			return err
		}
	}
	return nil
}

func validateTagName(name string) error {
	switch {
	case name == "":
		return Invalid("tag", "its name is empty")
	case len(name) > MaxTagName:
		return Invalid("tag", fmt.Sprintf("its name %q has %d bytes; at most %d are allowed", clip(name), len(name), MaxTagName))
	case strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-_./:", c)
	}):
		return Invalid("tag", fmt.Sprintf("its name %q has other characters than ASCII letters, digits and -_./:", clip(name)))
	}
	return nil
}

// Clone returns a copy; nil if there are no tags.
func (t Tags) Clone() Tags {
	if len(t) == 0 {
		return nil
	}
	return maps.Clone(t)
}

// TagMatch selects runs by one of their tags.
type TagMatch struct {
	Name string
	// Values selects runs whose tag has any of these values, at most [MaxTagValues].
	Values []string `json:",omitempty"`
	// Prefix selects runs whose tag has a value that begins with it, byte by byte. With Values it is
	// ErrInvalid. With neither, all runs that have the tag are selected.
	Prefix string `json:",omitempty"`
}

// ParseTagMatches reads matches as people write them: name=value, name=prefix* or name. Values of one
// name are alternatives. It fails with ErrInvalid for name= without a value.
func ParseTagMatches(texts []string) (matches []TagMatch, err error) {
	for _, text := range texts {
		name, value, valued := strings.Cut(text, "=")
		m := TagMatch{Name: name}
		prefix, starred := strings.CutSuffix(value, "*")
		switch {
		case valued && value == "":
			return nil, Invalid("tag", fmt.Sprintf("%q has no value; leave out the = to select all runs that have the tag", clip(text)))
		case starred:
			m.Prefix = prefix
		case valued:
			i := slices.IndexFunc(matches, func(o TagMatch) bool { return o.Name == name && len(o.Values) > 0 })
			if i >= 0 {
				matches[i].Values = append(matches[i].Values, value)
				continue
			}
			m.Values = []string{value}
		}
		matches = append(matches, m)
	}
	return matches, nil
}

func (m *TagMatch) validate() error {
	err := validateTagName(m.Name)
	for _, v := range m.Values {
		err = first(err, ValidateName(fmt.Sprintf("value of tag %q", m.Name), v))
	}
	switch {
	case err != nil:
		return err
	case len(m.Values) > MaxTagValues:
		return Invalid("tags", fmt.Sprintf("a match of tag %q has %d values; at most %d are allowed", m.Name, len(m.Values), MaxTagValues))
	case len(m.Values) > 0 && m.Prefix != "":
		return Invalid("tags", fmt.Sprintf("a match of tag %q has both values and a prefix", m.Name))
	case len(m.Prefix) > MaxTagValue || !utf8.ValidString(m.Prefix) || strings.ContainsRune(m.Prefix, 0):
		return Invalid("tags", fmt.Sprintf("the prefix of tag %q is not valid UTF-8 text of at most %d bytes", m.Name, MaxTagValue))
	}
	return nil
}

// Matches reports whether a run with these tags is selected.
func (m *TagMatch) Matches(t Tags) bool {
	v, ok := t[m.Name]
	return ok && strings.HasPrefix(v, m.Prefix) && (len(m.Values) == 0 || slices.Contains(m.Values, v))
}

// MatchesTags reports whether a filter selects runs with these tags, as far as tags decide.
func (f *RunFilter) MatchesTags(t Tags) bool {
	return !slices.ContainsFunc(f.Tags, func(m TagMatch) bool { return !m.Matches(t) })
}

// ByTag returns the match whose index has the runs of a filter in the order of their creation: the
// first one with Values. It is nil if there is none, or if the filter selects few runs in another
// way.
func (f *RunFilter) ByTag() *TagMatch {
	if i := slices.IndexFunc(f.Tags, func(m TagMatch) bool { return len(m.Values) > 0 }); i >= 0 && !f.Few() {
		return &f.Tags[i]
	}
	return nil
}

func (f *RunFilter) validateTags() error {
	if len(f.Tags) > MaxTags {
		return Invalid("tags", fmt.Sprintf("a filter has %d matches; at most %d are allowed", len(f.Tags), MaxTags))
	}
	for i := range f.Tags {
		if err := f.Tags[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

// validateTags checks the tags that a commit sets.
func (c *Commit) validateTags() error {
	if c.Tags != nil && c.Transition != nil && c.Transition.Kind == GiveBack {
		return Invalid("commit", "a give back changes nothing of the run, and cannot set tags")
	}
	return c.Tags.Validate()
}

func (t Tags) size() (n int) {
	for name, value := range t {
		n += len(name) + len(value)
	}
	return n
}
