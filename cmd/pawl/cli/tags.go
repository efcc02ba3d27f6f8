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
	matches, err := store.ParseTagMatches(b.tags)
	f.Tags = append(f.Tags, matches...)
	return err
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
