package console

import (
	"math"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

// timeline is the picture of a run's steps: one row for each step, in the order of their beginnings, and
// the time from left to right.
type timeline struct {
	Width, Height, Left, Right int
	Rows                       []timelineRow
	Ticks                      []tick
	Summary                    string // what it shows, for those who do not see it
}

type timelineRow struct {
	Step           wire.Step
	Y, TextY, BarY int
	X, W           float64
	Class, Took    string
	TookX          float64
	TookAnchor     string
	Odd            bool
	Attempts       []float64 // where failed attempts began
	Title, Label   string
}

type tick struct {
	X    float64
	Text string
}

const (
	rowHeight  = 26
	axisHeight = 24
	chartLeft  = 210
	chartWidth = 620
	chartRight = 90
)

// isWait reports whether a step of a kind waits for something outside of the run's code.
func isWait(kind string) bool {
	switch kind {
	case "sleep", "signal", "child", "map", "generator":
		return true
	}
	return false
}

// drawTimeline draws the steps that have times. It is nil if there are none.
func drawTimeline(steps []wire.Step, now time.Time) *timeline {
	var from, to time.Time
	for i := range steps {
		begin, end := extent(&steps[i], now)
		if begin.IsZero() {
			continue
		}
		if from.IsZero() || begin.Before(from) {
			from = begin
		}
		if end.After(to) {
			to = end
		}
	}
	if from.IsZero() {
		return nil
	}
	total := max(to.Sub(from), time.Millisecond)
	x := func(t time.Time) float64 {
		return chartLeft + math.Round(10*chartWidth*float64(t.Sub(from))/float64(total))/10
	}
	tl := &timeline{Left: chartLeft, Right: chartLeft + chartWidth, Width: chartLeft + chartWidth + chartRight}
	for i := range steps {
		s := &steps[i]
		begin, end := extent(s, now)
		if begin.IsZero() {
			continue
		}
		y := axisHeight + len(tl.Rows)*rowHeight
		row := timelineRow{Step: *s, Y: y, TextY: y + 17, BarY: y + 6, X: x(begin), Odd: len(tl.Rows)%2 == 1, Took: span(end.Sub(begin)), Label: clip(28, s.Key), Class: barClass(s)}
		row.W = max(x(end)-row.X, 3)
		row.TookX, row.TookAnchor = row.X+row.W+6, "start"
		for _, a := range s.Earlier {
			if a.StartedAt != nil {
				row.Attempts = append(row.Attempts, x(*a.StartedAt))
			}
		}
		row.Title = s.Key + ", " + s.Kind + ": " + s.Status + " after " + row.Took
		tl.Rows = append(tl.Rows, row)
	}
	tl.Height = axisHeight + len(tl.Rows)*rowHeight + 4
	for i := range 5 {
		part := time.Duration(float64(total) * float64(i) / 4)
		text := "0"
		if i > 0 {
			text = "+" + span(part)
		}
		tl.Ticks = append(tl.Ticks, tick{x(from.Add(part)), text})
	}
	tl.Summary = plural(len(tl.Rows), "Timeline of one step", "Timeline of "+count(len(tl.Rows))+" steps") + " over " + span(total)
	return tl
}

// extent is from when to when a step lasted, with its earlier attempts; up to now, if it has not ended.
func extent(s *wire.Step, now time.Time) (begin, end time.Time) {
	if s.StartedAt == nil {
		return begin, end
	}
	begin, end = *s.StartedAt, now
	for _, a := range s.Earlier {
		if a.StartedAt != nil && a.StartedAt.Before(begin) {
			begin = *a.StartedAt
		}
	}
	if s.FinishedAt != nil {
		end = *s.FinishedAt
	}
	if end.Before(begin) {
		end = begin
	}
	return begin, end
}

func barClass(s *wire.Step) string {
	switch {
	case s.Status == "failed":
		return "failed"
	case isWait(s.Kind) && s.Status == "running":
		return "wait open"
	case isWait(s.Kind):
		return "wait"
	case s.Status == "running", s.Status == "pending":
		return s.Status
	}
	return ""
}
