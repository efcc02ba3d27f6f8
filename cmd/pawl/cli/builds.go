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
	Runs     int64  `json:"runs"`             // unfinished runs whose last step it recorded
	Capped   bool   `json:"capped,omitempty"` // Runs is a lower bound
	Pinned   int64  `json:"pinned"`           // unfinished runs pinned to it
	Stranded bool   `json:"stranded"`         // runs are pinned to it, but it has no online worker
	// MayStop reports whether the workers of the build may be stopped for good: no run is
	// pinned to it, and either another build has an online worker or this build has none.
	// Reason explains the answer.
	MayStop bool   `json:"may_stop"`
	Reason  string `json:"reason"`
}

// buildLines reports for each build whether its workers may be stopped for good.
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
		Long: `List the builds of the namespace. A build identifies the code that workers run.
RUNS counts the runs that are not final and whose last step the build recorded.
PINNED counts the runs that are not final and that only workers of the build may
claim. If the build has no online worker, its pinned runs are stranded.

MAY STOP says whether the workers of the build may be stopped for good. It is yes
if no run is pinned to the build, and another build has an online worker: workers
of other builds then continue its runs. If one of these runs does not fit their
code, it is pinned to the build, and 'pawl doctor' reports it.

Like 'pawl workers list', the command first asks the workers that have not
reported for 20 seconds.`,
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

// misfit describes why a build gave a run back and pinned it to another build.
func misfit(p *store.Pin) string {
	switch {
	case p.By == "":
		return ""
	case p.Ramp:
		return fmt.Sprintf(": build %s takes only a share of the new runs", p.By)
	}
	at := ""
	if p.Step != "" {
		at = " at step " + p.Step
	}
	return fmt.Sprintf(", given back by build %s%s: expected %s, found %s", p.By, at, p.Expected, p.Found)
}

// byBuild selects runs by the build that they are pinned to.
type byBuild struct {
	builds   []string
	stranded bool
}

func (b *byBuild) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.builds, "build", nil, "comma-separated `builds`: only runs pinned to one of them")
	f.BoolVar(&b.stranded, "stranded", false, "only stranded runs: not final, and pinned to a build without an online worker")
	a.complete(cmd, "build", buildNames)
}

func (b *byBuild) given() bool { return len(b.builds) > 0 || b.stranded }

// longAgo is a time before the creation of any run.
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
and pins it again if its history does not fit the worker's code. Naming a run that
is not pinned is an error. Flags select only pinned runs.`,
		example: "  pawl runs unpin 0191a5c2-7e9a\n  pawl runs unpin --stranded --workflow mail\n  pawl runs unpin --build v1.4.1 --yes",
		one:     func(ctx context.Context, eng *engine.Engine, id store.ID) error { return eng.Unpin(ctx, id) },
		many:    (*engine.Engine).UnpinMany,
	})
}
