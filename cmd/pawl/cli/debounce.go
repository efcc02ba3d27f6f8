package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/engine"
)

// startDebounce is the key of a start, and how long starts delay its run.
type startDebounce struct {
	key    string
	atMost time.Duration
}

func (d *startDebounce) flags(f *pflag.FlagSet) {
	f.StringVar(&d.key, "debounce", "", "replace the workflow's run with this `key` that has not begun, and delay it again by --delay")
	f.Var(durationFlag{&d.atMost}, "at-most", "with --debounce: delay the run at most this `time` after its creation")
}

func (d *startDebounce) add(opts []engine.StartOption, quiet time.Duration) []engine.StartOption {
	if d.key == "" && d.atMost == 0 {
		return opts
	}
	return append(opts, engine.Debounce(d.key, quiet, d.atMost))
}

// found says which run a start has found.
func (d *startDebounce) found(externalID string) string {
	if d.key != "" {
		return fmt.Sprintf("The input of the run with key %q was replaced", clean(d.key))
	}
	return fmt.Sprintf("A run with external id %q already exists", clean(externalID))
}
