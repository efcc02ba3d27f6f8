package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawlhq/pawl/store"
)

func TestRateOfAWatch(t *testing.T) {
	begun := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int, ended, open int64) *store.Tree {
		return &store.Tree{
			Status: store.Running, StartedAt: begun, At: begun.Add(time.Duration(seconds) * time.Second),
			Levels: []store.TreeCounts{{Total: ended + open, Open: open, Completed: ended}},
		}
	}
	var s samples
	assert.Equal(t, 10.0, s.rate(at(100, 1000, 100)), "the average, as long as the watch has seen nothing")
	assert.Equal(t, 1010.0/101, s.rate(at(101, 1010, 90)), "and too little")
	assert.Equal(t, 1.0, s.rate(at(110, 1010, 90)), "that of the watch")
	assert.Equal(t, 0.0, s.rate(at(400, 1010, 90)), "a silence that is longer than the window")
	s.rate(at(405, 1010, 90))
	assert.Equal(t, 2.0, s.rate(at(465, 1140, 90)), "that of the window and of the look before it")
	assert.Less(t, len(s), 4, "older looks are forgotten")
	s.rate(at(490, 5, 1))
	assert.Len(t, s, 1, "counts that have fallen begin anew")

	p := Progress{Status: store.Running, TreeCounts: store.TreeCounts{Open: 90}, Rate: 2}
	p.estimate()
	assert.Equal(t, 45*time.Second, p.Left)
	for _, p := range []Progress{
		{Status: store.Completed, TreeCounts: store.TreeCounts{Open: 90}, Rate: 2}, {Status: store.Running, Rate: 2},
		{Status: store.Running, TreeCounts: store.TreeCounts{Open: 90}}, {Status: store.Running, TreeCounts: store.TreeCounts{Open: 90}, Rate: 2, Capped: true},
		{Status: store.Running, TreeCounts: store.TreeCounts{Open: 1 << 60}, Rate: 1e-9},
	} {
		p.estimate()
		assert.Zero(t, p.Left)
	}
}
