package console

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/api/wire"
)

// confirmData is the page that says what will happen, and asks.
type confirmData struct {
	deed
	Run     *wire.Run // that it is done to, if it is done to one
	Name    string    // of a queue, a workflow, a schedule, a worker, a limit or a webhook
	What    []string  // what will happen
	Fields  []field
	Hidden  []choice
	Back    string
	BackTo  []any
	Error   string
	Outcome string // of an action on many runs
	Filter  string
	Count   string
	None    bool
	Sample  []wire.Run
}

func (d *confirmData) title() string { return d.Title }

// field is one of a form.
type field struct {
	Name, Label, Value, Hint string
	Area                     bool
	Choices                  []choice
	Suggest                  []string
}

type choice struct{ Value, Text string }

func (d *confirmData) say(format string, args ...any) {
	d.What = append(d.What, fmt.Sprintf(format, args...))
}

func (d *confirmData) keep(name, value string) { d.Hidden = append(d.Hidden, choice{name, value}) }

func (d *confirmData) field(name, label, value string, suggest []string, hint string) {
	if value == "" && len(suggest) == 1 {
		value = suggest[0]
	}
	d.Fields = append(d.Fields, field{Name: name, Label: label, Value: value, Suggest: suggest, Hint: hint})
}

// confirm asks before something is done.
func confirm(c *call) (any, error) {
	_ = c.r.ParseForm()
	d, ok := deedOf(c.form("action"))
	if !ok {
		return nil, errNoPage
	}
	if !c.may(d.needs) {
		return nil, &wire.Problem{Status: http.StatusForbidden, Code: wire.CodeForbidden, Title: "You may not do that", Detail: "Your rights do not include " + d.needs + ".", Action: d.needs}
	}
	data := &confirmData{deed: d}
	data.keep("action", d.Action)
	data.keep("once", newKey())
	if err := d.what(c.ctx, c, data); err != nil {
		return nil, err
	}
	data.Back, data.BackTo = d.cancelTo(c)
	return data, nil
}

// cancelTo is the page to go back to without doing it.
func (d deed) cancelTo(c *call) (string, []any) {
	if run := c.form("run"); run != "" {
		return "runs/" + url.PathEscape(run), nil
	}
	if d.Action == "schedule-trigger" {
		return backToSchedule(c)
	}
	return d.back(c)
}

// do does it, and leads to the page that shows the result.
func (c *console) do(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<20)
	if err := r.ParseForm(); err != nil {
		status, body := c.render(c.call(r), problemPage(invalid("the form cannot be read: %v", err)))
		write(w, status, body)
		return
	}
	asked := c.call(r)
	err := asked.ask()
	d, ok := deedOf(asked.form("action"))
	if err == nil && !ok {
		err = errNoPage
	}
	done := ""
	if err == nil {
		done, err = d.do(asked.ctx, asked)
	}
	switch {
	case err != nil:
		c.refuse(w, asked, err)
	case asked.outcome != "":
		status, body := c.render(asked, page{section: "runs", template: "outcome", load: func(*call) (any, error) {
			path, query := d.back(asked)
			return &confirmData{deed: d, Outcome: asked.outcome, Back: path, BackTo: query}, nil
		}})
		write(w, status, body)
	default:
		path, query := d.back(asked)
		v := view{Base: base(r), Space: asked.in.Namespace}
		to, err := v.URL(path, append(query, "done", done)...)
		if err != nil {
			to = v.Base
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// refuse shows the form again with the reason why it was not done.
func (c *console) refuse(w http.ResponseWriter, asked *call, err error) {
	problem := problemOf(err)
	_, body := c.render(asked, page{template: "confirm", load: func(call *call) (any, error) {
		data, askErr := confirm(call)
		d, ok := data.(*confirmData)
		if askErr != nil || !ok {
			return nil, err
		}
		d.Error = problem.Title
		if problem.Detail != "" {
			d.Error = problem.Detail
		}
		for i := range d.Fields {
			d.Fields[i].Value = call.form(d.Fields[i].Name)
		}
		return d, nil
	}})
	write(w, problem.Status, body)
}

// notices are what the pages say after something was done.
var notices = map[string]string{
	"signaled": "The signal was sent.", "paused": "The run is paused, or stops after the running step.", "resumed": "The run was resumed.",
	"restarted": "The run was restarted.", "forked": "This is the new run.", "unpinned": "The run is no longer pinned.", "canceled": "The run is canceled, or will be when it has cleaned up.",
	"queue-pause": "The queue is paused.", "queue-resume": "The queue was resumed.", "workflow-pause": "The workflow is paused.", "workflow-resume": "The workflow was resumed.",
	"schedule-paused": "The schedule is paused.", "schedule-resumed": "The schedule was resumed.", "triggered": "The schedule has started this run.", "deleted": "The schedule was deleted.", "removed": "The registration was removed.",
	"limit-set": "What the limit allows was set.", "limit-unset": "What code has registered counts again.", "limit-weight": "The share of the key was set.", "webhook-deleted": "The subscription was deleted.",
}
