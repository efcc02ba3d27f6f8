package peers

import (
	"context"
	"runtime/debug"
	"strings"
)

// An engine is Pawl or a peer.
type engine struct {
	name       string
	module     string            // whose version is told; empty: it has none
	promises   map[string]string // what its documentation says of a scenario's limit; scenarios without are left out
	processes  int
	perProcess bool // its limit counts for each process
	burst      int  // starts beyond the rate that its limit permits in a window
	prepare    func(ctx context.Context, url string) error
	open       func(ctx context.Context, url string, s *scenario) (client, error)
	work       func(ctx context.Context, w *worker) error // until ctx ends; calls w.ready when it works
}

// A client makes jobs.
type client interface {
	enqueue(ctx context.Context, jobs []job) error
	left(ctx context.Context) (int, error) // jobs that the engine has not recorded as done
	close()
}

func engines() []engine {
	return []engine{pawlEngine(false), pawlEngine(true), dbosEngine(false), dbosEngine(true), riverEngine(), handwrittenEngine(false), handwrittenEngine(true)}
}

// title is the engine's name with its version.
func (e *engine) title() string {
	product, variant, _ := strings.Cut(e.name, ",")
	if variant != "" {
		variant = "," + variant
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || e.module == "" {
		return e.name
	}
	for _, m := range info.Deps {
		if m.Path == e.module {
			return product + " " + strings.TrimPrefix(m.Version, "v") + variant
		}
	}
	return e.name
}
