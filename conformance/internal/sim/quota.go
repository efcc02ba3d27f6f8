package sim

import "fmt"

// quotas are the least numbers of each fault and each rare branch in 1,000 seeds. They are far
// below the usual numbers, and above zero.
var quotas = map[string]int64{
	"error before":                       200,
	"error after":                        200,
	"delay":                              100,
	"hang":                               100,
	"late":                               200,
	"late after its context":             20,
	"hint lost":                          300,
	"crash before":                       10,
	"crash after":                        10,
	"killed":                             50,
	"killed by its step":                 5,
	"stopped and woken":                  20,
	"outage":                             15,
	"outage of all":                      15,
	"shut down":                          15,
	"clock wrong by an hour":             10,
	"down":                               200,
	"hang while stopped":                 20,
	"commit repeated":                    50,
	"commits shared a write":             5,
	"create repeated":                    10,
	"start sent again":                   10,
	"eager start":                        30,
	"external id taken":                  5,
	"claim found again":                  10,
	"takeover":                           50,
	"takeover by the holder itself":      10,
	"lease lost, by commit":              10,
	"lease lost, by extend":              10,
	"zombie fenced":                      1,
	"zombie told by extend":              5,
	"suspended and resumed":              300,
	"retry waits":                        200,
	"run tried again":                    20,
	"step failed for good":               50,
	"long step shown":                    100,
	"released":                           2,
	"poison":                             2,
	"wait given up":                      50,
	"canceled at once":                   5,
	"canceled while it waited":           5,
	"canceled while leased":              5,
	"feed: next run":                     200,
	"feed: signal to the active run":     200,
	"feed: start with a signal repeated": 200,
	"feed: input sent again by a client that forgot it": 100,
	"feed: input unread at the end":                     10,
	"feed: several inputs of a run":                     50,
	"feed: answered":                                    200,
	"feed: answered again":                              50,
	"feed: continued as new":                            100,
	"feed: child":                                       100,
	"world with a webhook":                              80,
	"webhook: delivered":                                1000,
	"webhook: delivered again":                          20,
	"webhook: request lost":                             20,
	"webhook: refused":                                  20,
	"webhook: answer lost":                              20,
	"feed: tree counted":                                50,
	"feed: folded":                                      30,
	"feed: reader at the end":                           100,
	"feed: reader discarded items":                      50,
	"failed: deadline":                                  10,
	"failed: panic":                                     10,
	"failed: gone":                                      5,
	"failed: timeout":                                   1,
	"failed: teapot":                                    3,
	"failed: error":                                     3,

	"world with limits":                 200,
	"permit given":                      3000,
	"last permit given":                 2000,
	"tokens given":                      500,
	"step waits for a permit":           1000,
	"step executed under a limit":       2000,
	"step's permit ended by its record": 1000,
	"takeover with permits":             100,
	"queue paused or resumed":           200,
}

// Missing returns the quotas that this number of seeds has not reached.
func (c *Counts) Missing(seeds int) []string {
	var missing []string
	for _, what := range c.names() {
		if want := quotas[what] * int64(seeds) / 1000; c.Of(what) < want {
			missing = append(missing, fmt.Sprintf("%q came %d times in %d seeds, expected at least %d", what, c.Of(what), seeds, want))
		}
	}
	return missing
}
