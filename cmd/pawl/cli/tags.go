package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/store"
)

// byTags selects runs by their tags.
type byTags struct{ tags []string }

func (b *byTags) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&b.tags, "tag", nil, "`tag`: name=value, name=prefix* or name; repeat it for further tags, or for further values of one tag, of which a run has any")
}

func (b *byTags) given() bool { return len(b.tags) > 0 }

// apply adds the tags to a filter. Values of one name are alternatives; different names must all
// match.
func (b *byTags) apply(f *store.RunFilter) error {
	for _, tag := range b.tags {
		name, value, valued := strings.Cut(tag, "=")
		m := store.TagMatch{Name: name}
		prefix, starred := strings.CutSuffix(value, "*")
		switch {
		case valued && value == "":
			return usage("--tag %q has no value; leave out the = to select all runs that have the tag", tag)
		case starred:
			m.Prefix = prefix
		case valued:
			i := slices.IndexFunc(f.Tags, func(o store.TagMatch) bool { return o.Name == name && len(o.Values) > 0 })
			if i >= 0 {
				f.Tags[i].Values = append(f.Tags[i].Values, value)
				continue
			}
			m.Values = []string{value}
		}
		f.Tags = append(f.Tags, m)
	}
	return nil
}

func (b *byTags) says() string {
	if len(b.tags) == 0 {
		return ""
	}
	return fmt.Sprintf(" with %s %s", plural(int64(len(b.tags)), "tag"), strings.Join(b.tags, ", "))
}

// tagsText shows tags, by name.
func tagsText(t store.Tags) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, name+"="+t[name])
	}
	return strings.Join(list, " ")
}
