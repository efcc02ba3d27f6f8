package storetier

import (
	"context"
	"regexp"

	"github.com/pawlhq/pawl/store"
)

// diagnoser returns the store's Diagnoser, or skips the case.
func (c *C) diagnoser() store.Diagnoser {
	c.Helper()
	d, ok := c.s.(store.Diagnoser)
	if !ok {
		c.Skip("the backend does not look for faults")
	}
	return d
}

var findingName = regexp.MustCompile(`^[a-z0-9]+( [a-z0-9]+)?$`)

var diagnoseCases = []Case{
	{"diagnose/nothing-wrong", "P16", "for a database that works, no fault is reported; each finding has a name and says what was seen, in the same order each time, and each problem has advice", func(c *C) {
		d := c.diagnoser()
		c.create(store.NewRun{})
		findings, err := d.Diagnose(c.ctx)
		c.ok("Diagnose", err)
		c.check(len(findings) > 0, "nothing was looked at")
		var names []string
		for _, f := range findings {
			names = append(names, f.Name)
			c.check(findingName.MatchString(f.Name), "the name %q is not one or two words in lower case", f.Name)
			c.check(f.Seen != "", "%s: it does not say what was seen", f.Name)
			c.check(f.Level == store.Fine || f.Advice != "", "%s is a %v without advice: %s", f.Name, f.Level, f.Seen)
			c.check(f.Level != store.Fault, "%s is a fault: %s (%s)", f.Name, f.Seen, f.Advice)
		}
		again, err := d.Diagnose(c.ctx)
		c.ok("Diagnose again", err)
		var second []string
		for _, f := range again {
			second = append(second, f.Name)
		}
		c.eq("names, again", second, names)
	}},
	{"diagnose/out-of-reach", "P16", "a diagnosis whose context has ended, or of a closed store, is an error", func(c *C) {
		d := c.diagnoser()
		ended, cancel := context.WithCancel(c.ctx)
		cancel()
		_, err := d.Diagnose(ended)
		c.fails("Diagnose in a context that has ended", err, context.Canceled)
		s := c.fresh()
		c.ok("Close", s.Close())
		_, err = s.(store.Diagnoser).Diagnose(c.ctx)
		c.fails("Diagnose of a closed store", err, store.ErrUnavailable)
	}},
}
