package storetier

import (
	"regexp"

	"github.com/pawlhq/pawl/store"
)

var countName = regexp.MustCompile(`^[a-z0-9]+([._][a-z0-9]+)*$`)

// counterCases check what a backend counts about itself, if it does.
var counterCases = []Case{
	{"features/counts", "", "Counts has the same counts each time, in the same order, each with a name, a unit and a sentence, and none of them shrinks", func(c *C) {
		counter, ok := c.s.(store.Counter)
		if !ok {
			return // it counts nothing, which is not a required ability
		}
		before := counter.Counts()
		for _, n := range before {
			c.check(countName.MatchString(n.Name), "the name %q is not of lower case with points or underscores", n.Name)
			c.check(n.About != "" && n.Unit != "", "%s: saw %+v, expected a sentence and a unit", n.Name, n)
		}
		c.create(store.NewRun{})
		after := counter.Counts()
		c.eq("counts afterwards", len(after), len(before))
		for i, n := range after {
			was := before[i]
			c.check(n.Value >= was.Value, "%s: saw %d after %d, expected it not to shrink", n.Name, n.Value, was.Value)
			n.Value, was.Value = 0, 0
			c.eq("what is counted", n, was)
		}
	}},
}
