package overruns

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	work := func(run string, from, to int64) Work {
		return Work{Run: run, Uses: []string{"limit"}, From: from, To: to}
	}
	judge := func(all ...Work) (overruns, most int) {
		v := Judge(all, func(string) int { return 1 })
		return len(v.Overruns), v.Most["limit"]
	}
	for _, c := range []struct {
		name           string
		all            []Work
		overruns, most int
	}{
		{"nothing", nil, 0, 0},
		{"one after the other", []Work{work("a", 10, 20), work("b", 20, 30)}, 0, 1},
		{"at one time", []Work{work("a", 10, 20), work("b", 19, 30)}, 1, 2},
		{"one within the other", []Work{work("a", 10, 40), work("b", 20, 30), work("c", 25, 28)}, 2, 3},
		{"one run twice", []Work{work("a", 10, 40), work("a", 20, 30)}, 0, 1},
		{"one run twice, beside another after one of its ends", []Work{work("a", 10, 40), work("a", 20, 30), work("b", 35, 50)}, 1, 2},
		{"work that ends before it begins", []Work{work("a", 10, 20), work("b", 15, 15), work("c", 15, 10)}, 0, 1},
	} {
		overruns, most := judge(c.all...)
		require.Equal(t, c.overruns, overruns, c.name)
		require.Equal(t, c.most, most, c.name)
	}
	two := Work{Run: "a", Uses: []string{"limit", "other"}, From: 10, To: 20}
	v := Judge([]Work{two, {Run: "b", Uses: []string{"other"}, From: 10, To: 20}}, func(string) int { return 1 })
	require.Equal(t, map[string]int{"limit": 1, "other": 2}, v.Most)
	require.Len(t, v.Overruns, 1)
}

func TestMostWithin(t *testing.T) {
	for _, c := range []struct {
		times []int64
		want  int
	}{
		{nil, 0},
		{[]int64{5}, 1},
		{[]int64{0, 10}, 1},
		{[]int64{9, 0}, 2},
		{[]int64{0, 1, 2, 20, 25, 26, 29, 30}, 4},
	} {
		require.Equal(t, c.want, MostWithin(c.times, 10), "%v", c.times)
	}
}
