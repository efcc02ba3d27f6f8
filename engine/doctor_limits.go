package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// longLimited is how long a run may wait under a full limit before it is reported.
const longLimited = time.Hour

// limits looks for limits that nobody uses, that hold runs back for long, or that cannot be kept.
func (d *doctor) limits(ctx context.Context) error {
	loads, err := d.e.LimitLoads(ctx)
	if errors.Is(err, store.ErrUnsupported) || len(loads) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defs, err := d.e.Definitions(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, def := range defs {
		for _, name := range def.Limits {
			used[name] = true
		}
	}
	now, err := d.e.store.Clock(ctx)
	if err != nil {
		return err
	}
	var idle, starved []string
	for _, l := range loads {
		switch {
		case l.Set != nil && l.Rule == (store.LimitRule{}) && l.Keys == 0 && !used[l.Name]:
			idle = append(idle, l.Name)
		case l.FullWaiting > 0 && now.Sub(l.Since) > longLimited:
			starved = append(starved, fmt.Sprintf("%s (%s, %s waiting, the oldest since %s)", l.Name, RuleText(l.Effective()), bound3(l.FullWaiting, l.Capped), d.ago(l.Since)))
		}
	}
	if len(starved) > 0 {
		d.found("limits", store.Warning, "if more may be at work at a time, raise the limit with pawl limits set; to see who holds it: pawl limits show LIMIT, and pawl runs explain RUN for a run that waits", "runs have waited for more than an hour under limits that are full: %s", few(starved))
	}
	if len(idle) > 0 {
		d.found("limits", store.Warning, "check the names; remove a limit that is not needed with pawl limits unset", "limits are set that no code has registered and that no run is under: %s", few(idle))
	}
	if len(starved)+len(idle) == 0 {
		d.found("limits", store.Fine, "", "no limit holds a run back for long")
	}
	return nil
}
