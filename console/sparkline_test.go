package console

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/wire"
)

func TestSparkline(t *testing.T) {
	s := drawSparkline(&wire.QueuePace{Ended: []int64{0, 1000, 1, 500}, Failed: []int64{0, 0, 1, 250}}, false)
	require.Equal(t, []sparkBar{
		{X: 4, Y: 0, H: 22},
		{X: 8, Y: 20, H: 2, Failed: true}, // little is seen, too
		{X: 12, Y: 11, H: 6},
		{X: 12, Y: 17, H: 5, Failed: true},
	}, s.Bars)
	require.Equal(t, "In the last 4 minutes 1,501 runs ended, 251 of them failed; 1,000 in the busiest minute.", s.Summary)
	s = drawSparkline(&wire.QueuePace{Ended: []int64{1}, Failed: []int64{0}}, true)
	require.Equal(t, "In the last 1 minute at least 1 run ended, 0 of them failed; 1 in the busiest minute.", s.Summary)
}
