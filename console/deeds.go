package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/api/wire"
)

// A deed is something that a viewer can do to one thing, after a page that says what will happen.
type deed struct {
	Action string // its name in addresses, such as run-cancel
	Button string
	Title  string
	Danger bool
	needs  string // the action of the API
	// what says what will happen.
	what func(ctx context.Context, c *call, d *confirmData) error
	do   func(ctx context.Context, c *call) (done string, err error)
	// back is the page that follows.
	back func(c *call) (path string, query []any)
	// applies reports whether it makes sense for a run in its status; nil: it is not for runs.
	applies func(r *wire.Run) bool
}

func isFinal(status string) bool {
	return slices.Contains([]string{"completed", "failed", "canceled"}, status)
}

func (c *call) form(name string) string { return c.r.FormValue(name) }

func backToRun(c *call) (string, []any) { return "runs/" + c.form("run"), nil }

func backTo(path string) func(*call) (string, []any) {
	return func(*call) (string, []any) { return path, nil }
}

func backToSchedule(c *call) (string, []any) { return "schedule", []any{"name", c.form("name")} }

// deeds are all that can be done, in the order of the buttons on a page.
var deeds []deed

func init() { deeds = slices.Concat(runSteering, bulkDeeds(), workDeeds, limitDeeds, webhookDeeds) }

func deedOf(action string) (deed, bool) {
	i := slices.IndexFunc(deeds, func(d deed) bool { return d.Action == action })
	if i < 0 {
		return deed{}, false
	}
	return deeds[i], true
}

// runDeeds are those that make sense for a run and that the viewer may do.
func runDeeds(c *call, r *wire.Run) (list []deed) {
	for _, d := range runSteering {
		if c.may(d.needs) && d.applies(r) {
			list = append(list, d)
		}
	}
	return list
}

// forRun loads the run for the page that asks.
func forRun(say func(r *wire.Run, d *confirmData)) func(context.Context, *call, *confirmData) error {
	return func(ctx context.Context, c *call, d *confirmData) error {
		run, err := c.api.GetRun(ctx, c.form("run"), wire.GetRun{In: c.in, MaxPayload: 1})
		if err != nil {
			return err
		}
		d.Run = &run
		d.keep("run", run.ID)
		say(&run, d)
		return nil
	}
}

var runSteering = []deed{
	{
		Action: "run-signal", Button: "Send a signal", Title: "Send a signal", needs: "runs.signal", back: backToRun,
		applies: func(r *wire.Run) bool { return !isFinal(r.Status) },
		what: func(ctx context.Context, c *call, d *confirmData) error {
			err := forRun(func(r *wire.Run, d *confirmData) {
				d.say("The signal is put into the run's inbox. If the run waits for a signal of that name, it continues at once; otherwise the signal stays there until the run reads it.")
				d.say("A signal is read once and cannot be taken back.")
			})(ctx, c, d)
			if err != nil {
				return err
			}
			d.field("name", "Name of the signal", "", waitingFor(ctx, c), "")
			d.Fields = append(d.Fields, field{Name: "payload", Label: "Payload, as JSON", Area: true, Hint: "Leave it empty to send no payload."})
			return nil
		},
		do: sendSignal,
	},
	{
		Action: "run-pause", Button: "Pause", Title: "Pause this run", needs: "runs.pause", back: backToRun,
		applies: func(r *wire.Run) bool {
			return slices.Contains([]string{"pending", "running", "sleeping"}, r.Status) && !r.Pausing
		},
		what: forRun(func(r *wire.Run, d *confirmData) {
			if r.Status == "running" {
				d.say("A worker executes the run now. The step that is running ends normally and is recorded; then the run stops.")
			} else {
				d.say("The run stops where it is. No worker takes it until somebody resumes it.")
			}
			d.say("Times go on: a sleep that ends and a deadline that passes meanwhile count. Signals are kept.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.PauseRun(ctx, c.form("run"), c.opts()...)
			return "paused", err
		},
	},
	{
		Action: "run-resume", Button: "Resume", Title: "Resume this run", needs: "runs.pause", back: backToRun,
		applies: func(r *wire.Run) bool { return r.Status == "paused" || r.Pausing },
		what: forRun(func(_ *wire.Run, d *confirmData) {
			d.say("A worker takes the run as soon as it is due, and continues after the last recorded step.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.ResumeRun(ctx, c.form("run"), c.opts()...)
			return "resumed", err
		},
	},
	{
		Action: "run-restart", Button: "Restart", Title: "Restart this run", needs: "runs.restart", back: backToRun,
		applies: func(r *wire.Run) bool { return r.Status == "failed" || r.Status == "canceled" },
		what: forRun(func(_ *wire.Run, d *confirmData) {
			d.say("The run becomes pending again, with the same id and input. A worker executes it from the top.")
			d.say("Steps that completed are not executed again: their recorded outcomes are used. Steps that failed are tried again, and so is what was never reached.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.RestartRun(ctx, c.form("run"), c.opts()...)
			return "restarted", err
		},
	},
	{
		Action: "run-fork", Button: "Fork", Title: "Fork this run", needs: "runs.fork",
		applies: func(*wire.Run) bool { return true },
		back:    func(c *call) (string, []any) { return "runs/" + c.result, nil },
		what:    askFork,
		do:      fork,
	},
	{
		Action: "run-unpin", Button: "Unpin", Title: "Unpin this run", needs: "runs.unpin", back: backToRun,
		applies: func(r *wire.Run) bool { return r.Pin != nil && !isFinal(r.Status) },
		what: forRun(func(r *wire.Run, d *confirmData) {
			if r.Pin != nil {
				d.say("The run is no longer bound to build %q: a worker of any build may take it.", r.Pin.Build)
			}
			d.say("A worker whose code does not fit the run's history gives it back, and the run is pinned again. Nothing is lost.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.UnpinRun(ctx, c.form("run"), c.opts()...)
			return "unpinned", err
		},
	},
	{
		Action: "run-cancel", Button: "Cancel", Title: "Cancel this run", Danger: true, needs: "runs.cancel", back: backToRun,
		applies: func(r *wire.Run) bool { return !isFinal(r.Status) && r.Status != "canceling" },
		what: forRun(func(r *wire.Run, d *confirmData) {
			if r.Status == "running" {
				d.say("The worker that executes the run is told. The contexts of running steps end, and the run's cleanup is executed; then the run is canceled.")
			} else {
				d.say("A run that has recorded nothing ends at once. Any other is taken by a worker once more, so that its cleanup is executed; until then it is canceling.")
			}
			d.say("Its children are canceled with it, except those that were started to outlive it. Steps that completed are not undone, unless the workflow's cleanup does so.")
			d.field("reason", "Reason", "", nil, "It is recorded with the run, for others to read.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.CancelRun(ctx, c.form("run"), wire.Cancel{Reason: c.form("reason")}, c.opts()...)
			return "canceled", err
		},
	},
	{
		Action: "run-force-cancel", Button: "Cancel by force", Title: "Cancel this run by force", Danger: true, needs: "runs.cancel", back: backToRun,
		applies: func(r *wire.Run) bool { return r.Status == "canceling" || r.Pin != nil && !isFinal(r.Status) },
		what: forRun(func(r *wire.Run, d *confirmData) {
			d.say("The run ends at once as canceled. Its cleanup is NOT executed. A worker that executes it loses its lease, and what it does from now on is not recorded.")
			d.say("Its children are canceled with it, except those that were started to outlive it.")
			d.field("reason", "Reason", "", nil, "It is recorded with the run, for others to read.")
		}),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.CancelRun(ctx, c.form("run"), wire.Cancel{Reason: c.form("reason"), Force: true}, c.opts()...)
			return "canceled", err
		},
	},
}

// waitingFor lists the signals that the run waits for.
func waitingFor(ctx context.Context, c *call) (names []string) {
	page, err := c.api.ListSteps(ctx, c.form("run"), wire.ListSteps{In: c.in, Limit: 1000, MaxPayload: 1})
	if err != nil {
		return nil
	}
	for _, s := range page.Steps {
		if s.Kind == "signal" && s.Status == "running" && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

func sendSignal(ctx context.Context, c *call) (string, error) {
	s := wire.SendSignal{Name: c.form("name"), ID: c.form("once")}
	if text := strings.TrimSpace(c.form("payload")); text != "" {
		if s.Payload = []byte(text); !json.Valid(s.Payload) {
			return "", invalid("The payload is not valid JSON. A text needs quotation marks.")
		}
	}
	_, err := c.api.SendSignal(ctx, c.form("run"), s, c.opts()...)
	return "signaled", err
}

func askFork(ctx context.Context, c *call, d *confirmData) error {
	err := forRun(func(r *wire.Run, d *confirmData) {
		d.say("A new run of workflow %q starts with the same input. This run is not changed.", r.Workflow)
		d.say("The new run has the recorded outcomes of the steps before the one that you choose. That step and all later ones are executed again, with all their effects.")
	})(ctx, c, d)
	if err != nil {
		return err
	}
	page, err := c.api.ListSteps(ctx, c.form("run"), wire.ListSteps{In: c.in, Limit: 1000, MaxPayload: 1})
	if err != nil {
		return err
	}
	choices := []choice{{"0", "keep all completed steps"}}
	for _, s := range page.Steps {
		choices = append(choices, choice{fmt.Sprint(s.Position), fmt.Sprintf("from step %s (%s)", clip(80, s.Key), s.Status)})
	}
	d.Fields = append(d.Fields, field{Name: "position", Label: "Execute again", Choices: choices, Value: c.form("position")})
	return nil
}

func fork(ctx context.Context, c *call) (string, error) {
	var position int64
	if _, err := fmt.Sscan(c.form("position"), &position); err != nil {
		return "", invalid("%q is not the position of a step", c.form("position"))
	}
	forked, err := c.api.ForkRun(ctx, c.form("run"), wire.Fork{FromPosition: position, RunID: c.form("once")}, c.opts()...)
	c.result = forked.ID
	return "forked", err
}

// workDeeds are those on queues, workflows, schedules and workers.
var workDeeds = []deed{
	hold("queue", "pause", "No worker takes runs of this queue any more, until it is resumed. Runs that are being executed go on; those that sleep stay asleep."),
	hold("queue", "resume", "Workers take the runs of this queue again, those that are due at once."),
	hold("workflow", "pause", "No worker takes runs of this workflow any more, in whatever queue, until it is resumed. Runs that are being executed go on."),
	hold("workflow", "resume", "Workers take the runs of this workflow again, those that are due at once."),
	{
		Action: "schedule-pause", Button: "Pause", Title: "Pause the schedule", needs: "schedules.pause", back: backToSchedule,
		what: forName("The schedule starts no more runs until it is resumed. Times that pass meanwhile are not made up for. Runs that it has started are not affected."),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.PauseSchedule(ctx, c.form("name"), c.opts()...)
			return "schedule-paused", err
		},
	},
	{
		Action: "schedule-resume", Button: "Resume", Title: "Resume the schedule", needs: "schedules.pause", back: backToSchedule,
		what: forName("The schedule starts runs again, at its next time."),
		do: func(ctx context.Context, c *call) (string, error) {
			_, err := c.api.ResumeSchedule(ctx, c.form("name"), c.opts()...)
			return "schedule-resumed", err
		},
	},
	{
		Action: "schedule-trigger", Button: "Start a run now", Title: "Start a run of the schedule now", needs: "schedules.trigger", back: func(c *call) (string, []any) { return "runs/" + c.result, nil },
		what: forName("One run starts now, with the schedule's input and options. The schedule's own times do not change."),
		do: func(ctx context.Context, c *call) (string, error) {
			started, err := c.api.TriggerSchedule(ctx, c.form("name"), c.opts()...)
			c.result = started.ID
			return "triggered", err
		},
	},
	{
		Action: "schedule-delete", Button: "Delete", Title: "Delete the schedule", Danger: true, needs: "schedules.write", back: backTo("schedules"),
		what: forName("The schedule and the record of its firings are deleted. This cannot be undone. Runs that it has started are not affected. A program that puts the schedule when it starts will create it again."),
		do: func(ctx context.Context, c *call) (string, error) {
			return "deleted", c.api.DeleteSchedule(ctx, c.form("name"), c.opts()...)
		},
	},
	{
		Action: "worker-remove", Button: "Remove", Title: "Remove the worker's registration", Danger: true, needs: "workers.remove", back: backTo("workers"),
		what: forName("The worker is no longer listed. It is refused unless the worker is offline. Other workers take over its runs when their leases end, as they do anyway."),
		do: func(ctx context.Context, c *call) (string, error) {
			return "removed", c.api.RemoveWorker(ctx, c.form("name"), wire.RemoveWorker{In: c.in}, c.once()...)
		},
	},
}

func forName(what string) func(context.Context, *call, *confirmData) error {
	return func(_ context.Context, c *call, d *confirmData) error {
		d.Name = c.form("name")
		d.keep("name", d.Name)
		d.say("%s", what)
		return nil
	}
}

// hold makes the deed that pauses or resumes a queue or a workflow.
func hold(kind, verb, what string) deed {
	title, button := "Pause the "+kind, "Pause"
	if verb == "resume" {
		title, button = "Resume the "+kind, "Resume"
	}
	d := deed{Action: kind + "-" + verb, Button: button, Title: title, needs: kind + "s.pause", back: backTo(""), what: forName(what)}
	if kind == "workflow" {
		d.back = func(c *call) (string, []any) { return "workflow", []any{"name", c.form("name")} }
	}
	d.do = func(ctx context.Context, c *call) (string, error) {
		var err error
		name := c.form("name")
		switch d.Action {
		case "queue-pause":
			_, err = c.api.PauseQueue(ctx, name, c.opts()...)
		case "queue-resume":
			_, err = c.api.ResumeQueue(ctx, name, c.opts()...)
		case "workflow-pause":
			_, err = c.api.PauseWorkflow(ctx, name, c.opts()...)
		case "workflow-resume":
			_, err = c.api.ResumeWorkflow(ctx, name, c.opts()...)
		}
		return d.Action, err
	}
	return d
}
