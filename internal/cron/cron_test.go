package cron_test

import (
	"fmt"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/cron"
	"github.com/pawlhq/pawl/store"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return v
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec, zone, from string
		want             []string
	}{
		{"30 2 * * *", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"}},
		{"*/20 * * * * *", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"}},
		{"0 9 * * MON-FRI", "", "2026-01-02T10:00:00Z", []string{"2026-01-05T09:00:00Z"}},
		{"0 0 13 * FRI", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"}},
		{"0 12 29 2 *", "", "2096-03-01T00:00:00Z", []string{"2104-02-29T12:00:00Z"}},
		{"0 12 31 * *", "", "2026-01-31T12:00:00Z", []string{"2026-03-31T12:00:00Z", "2026-05-31T12:00:00Z"}},
		{"@hourly", "", "2026-01-01T00:00:00.5Z", []string{"2026-01-01T01:00:00Z"}},
		{"@every 90s", "Europe/Berlin", "2026-01-01T00:00:10Z", []string{"2026-01-01T00:01:40Z", "2026-01-01T00:03:10Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", []string{"2026-07-01T01:00:00Z"}},

		// Berlin, 29 March 2026: 02:00 is followed by 03:00 (01:00 UTC).
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
		{"0,15,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"}},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"}},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
		// Berlin, 25 October 2026: 03:00 is followed by 02:00 (01:00 UTC).
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"}},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-24T21:00:00Z", []string{"2026-10-24T22:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"}},
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"@every 1h", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		// São Paulo, 4 November 2018: there was no midnight.
		{"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		// Lord Howe, by half an hour: 2026-04-05 02:00 is followed by 01:30.
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		{"45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"}},
		// Samoa had no 30 December 2011.
		{"0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T19:00:00Z"}},
	} {
		r, err := cron.Parse(tt.spec, tt.zone)
		require.NoError(t, err, tt.spec)
		var got []string
		for _, v := range r.Upcoming(at(t, tt.from), len(tt.want)) {
			got = append(got, v.Format(time.RFC3339Nano))
		}
		require.Equal(t, tt.want, got, "%s in %q from %s", tt.spec, tt.zone, tt.from)
	}
}

// Where no clock is set, the times are those of the library that reads the rules.
func TestAgreesWithTheParsersOwnTimes(t *testing.T) {
	t.Parallel()
	parser := robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow | robfig.Descriptor)
	for _, spec := range []string{
		"* * * * *", "*/7 * * * *", "5 4 * * *", "0 22 * * 1-5", "23 0-20/2 * * *", "0 0,12 1 */2 *", "0 4 8-14 * *", "0 0 1,15 * 3",
		"5 0 * 8 *", "15 14 1 * *", "0 0 29 2 *", "59 59 23 31 12 *", "*/11 3 5 * * SUN", "@monthly", "@weekly", "@yearly", "10,20 * ? * ?",
	} {
		mine, err := cron.Parse(spec, "")
		require.NoError(t, err, spec)
		theirs, err := parser.Parse("TZ=UTC " + spec)
		require.NoError(t, err, spec)
		from := time.Date(2026, 1, 30, 23, 58, 57, 5, time.UTC)
		a, b := from, from
		for range 500 {
			a, b = mine.Next(a), theirs.Next(b)
			if b.IsZero() {
				break
			}
			require.Equal(t, b, a, spec)
		}
	}
}

func TestTimesGrowAndFit(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"} {
		for _, spec := range []string{"*/15 * * * *", "*/15 0-5 * * *", "30 1,2 * * *", "0 */3 * * *"} {
			r, err := cron.Parse(spec, zone)
			require.NoError(t, err)
			last := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
			times := r.Upcoming(last, 3000)
			for _, v := range times {
				require.True(t, v.After(last), "%s in %s: %v follows %v", spec, zone, v, last)
				last = v
			}
			require.Equal(t, times[2500:], r.Latest(times[0], last.Add(time.Second), 500), "%s in %s", spec, zone)
		}
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	first := at(t, "2026-01-01T00:00:00Z")
	every, err := cron.Parse("@every 1s", "")
	require.NoError(t, err)
	hourly, err := cron.Parse("@hourly", "")
	require.NoError(t, err)
	later := first.AddDate(30, 0, 0)
	for _, r := range []cron.Rule{every, hourly} {
		require.Equal(t, []time.Time{later}, r.Latest(first, later, 1))
		require.Len(t, r.Latest(first, later, 1000), 1000)
		require.Equal(t, []time.Time{first}, r.Latest(first, first, 5))
		require.Empty(t, r.Latest(first, first.Add(-time.Nanosecond), 5))
		require.Empty(t, r.Latest(first, later, 0))
	}
	require.Equal(t, later.Add(time.Second), every.After(first, later))
	require.Equal(t, later.Add(time.Hour), hourly.After(first, later))
	require.Equal(t, first.Add(time.Hour), hourly.After(first, first.Add(-time.Minute)))
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ spec, zone, says string }{
		{"", "", `invalid schedule expression: "": it is empty; give five fields`},
		{"* * * *", "", `"* * * *": it has 4 fields; give five (minute, hour, day of month, month, day of week), or six with seconds first`},
		{"61 * * * *", "", `its minute, "61", cannot be read: end of range (61) above maximum (59): 61; allowed are 0 to 59, lists (1,15)`},
		{"0 24 * * *", "", `its hour, "24"`},
		{"0 0 * * 8", "", `allowed are 0 (Sunday) to 7 (Sunday, too), or SUN to SAT`},
		{"0 0 * FOO *", "", `its month, "FOO"`},
		{"0 0 , * *", "", `its day of month, ",", names no value`},
		{"a b c d e", "", `its minute, "a"`},
		{"0 0 30 2 *", "", `that day never comes: no month that it names has such a day; change its day of month, "30", or its month, "2"`},
		{"0 0 31 4,6,9,11 *", "", `that day never comes`},
		{"@never", "", `there is no descriptor of that name; there are @yearly`},
		{"@every", "", `"" is no duration; write it as in "@every 1h30m"`},
		{"@every soon", "", `"soon" is no duration`},
		{"@every 500ms", "", `500ms is not one second or more, in whole seconds`},
		{"@every -1h", "", `-1h0m0s is not one second or more`},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "", `give it as the schedule's time zone`},
		{"TZ=UTC", "", `give it as the schedule's time zone`},
		{"@daily", "Europe/Atlantis", `invalid time zone: "Europe/Atlantis" is unknown on this machine`},
		{"@daily", "Local", `"Local" differs from machine to machine`},
	} {
		_, err := cron.Parse(tt.spec, tt.zone)
		require.ErrorIs(t, err, store.ErrInvalid, tt.spec)
		require.ErrorContains(t, err, tt.says, tt.spec)
	}
}

func FuzzParse(f *testing.F) {
	for _, spec := range []string{"30 2 * * *", "*/20 1-5/2 * * * MON", "@every 90s", "@daily", "TZ=", "0 0 29 2 *", "1,,2 * * * *"} {
		f.Add(spec, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, spec, zone string) {
		r, err := cron.Parse(spec, zone)
		if err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			return
		}
		last := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
		for range 20 {
			next := r.Next(last)
			require.True(t, next.After(last), fmt.Sprint(next, last))
			last = next
		}
	})
}

// TestSundayIsSevenToo: day 7 is day 0, wherever it stands.
func TestSundayIsSevenToo(t *testing.T) {
	for seven, same := range map[string]string{
		"7": "0", "1-7": "*", "0-7": "*", "5-7": "0,5,6", "fri-7": "5,6,0", "7-7": "0", "1,7": "0,1", "1-7/2": "1,3,5,0", "0-7/7": "0", "2-7/5": "2,0", "MON-FRI": "1-5",
	} {
		got, err := cron.Parse("0 12 * * "+seven, "UTC")
		require.NoError(t, err, seven)
		want, err := cron.Parse("0 12 * * "+same, "UTC")
		require.NoError(t, err, same)
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			a, b := got.Next(at), want.Next(at)
			require.Equal(t, b, a, "%s and %s", seven, same)
			at = a
		}
	}
	for _, wrong := range []string{"8", "1-8", "7/2", "7-1", "x-7", "1-7/0", "1-7/x"} {
		_, err := cron.Parse("0 12 * * "+wrong, "UTC")
		require.Error(t, err, wrong)
		require.ErrorContains(t, err, wrong)
	}
}
