package console

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/api/wire"
)

// sparkline is the small picture of how many runs of a queue ended in each of the last minutes: a bar for a
// minute, with the failed ones at its foot.
type sparkline struct {
	Width, Height int
	Bars          []sparkBar
	Ended, Failed int64
	Capped        bool
	Summary       string // what it shows, for those who do not see it
}

type sparkBar struct {
	X, Y, H int
	Failed  bool
}

const (
	sparkHeight = 22
	sparkStep   = 4 // from bar to bar
)

func drawSparkline(q *wire.QueuePace, capped bool) *sparkline {
	s := &sparkline{Width: sparkStep * len(q.Ended), Height: sparkHeight, Capped: capped}
	most := max(1, slices.Max(append([]int64{0}, q.Ended...)))
	for i, n := range q.Ended {
		failed := min(q.Failed[i], n)
		s.Ended += n
		s.Failed += failed
		whole, foot := barHeight(n, most), barHeight(failed, most)
		if n > failed {
			s.Bars = append(s.Bars, sparkBar{X: i * sparkStep, Y: sparkHeight - whole, H: max(1, whole-foot)})
		}
		if failed > 0 {
			s.Bars = append(s.Bars, sparkBar{X: i * sparkStep, Y: sparkHeight - foot, H: foot, Failed: true})
		}
	}
	atLeast := ""
	if capped {
		atLeast = "at least "
	}
	s.Summary = fmt.Sprintf("In the last %d %s %s%s %s ended, %s of them failed; %s in the busiest minute.", len(q.Ended), plural(len(q.Ended), "minute", "minutes"),
		atLeast, count(s.Ended), plural(int(s.Ended), "run", "runs"), count(s.Failed), count(most))
	return s
}

// barHeight is the height of n in a picture in which most fills everything. What is there is seen.
func barHeight(n, most int64) int {
	if n == 0 {
		return 0
	}
	return max(2, int(n*sparkHeight/most))
}
