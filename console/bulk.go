package console

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawlhq/pawl/api/wire"
)

// bulkAction is something that can be done to all runs that a filter selects.
type bulkAction struct {
	Verb, Button string
	Danger       bool
	needs        string
	final        bool // it is for runs that have ended
	what         string
}

// Action is its name in addresses.
func (b bulkAction) Action() string { return "runs-" + b.Verb }

// applies reports whether the action can change runs that a status selects.
func (b bulkAction) applies(status string) bool {
	switch status {
	case "", "active":
		return !b.final || status == ""
	case "paused":
		return b.Verb != "pause" && !b.final
	case "completed":
		return false
	case "final", "failed", "canceled":
		return b.final
	}
	return !b.final && b.Verb != "resume"
}

var bulkActions = []bulkAction{
	{Verb: "pause", Button: "Pause all", needs: "runs.pause", what: "Each of them stops where it is, until somebody resumes it. One that a worker executes stops after the running step."},
	{Verb: "resume", Button: "Resume all", needs: "runs.pause", what: "Each of them continues as soon as it is due and a worker takes it."},
	{Verb: "restart", Button: "Restart all", needs: "runs.restart", final: true, what: "Each of them becomes pending again and is executed from the top, using the recorded outcomes of the steps that completed. Only runs that failed or were canceled can be restarted."},
	{Verb: "cancel", Button: "Cancel all", Danger: true, needs: "runs.cancel", what: "Each of them is canceled, with its children. Those that have recorded something are taken by a worker once more, so that their cleanup is executed. A canceled run can be restarted; what its cleanup has undone stays undone."},
}

// bulkDeeds makes a deed of each action on many runs.
func bulkDeeds() (list []deed) {
	for _, b := range bulkActions {
		list = append(list, deed{
			Action: b.Action(), Button: b.Button, Title: b.Button[:len(b.Button)-len(" all")] + " many runs", Danger: b.Danger, needs: b.needs,
			back: func(c *call) (string, []any) { return "runs", filterOf(c.r.Form).Query() },
			what: b.ask,
			do:   b.do,
		})
	}
	return list
}

const mostBulk = 10_000 // runs that one action changes

// ask counts the runs, shows the first of them, and says what will happen.
func (b bulkAction) ask(ctx context.Context, c *call, d *confirmData) error {
	f := filterOf(c.r.Form)
	filter, err := f.api(c.now)
	if err != nil {
		return err
	}
	if f.Empty() {
		return invalid("choose at least one filter: an action on all runs of the namespace is not offered here")
	}
	counted, err := c.api.BulkRuns(ctx, wire.Bulk{Action: b.Verb, Filter: filter, DryRun: true}, c.space()...)
	if err != nil {
		return err
	}
	if len(filter.Status) == 0 && !b.final {
		filter.Status = []string{"active"}
	}
	sample, err := c.api.ListRuns(ctx, wire.ListRuns{In: c.in, RunFilter: filter, Limit: 10})
	if err != nil {
		return err
	}
	d.Sample, d.Filter = sample.Runs, f.Words()
	n := min(counted.Matched, mostBulk)
	d.Count = cappedCount(counted.Matched, counted.Capped)
	d.None = n == 0
	d.say("%s %s, at most: the runs %s.", count(n), plural(n, "run is changed", "runs are changed"), f.Words())
	d.say("%s", b.what)
	if counted.Capped || counted.Matched > mostBulk {
		d.say("There are more. The action ends after %s runs; repeat it for the rest.", count(n))
	}
	q := f.Query()
	for i := 0; i < len(q); i += 2 {
		if text := fmt.Sprint(q[i+1]); text != "" {
			d.keep(fmt.Sprint(q[i]), text)
		}
	}
	d.keep("at_most", strconv.FormatInt(n, 10))
	d.Button = fmt.Sprintf("%s %s %s", d.Button[:len(d.Button)-len(" all")], count(n), plural(n, "run", "runs"))
	if b.Verb == "cancel" {
		d.field("reason", "Reason", "", nil, "It is recorded with each run, for others to read.")
	}
	return nil
}

func (b bulkAction) do(ctx context.Context, c *call) (string, error) {
	f := filterOf(c.r.Form)
	filter, err := f.api(c.now)
	if err != nil {
		return "", err
	}
	most, err := strconv.ParseInt(c.form("at_most"), 10, 64)
	if err != nil || most < 1 || f.Empty() {
		return "", invalid("the form is not complete")
	}
	result, err := c.api.BulkRuns(ctx, wire.Bulk{Action: b.Verb, Filter: filter, Reason: c.form("reason"), AtMost: most}, c.opts()...)
	if err != nil {
		return "", err
	}
	c.outcome = fmt.Sprintf("%s: %s %s done", b.Button, count(result.Done), plural(result.Done, "run was", "runs were"))
	if result.Canceling > 0 {
		c.outcome += fmt.Sprintf(", of which %s still clean up", count(result.Canceling))
	}
	if result.Skipped > 0 {
		c.outcome += fmt.Sprintf("; %s had ended or changed meanwhile", count(result.Skipped))
	}
	c.outcome += "."
	return "", nil
}
