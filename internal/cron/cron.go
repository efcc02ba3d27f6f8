// Package cron reads the rules of schedules and works out their times.
package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/pawlhq/pawl/store"
)

// Rule is a cron expression, or an interval, in a time zone.
//
// A rule's times are those that a clock on the wall of its zone shows. When that
// clock is set forward or back,
//
//   - a rule that names its hours fires at each of its times once: one that does
//     not exist is fired at the end of the gap (several of them together, once), one
//     that comes twice the first time;
//   - a rule for every hour (*) goes on with the time that passes: it has no time in
//     a gap, and those of an hour that comes twice come twice.
//
// An interval (@every) is counted in time that passes and knows no wall clock.
type Rule struct {
	every time.Duration // of an interval; 0: the fields count
	loc   *time.Location

	second, minute, hour, dom, month, dow uint64
}

// star marks a field that was given as *.
const star = 1 << 63

// fields are the parts of an expression in their order.
var fields = []struct {
	name, allowed string
	option        robfig.ParseOption
}{
	{"second", "0 to 59", robfig.Second},
	{"minute", "0 to 59", robfig.Minute},
	{"hour", "0 to 23", robfig.Hour},
	{"day of month", "1 to 31", robfig.Dom},
	{"month", "1 to 12, or JAN to DEC", robfig.Month},
	{"day of week", "0 (Sunday) to 7 (Sunday, too), or SUN to SAT", robfig.Dow},
}

// Parse reads a rule: five fields (minute, hour, day of month, month, day of week),
// six with seconds first, a descriptor (@yearly, @monthly, @weekly, @daily, @hourly),
// or @every and a duration in whole seconds. zone is an IANA name; empty: UTC. What is
// wrong is reported as an [*store.InvalidError].
func Parse(spec, zone string) (Rule, error) {
	loc, err := location(zone)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{loc: loc}
	text := strings.TrimSpace(spec)
	bad := func(format string, args ...any) (Rule, error) {
		return Rule{}, store.Invalid("schedule expression", fmt.Sprintf("%q: ", clip(spec))+fmt.Sprintf(format, args...))
	}
	switch {
	case text == "":
		return bad("it is empty; give five fields, such as \"30 2 * * *\" for half past two every night, or @hourly, or \"@every 90s\"")
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return bad("the time zone does not belong into the expression; give it as the schedule's time zone")
	case text == "@every" || strings.HasPrefix(text, "@every "):
		value := strings.TrimSpace(strings.TrimPrefix(text, "@every"))
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return bad("%q is no duration; write it as in \"@every 1h30m\"", clip(value))
		case d < time.Second || d%time.Second != 0:
			return bad("%v is not one second or more, in whole seconds", d)
		}
		r.every = d
		return r, nil
	case strings.HasPrefix(text, "@"):
		parsed, err := robfig.NewParser(robfig.Descriptor).Parse(text)
		if err != nil {
			return bad("there is no descriptor of that name; there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and @every")
		}
		r.set(parsed.(*robfig.SpecSchedule))
		return r, nil
	}
	parts := strings.Fields(text)
	switch len(parts) {
	case 5:
		parts = append([]string{"0"}, parts...)
	case 6:
	default:
		return bad("it has %d fields; give five (minute, hour, day of month, month, day of week), or six with seconds first", len(parts))
	}
	for i, f := range fields {
		// Each field on its own, so that the error names it.
		field := parts[i]
		if f.option == robfig.Dow {
			field = sundays(field)
		}
		one, err := robfig.NewParser(f.option).Parse(field)
		if err != nil {
			return bad("its %s, %q, cannot be read: %v; allowed are %s, lists (1,15), ranges (1-5), steps (*/10)", f.name, clip(parts[i]), err, f.allowed)
		}
		if *r.at(i) = part(one.(*robfig.SpecSchedule), i); *r.at(i)&^star == 0 {
			return bad("its %s, %q, names no value; allowed are %s", f.name, clip(parts[i]), f.allowed)
		}
	}
	if !r.possible() {
		return bad("that day never comes: no month that it names has such a day; change its day of month, %q, or its month, %q", clip(parts[3]), clip(parts[4]))
	}
	return r, nil
}

func location(zone string) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	if zone == "Local" {
		return nil, store.Invalid("time zone", `"Local" differs from machine to machine; use an IANA name, such as "Europe/Berlin"`)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, store.Invalid("time zone", fmt.Sprintf("%q is unknown on this machine (%v); use an IANA name, such as \"Europe/Berlin\", and import time/tzdata if the system has no time zones", clip(zone), err))
	}
	return loc, nil
}

func (r *Rule) set(s *robfig.SpecSchedule) {
	for i := range fields {
		*r.at(i) = part(s, i)
	}
}

// at is the field of an index in fields.
func (r *Rule) at(i int) *uint64 {
	return []*uint64{&r.second, &r.minute, &r.hour, &r.dom, &r.month, &r.dow}[i]
}

func part(s *robfig.SpecSchedule, i int) uint64 {
	return []uint64{s.Second, s.Minute, s.Hour, s.Dom, s.Month, s.Dow}[i]
}

// possible tells whether there is any day that fits; the fields of the time of day
// always have one.
func (r *Rule) possible() bool {
	for m := time.January; m <= time.December; m++ {
		if r.month&(1<<m) == 0 {
			continue
		}
		days := time.Date(2024, m+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		// Where both days are restricted, either will do.
		if r.dom&star == 0 && r.dow&star == 0 || bits.TrailingZeros64(r.dom&^star) <= days {
			return true
		}
	}
	return false
}

// never is when a rule that is possible has fired for certain, which is every eight
// years at least: on 29 February.
const never = 9 * 366

// Next returns the rule's first time behind t. Of an interval, that is t and the
// interval.
func (r Rule) Next(t time.Time) time.Time {
	if r.every > 0 {
		return t.Add(r.every).UTC()
	}
	if r.hour&star != 0 {
		return r.nextPassing(t)
	}
	// The wall clock's times in their order, each with its first moment: these never
	// go back, so the first that lies behind t is the one.
	for wall := r.nextWall(shown(t, r.loc)); ; wall = r.nextWall(wall) {
		if at := moment(wall, r.loc); at.After(t) {
			return at.UTC()
		}
	}
}

// nextPassing is Next by the time that passes: in each stretch in which the zone has
// one offset, wall clock and time go alike.
func (r Rule) nextPassing(t time.Time) time.Time {
	for {
		local := t.In(r.loc)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		at := r.nextWall(shown(t, r.loc)).Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || at.Before(end) {
			return at
		}
		if wall := shown(end, r.loc); r.nextWall(wall.Add(-time.Nanosecond)).Equal(wall) {
			return end.UTC() // the next stretch's first moment
		}
		t = end
	}
}

// shown is what the wall clock of a zone shows, written as a time in UTC.
func shown(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// moment is when a wall clock first shows that time, or, if it never does, the end of
// the gap in which it lies.
func moment(wall time.Time, loc *time.Location) time.Time {
	y, m, d := wall.Date()
	at := time.Date(y, m, d, wall.Hour(), wall.Minute(), wall.Second(), 0, loc)
	start, end := at.ZoneBounds()
	switch seen := shown(at, loc); {
	case seen.After(wall): // in a gap, and at lies behind it
		return start
	case seen.Before(wall):
		return end
	}
	if !start.IsZero() { // the clock may have shown it before it was set back
		_, offset := start.Add(-time.Nanosecond).Zone()
		if before := wall.Add(-time.Duration(offset) * time.Second); before.Before(start) {
			return before
		}
	}
	return at
}

// nextWall is the first time of the fields behind t, both on a wall clock that is
// never set.
func (r Rule) nextWall(t time.Time) time.Time {
	t = t.Truncate(time.Second).Add(time.Second)
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	for range never {
		if r.fits(day) {
			if s, ok := r.inDay(t.Sub(day)); ok {
				return day.Add(s)
			}
		}
		day = day.AddDate(0, 0, 1)
		t = day
	}
	panic("cron: a possible rule has no time in nine years")
}

// fits tells whether the rule fires on a day. Where day of month and day of week are
// both restricted, either will do.
func (r Rule) fits(day time.Time) bool {
	if r.month&(1<<day.Month()) == 0 {
		return false
	}
	dom, dow := r.dom&(1<<day.Day()) != 0, r.dow&(1<<day.Weekday()) != 0
	if r.dom&star != 0 || r.dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}

// inDay returns the first time of day that fits and is not before from.
func (r Rule) inDay(from time.Duration) (time.Duration, bool) {
	h, m, s := uint(from/time.Hour), uint(from/time.Minute%60), uint(from/time.Second%60)
	for ; h < 24; h, m, s = h+1, 0, 0 {
		if r.hour&(1<<h) == 0 {
			continue
		}
		for ; m < 60; m, s = m+1, 0 {
			if r.minute&(1<<m) == 0 {
				continue
			}
			if s = s + uint(bits.TrailingZeros64(r.second&^star>>s)); s < 60 {
				return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second, true
			}
		}
	}
	return 0, false
}

// Upcoming returns the next n times behind t.
func (r Rule) Upcoming(t time.Time, n int) []time.Time {
	times := make([]time.Time, 0, max(n, 0))
	for range n {
		t = r.Next(t)
		times = append(times, t)
	}
	return times
}

// Latest returns the last n of the times from first, which is one of them, to now,
// in their order. Those before them cost nothing, however many they are.
func (r Rule) Latest(first, now time.Time, n int) []time.Time {
	if now.Before(first) || n < 1 {
		return nil
	}
	if r.every > 0 {
		due := int64(now.Sub(first)/r.every) + 1
		var times []time.Time
		for i := max(0, due-int64(n)); i < due; i++ {
			times = append(times, first.Add(time.Duration(i)*r.every).UTC())
		}
		return times
	}
	// Look back over twice the span each time, until there are enough.
	for span := time.Minute; ; span *= 2 {
		from := now.Add(-span)
		whole := !from.After(first)
		var times []time.Time
		if whole {
			from, times = first, []time.Time{first.UTC()}
		}
		for t := r.Next(from); !t.After(now); t = r.Next(t) {
			times = append(times, t)
		}
		if len(times) >= n {
			return times[len(times)-n:]
		}
		if whole {
			return times
		}
	}
}

// After returns the first time behind now of a rule that last came at t: an interval
// keeps its beat.
func (r Rule) After(t, now time.Time) time.Time {
	if r.every > 0 && !now.Before(t) {
		return t.Add((now.Sub(t)/r.every + 1) * r.every).UTC()
	}
	if now.After(t) {
		t = now
	}
	return r.Next(t)
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}

// sundays writes day 7, which is Sunday as 0 is, by days that the parser knows. What
// it does not understand it leaves to the parser to refuse.
func sundays(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		days, step, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(days, "-")
		switch {
		case days == "7" && !stepped, ranged && from == "7" && to == "7":
			items[i] = "0"
		case ranged && to == "7":
			items[i] = untilSunday(item, from, step, stepped)
		}
	}
	return strings.Join(items, ",")
}

// untilSunday lists the days of a range that ends with day 7.
func untilSunday(item, from, step string, stepped bool) string {
	first := slices.Index([]string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, strings.ToUpper(from))
	if n, err := strconv.Atoi(from); err == nil {
		first = n
	}
	by := 1
	if n, err := strconv.Atoi(step); stepped && err == nil {
		by = n
	} else if stepped {
		return item
	}
	if first < 0 || first > 7 || by < 1 {
		return item
	}
	var days []string
	for day := first; day <= 7; day += by {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}
