package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// Stranded returns the builds, by name, that have stranded runs: unfinished runs are pinned to
// them, and no worker of theirs is online. These runs are not claimed until a worker of
// their build starts, or they are unpinned.
//
// Like [Engine.Workers], it asks workers that have not reported for a while, and waits for
// the answers.
func (e *Engine) Stranded(ctx context.Context) ([]store.Build, error) {
	if _, err := e.alive(ctx, true, func(w *store.Worker) bool { return w.Build != "" }); err != nil {
		return nil, err
	}
	builds, err := e.Builds(ctx)
	return slices.DeleteFunc(builds, func(b store.Build) bool { return !stranded(&b) }), err
}

// stranded reports whether runs wait for a build in vain.
func stranded(b *store.Build) bool { return b.Pinned > 0 && b.Online == 0 }

// CheckBuilds returns an error that matches [store.ErrNotFound] and names the known builds if
// one of the names is not that of a build of the namespace. A build is known if a worker is
// registered with it, or if it recorded the last step of an unfinished run, or one is pinned
// to it.
func (e *Engine) CheckBuilds(ctx context.Context, names ...string) error {
	builds, err := e.Builds(ctx)
	if err != nil {
		return err
	}
	known := make([]string, len(builds))
	for i := range builds {
		known[i] = builds[i].Name
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("build %q in namespace %q: %w; %s", name, e.namespace, store.ErrNotFound, knownBuilds(known))
		}
	}
	return nil
}

// knownBuilds lists builds for an error, the first few of many.
func knownBuilds(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "no build is known: no worker is registered with one, and no unfinished run was recorded by one"
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	for i := range names {
		names[i] = fmt.Sprintf("%q", names[i])
	}
	return "the known builds are " + strings.Join(names, ", ") + more
}

// ofBuild are the workers that may take the run as far as its pin is concerned.
func (f *facts) ofBuild() []store.Worker {
	build := f.run.PinnedTo()
	if build == "" {
		return f.workers
	}
	return slices.DeleteFunc(slices.Clone(f.workers), func(w store.Worker) bool { return w.Build != build })
}

// isStranded reports whether the run is pinned to a build that no online worker has.
func (f *facts) isStranded() bool {
	return f.run.Pin != nil && !slices.ContainsFunc(f.ofBuild(), func(w store.Worker) bool { return w.Status == store.Online })
}

// stranded says that no worker of the run's build can claim it.
func (f *facts) stranded() bool {
	if !f.isStranded() {
		return false
	}
	f.say(ReasonStranded, "The run is due, but it is stranded: it is pinned to build %q, and no worker of that build is online.", f.run.Pin.Build)
	return true
}

// pin adds why the run is pinned, and what helps if no worker of its build is online.
func (f *facts) pin() {
	p := f.run.Pin
	if p == nil {
		return
	}
	switch {
	case p.Ramp:
		f.detail("it is pinned to build %q until a worker of that build claims it: build %q takes only a share of the new runs, and has left this one to build %q", p.Build, p.By, p.Build)
	case p.By == "":
		f.detail("it is pinned to build %q: its workflow asks to stay on the build that started it", p.Build)
	case p.Step == "":
		f.detail("it is pinned to build %q, which recorded its last step: build %q gave it back, because its code expected %s and found %s", p.Build, p.By, p.Expected, p.Found)
	default:
		f.detail("it is pinned to build %q, which recorded its last step: build %q gave it back at step %s, where its code expected %s and found %s", p.Build, p.By, p.Step, p.Expected, p.Found)
	}
	if !f.isStranded() {
		return
	}
	if f.x.Reason != ReasonStranded {
		f.detail("it is stranded: no worker of build %q is online", p.Build)
	}
	for _, w := range f.ofBuild() {
		f.detail("worker %q (host %s, process %d) of build %q is %s; it last reported at %s", w.ID, w.Host, w.PID, w.Build, w.Status, f.when(w.SeenAt))
	}
	if p.Ramp {
		f.act("wait up to five minutes: workers unpin such a run if no worker of its build is online")
	}
	f.act("start a worker of build %q: it takes the run at once", p.Build)
	f.act("unpin the run: a worker of any build tries it, and gives it back if its history does not fit")
	if p.Step != "" {
		f.act("restart it from a step: fork the run from step %s, so that a new run continues from there on any build", p.Step)
	} else {
		f.act("restart it from a step: fork the run, so that a new run continues from there on any build")
	}
	f.act("end the run: cancel it by force, because a cancel waits for a worker of build %q to clean up", p.Build)
}
