package peers

import "testing"

// TestVerdict proves that the check of the journals can fail.
func TestVerdict(t *testing.T) {
	begin := func(id, pid int, key string, from int64) line { return line{Job: id, Key: key, PID: pid, From: from} }
	whole := func(id, pid int, key string, from, to int64) []line {
		return []line{begin(id, pid, key, from), {Job: id, Key: key, PID: pid, From: from, To: to}}
	}
	join := func(lists ...[]line) (all []line) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	one, keyed, rate := &scenario{atOnce: 1}, &scenario{atOnce: 1, byKey: true}, &scenario{perSecond: 1}
	for _, c := range []struct {
		name     string
		engine   engine
		scenario *scenario
		lines    []line
		want     verdict
	}{
		{"one after the other", engine{}, one, join(whole(1, 1, "k", 10, 20), whole(2, 2, "k", 20, 30)),
			verdict{Most: 1, MostInAll: 1, PerSecond: 2, Surely: 2, AnyBegin: 2}},
		{"at one time", engine{}, one, join(whole(1, 1, "k", 10, 20), whole(2, 2, "k", 19, 30)),
			verdict{Most: 2, MostInAll: 2, Overruns: 1, PerSecond: 2, Surely: 2, AnyBegin: 2}},
		{"of two keys", engine{}, keyed, join(whole(1, 1, "k", 10, 20), whole(2, 2, "l", 19, 30)),
			verdict{Most: 1, MostInAll: 2, PerSecond: 2, Surely: 2, AnyBegin: 2}},
		{"of two processes", engine{perProcess: true}, one, join(whole(1, 1, "k", 10, 20), whole(2, 2, "k", 19, 30)),
			verdict{Most: 1, MostInAll: 2, PerSecond: 2, Surely: 2, AnyBegin: 2}},
		{"before the kill of the other", engine{}, one, join([]line{begin(1, 9, "k", 10)}, whole(2, 2, "k", 99, 110)),
			verdict{Most: 2, MostInAll: 2, Overruns: 1, PerSecond: 2, Surely: 2, AnyBegin: 2, Cut: 1}},
		{"after the kill of the other", engine{}, one, join([]line{begin(1, 9, "k", 10)}, whole(2, 2, "k", 100, 110)),
			verdict{Most: 1, MostInAll: 1, PerSecond: 2, Surely: 2, AnyBegin: 2, Cut: 1}},
		{"taken over, and beside the one that took over", engine{}, one, join(whole(1, 1, "k", 10, 80), whole(1, 2, "k", 40, 60), whole(2, 3, "k", 50, 55)),
			verdict{Most: 2, MostInAll: 2, Overruns: 1, PerSecond: 2, Surely: 2, AnyBegin: 3, Again: 1}},
		{"taken over, and after the one that took over", engine{}, one, join(whole(1, 1, "k", 10, 80), whole(1, 2, "k", 40, 60), whole(2, 3, "k", 60, 70)),
			verdict{Most: 1, MostInAll: 1, PerSecond: 2, Surely: 2, AnyBegin: 3, Again: 1}},
		{"a second apart", engine{}, rate, join(whole(1, 1, "k", 10, 20), whole(2, 2, "k", 1_000_009, 1_000_020), whole(3, 2, "k", 1_000_010, 1_000_030)),
			verdict{Most: 2, MostInAll: 2, PerSecond: 2, Surely: 2, AnyBegin: 2}},
		{"0.9 seconds apart", engine{}, rate, join(whole(1, 1, "k", 10, 20), whole(2, 2, "k", 900_010, 900_020)),
			verdict{Most: 1, MostInAll: 1, PerSecond: 2, Surely: 1, AnyBegin: 2}},
		{"what is given in the end", engine{}, one, join(whole(probeFrom, 1, "k", 10, 20), whole(probeFrom+1, 1, "k", 15, 30)),
			verdict{Given: 2}},
		{"keys that are given in the end", engine{}, keyed, join(whole(probeFrom, 1, "k", 10, 20), whole(probeFrom+1, 1, "l", 25, 30)),
			verdict{Given: 2}},
	} {
		if got := c.engine.judge(c.scenario, c.lines, map[int]int64{9: 100}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
