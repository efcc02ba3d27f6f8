package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// buildLine describes a build.
type buildLine struct {
	Build    string `json:"build"`
	Online   int64  `json:"online"`           // workers
	Draining int64  `json:"draining"`         // workers
	Runs     int64  `json:"runs"`             // unfinished ones whose last step it recorded
	Capped   bool   `json:"capped,omitempty"` // Runs is a lower bound
	Pinned   int64  `json:"pinned"`           // unfinished ones
	Stranded bool   `json:"stranded"`         // Pinned are not claimed: no worker is online
	// MayStop says that no run needs the workers of the build: none is pinned to it, and other
	// builds have online workers, or it has none. Reason says why, or why not.
	MayStop bool   `json:"may_stop"`
	Reason  string `json:"reason"`
}

// buildLines says of each build whether its workers may be stopped for good.
func buildLines(builds []store.Build) []buildLine {
	var online int64
	for _, b := range builds {
		online += b.Online
	}
	return each(builds, func(b store.Build) buildLine {
		l := buildLine{Build: b.Name, Online: b.Online, Draining: b.Workers - b.Online, Runs: b.Runs, Capped: b.Capped, Pinned: b.Pinned}
		runs := fmt.Sprintf("%s %s", group3(b.Pinned), plural(b.Pinned, "run"))
		if b.Pinned == 1 {
			runs += " is"
		} else {
			runs += " are"
		}
		switch {
		case b.Pinned > 0 && b.Online == 0:
			l.Stranded, l.Reason = true, runs+" stranded"
		case b.Pinned > 0:
			l.Reason = runs + " pinned to it"
		case b.Online == 0:
			l.MayStop, l.Reason = true, "it has no online worker, and no run is pinned to it"
		case b.Online == online:
			l.Reason = "no other build has an online worker"
		default:
			l.MayStop, l.Reason = true, "no run is pinned to it"
		}
		return l
	})
}

func (a *app) buildsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "builds [flags]",
		Short: "List builds, and whether their workers may be stopped",
		Long: `List the builds of the namespace: the identities of the code that workers run.
RUNS is the number of runs that are not final and whose last step the build
recorded; PINNED is the number of those that only its workers may claim. Pinned
runs of a build without an online worker are stranded.

MAY STOP answers whether the workers of the build may be stopped for good. It is
yes if no run is pinned to the build, and other builds have workers: these
continue its other runs. A run that then turns out not to fit their code is pinned
to the build, and 'pawl doctor' reports it.

Workers that have not reported for 20 seconds are asked first, as by 'pawl workers
list'.`,
		Example: "  pawl builds\n  pawl builds --json | jq -e '.builds[] | select(.build==\"v1\") | .may_stop'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			eng, err := a.engine(ctx)
			if err != nil {
				return err
			}
			if _, err := eng.Stranded(ctx); err != nil { // asks the workers
				return err
			}
			builds, err := eng.Builds(ctx)
			if err != nil {
				return err
			}
			lines := buildLines(builds)
			if a.json {
				return a.printJSON(struct {
					Builds []buildLine `json:"builds"`
				}{lines})
			}
			a.printTable(buildTable(lines), "Namespace %q has no builds yet.", eng.Namespace())
			return nil
		},
	}
}

func buildTable(lines []buildLine) *table {
	t := table{head: []string{"BUILD", "ONLINE", "DRAINING", "RUNS", "PINNED", "MAY STOP", "NOTE"}}
	for _, l := range lines {
		may, st := "yes", green
		if !l.MayStop {
			may, st = "no", yellow
		}
		if l.Stranded {
			st = red
		}
		t.add(text(l.Build), numberOrDot(l.Online), numberOrDot(l.Draining), atLeast(l.Runs, l.Capped), numberOrDot(l.Pinned), styled(st, may), styled(st, l.Reason))
	}
	return &t
}

// misfit says why a run was pinned, where a build gave it back.
func misfit(p *store.Pin) string {
	switch {
	case p.By == "":
		return ""
	case p.Ramp:
		return fmt.Sprintf(", left to it by the share of build %s", p.By)
	}
	at := ""
	if p.Step != "" {
		at = " at step " + p.Step
	}
	return fmt.Sprintf(", given back by build %s%s: expected %s, found %s", p.By, at, p.Expected, p.Found)
}

// byBuild is a selection of runs by what they are pinned to.
type byBuild struct {
	builds   []string
	stranded bool
}

func (b *byBuild) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.builds, "build", nil, "comma-separated `builds`; selects the runs that are pinned to one of them")
	f.BoolVar(&b.stranded, "stranded", false, "only stranded runs: not final, and pinned to a build that no online worker has")
	a.complete(cmd, "build", buildNames)
}

func (b *byBuild) given() bool { return len(b.builds) > 0 || b.stranded }

// longAgo is before every run was created.
var longAgo = time.UnixMicro(1)

// apply adds the selection to a filter.
func (b *byBuild) apply(ctx context.Context, eng *engine.Engine, f *store.RunFilter) error {
	if len(b.builds) > 0 {
		if err := eng.CheckBuilds(ctx, b.builds...); err != nil {
			return err
		}
		f.PinnedTo = b.builds
	}
	if !b.stranded {
		return nil
	}
	if len(f.Statuses) == 0 {
		f.Statuses = active
	}
	for _, s := range f.Statuses {
		if s.Final() {
			return usage("--stranded selects runs that are not final, but --status selects %s runs", s)
		}
	}
	builds, err := eng.Stranded(ctx)
	if err != nil {
		return err
	}
	f.PinnedTo = nil
	for _, s := range builds {
		if len(b.builds) == 0 || slices.Contains(b.builds, s.Name) {
			f.PinnedTo = append(f.PinnedTo, s.Name)
		}
	}
	if len(f.PinnedTo) == 0 { // no run is stranded, and an empty list would select all
		f.Pinned, f.CreatedBefore = true, longAgo
	}
	return nil
}

// says describes the selection.
func (b *byBuild) says() (s string) {
	if b.stranded {
		s += " that are stranded"
	}
	if len(b.builds) > 0 {
		s += " pinned to build " + strings.Join(b.builds, " or ")
	}
	return s
}

func buildNames(ctx context.Context, eng *engine.Engine, _ string) ([]string, error) {
	if eng == nil {
		return nil, nil
	}
	builds, err := eng.Builds(ctx)
	return each(builds, func(b store.Build) string {
		return fmt.Sprintf("%s\t%d pinned, %d online", b.Name, b.Pinned, b.Online)
	}), err
}

func (a *app) unpinCommand() *cobra.Command {
	return a.verbCommand(verb{
		name: "unpin", done: "unpinned", statuses: active,
		narrow: func(f *store.RunFilter) { f.Pinned = true },
		about: `Unpin runs, so that workers of any build may claim them. A worker tries the run,
and pins it again if its history does not fit. A run that is not pinned is an
error if it is named, and is not selected by flags.`,
		example: "  pawl runs unpin 0191a5c2-7e9a\n  pawl runs unpin --stranded --workflow mail\n  pawl runs unpin --build v1.4.1 --yes",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Unpin(ctx, id) },
		many:    (*engine.Engine).UnpinMany,
	})
}

// builds reports runs that wait for a build without workers.
func (d *doctor) builds(ctx context.Context, eng *engine.Engine) error {
	builds, err := eng.Stranded(ctx)
	if err != nil {
		return err
	}
	if len(builds) == 0 {
		d.found("builds", store.Fine, "", "no run is stranded")
		return nil
	}
	list := each(builds, func(b store.Build) string {
		return fmt.Sprintf("build %q (%s %s)", b.Name, group3(b.Pinned), plural(b.Pinned, "run"))
	})
	d.found("builds", store.Fault, "start workers of these builds, or let any build try the runs: pawl runs unpin --stranded; to list them: pawl runs list --stranded; to see why: pawl runs explain RUN",
		"runs are pinned to builds without an online worker: %s", few(list))
	return nil
}
