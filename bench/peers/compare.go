package peers

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Options are the size of a comparison.
type Options struct {
	Jobs int           // of a trial; a rate gets a part of them
	Hits int           // processes that are killed or stopped in a trial
	Reps int           // trials of an engine in a scenario
	Wait time.Duration // how long the last jobs of a trial may take
	Only string        // only engines and scenarios of which one contains this
	Log  io.Writer     // gets a line for each trial
	// Database makes a database. The function that it returns removes it.
	Database func(ctx context.Context) (url string, remove func(), err error)
}

// Compare lets each engine work in each scenario whose limit it offers, in turns.
func Compare(ctx context.Context, o Options) ([]Trial, error) {
	var all []Trial
	list := engines()
	for rep := range o.Reps {
		for s := range scenarios {
			for i := range list {
				e, sc := &list[(i+rep)%len(list)], &scenarios[s]
				if e.promises[sc.name] == "" || !strings.Contains(e.name, o.Only) && !strings.Contains(sc.name, o.Only) {
					continue
				}
				res, err := o.trial(ctx, e, sc)
				if err != nil {
					return all, fmt.Errorf("%s, %s: %w", e.name, sc.name, err)
				}
				fmt.Fprintf(o.Log, "%s, %s: %+v\n", res.Engine, res.Scenario, res.verdict)
				all = append(all, res)
			}
		}
	}
	return all, nil
}

func (o *Options) trial(ctx context.Context, e *engine, s *scenario) (Trial, error) {
	url, remove, err := o.Database(ctx)
	if err != nil {
		return Trial{}, err
	}
	defer remove()
	t := trial{Options: o, engine: e, scenario: s, url: url, jobs: max(1, o.Jobs/s.part)}
	return t.run(ctx)
}
