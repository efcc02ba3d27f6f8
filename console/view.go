package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
)

// A page is shown at one path.
type page struct {
	section  string // of the navigation
	template string
	live     bool // it updates itself
	load     func(*call) (any, error)
}

// A call is a request for a page.
type call struct {
	*console
	r    *http.Request
	ctx  context.Context // carries who asks, for the API
	in   wire.In
	info *wire.Info
	now  time.Time // the store's

	result  string // the id of what a deed has made
	outcome string // of a deed on many runs, in words
}

// space names the namespace of a call whose parameters do not have one.
func (c *call) space() []client.CallOption {
	if c.in.Namespace == "" {
		return nil
	}
	return []client.CallOption{client.Namespace(c.in.Namespace)}
}

// once makes a write of a form that is sent twice have one effect.
func (c *call) once() []client.CallOption {
	if key := c.form("once"); key != "" {
		return []client.CallOption{client.IdempotencyKey(key)}
	}
	return nil
}

func (c *call) opts() []client.CallOption { return append(c.space(), c.once()...) }

// pointer makes an answer one that may be absent.
func pointer[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// may reports whether the viewer may do something.
func (c *call) may(action string) bool { return c.info.Can[action] }

// view is what a template gets.
type view struct {
	Title    string // of the page, for the browser's list
	Site     string
	Section  string
	Template string
	Base     string // the relative path from the page to the console's root
	Self     string // the page's own address, relative to the root
	Live     bool
	Info     *wire.Info
	Now      time.Time
	Spaces   []string
	Space    string // the namespace in the address; empty: the API's own
	Notice   string
	CanLeave bool // sign out
	Data     any
}

// titled is data of a page that names the page.
type titled interface{ title() string }

var errNoPage = &wire.Problem{Status: http.StatusNotFound, Code: wire.CodeNotFound, Title: "Not found", Detail: "The console has no page of that address."}

func (c *console) call(r *http.Request) *call {
	in := wire.In{Namespace: r.URL.Query().Get("namespace")}
	return &call{console: c, r: r, ctx: client.WithRequest(r.Context(), r), in: in}
}

// show serves a page.
func (c *console) show(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.live && r.Header.Get("HX-Request") != "" {
			if body, ok := c.feeds.latest(c.identify(r), address(r)); ok {
				write(w, http.StatusOK, body)
				return
			}
		}
		status, body := c.render(c.call(r), p)
		write(w, status, body)
	})
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// address is that of a page, relative to the console's root.
func address(r *http.Request) string {
	a := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if r.URL.RawQuery != "" {
		a += "?" + r.URL.RawQuery
	}
	return a
}

// base is the relative path from a page to the console's root.
func base(r *http.Request) string {
	if up := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1); up != "" {
		return up
	}
	return "./"
}

// render renders a page or, if that fails, the page that says why.
func (c *console) render(call *call, p page) (status int, body []byte) {
	v := view{
		Site: c.title, Section: p.section, Template: p.template, Base: base(call.r), Self: address(call.r), Live: p.live,
		Space: call.in.Namespace, Now: time.Now(), CanLeave: c.signOut != nil, Notice: notices[call.r.URL.Query().Get("done")],
	}
	err := call.ask()
	if err == nil {
		v.Info, v.Spaces, v.Now = call.info, call.spaces(), call.now
		v.Data, err = p.load(call)
	}
	if err != nil {
		problem := problemOf(err)
		v.Live, v.Template = false, "error"
		v.Data = &failed{Problem: problem, SignIn: c.signIn != nil && problem.Status == http.StatusUnauthorized, Back: v.Self}
		status = problem.Status
	}
	return execute(v, max(status, http.StatusOK))
}

// execute makes a page of what is known.
func execute(v view, status int) (int, []byte) {
	if t, ok := v.Data.(titled); ok && v.Title == "" {
		v.Title = t.title()
	}
	var buf bytes.Buffer
	if err := templates[v.Template].ExecuteTemplate(&buf, "layout", v); err != nil {
		return http.StatusInternalServerError, []byte("console: " + template.HTMLEscapeString(err.Error()))
	}
	return status, sign(buf.Bytes())
}

// ask asks who the viewer is and what he may do.
func (c *call) ask() (err error) {
	if c.info, err = pointer(c.api.GetInfo(c.ctx, c.in)); err != nil {
		return err
	}
	if c.now = time.Now(); c.info.Now != nil {
		c.now = *c.info.Now
	}
	return nil
}

// spaces lists the namespaces that the viewer may choose from, if there are several.
func (c *call) spaces() []string {
	list, err := recall(&c.notes, c.identify(c.r), "namespaces", time.Minute, func() (wire.Namespaces, error) { return c.api.ListNamespaces(c.ctx) })
	if err != nil || len(list.Namespaces) < 2 {
		return nil
	}
	return list.Namespaces
}

// failed is the page of a problem.
type failed struct {
	*wire.Problem
	SignIn bool
	Back   string
	Error  string // of the sign-in
}

func (f *failed) title() string { return f.Problem.Title }

func problemOf(err error) *wire.Problem {
	var p *wire.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return &wire.Problem{Status: http.StatusGatewayTimeout, Title: "No answer in time", Detail: "The database did not answer in time. Try again."}
	}
	return &wire.Problem{Status: http.StatusInternalServerError, Title: "The console could not do that", Detail: err.Error()}
}

// URL returns the address of a page of the console, relative to the page that is shown, with a query of
// names and values. Empty values are left out. The namespace stays the same.
func (v view) URL(path string, query ...any) (string, error) {
	q := url.Values{}
	if v.Space != "" {
		q.Set("namespace", v.Space)
	}
	var flat []any // lists of names and values may stand among them
	for _, item := range query {
		if list, ok := item.([]any); ok {
			flat = append(flat, list...)
		} else {
			flat = append(flat, item)
		}
	}
	if len(flat)%2 != 0 {
		return "", fmt.Errorf("an odd number of names and values: %v", flat)
	}
	for i := 0; i < len(flat); i += 2 {
		if text := fmt.Sprint(flat[i+1]); text != "" {
			q.Add(fmt.Sprint(flat[i]), text)
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return v.Base + path, nil
}

// Pair makes the query of one name and its value, for shared templates.
func (v view) Pair(name string, value any) []any { return []any{name, value} }

// Asset returns the address of an asset.
func (v view) Asset(name string) string { return v.Base + "assets/" + name + "?v=" + assets[name].tag }

// Can reports whether the viewer may do something.
func (v view) Can(action string) bool { return v.Info != nil && v.Info.Can[action] }

// Feed is the address of the page's updates.
func (v view) Feed() string {
	return v.Base + "live?page=" + url.QueryEscape(v.Self) + "&seen=" + unsigned
}

// Here is the page's own address.
func (v view) Here() string { return v.Base + v.Self }

// Menu lists the sections that the viewer may read.
func (v view) Menu() (items []menuItem) {
	for _, m := range menu {
		if v.Can(m.needs) {
			items = append(items, m)
		}
	}
	return items
}

type menuItem struct{ Section, Path, Name, needs string }

var menu = []menuItem{
	{"overview", "", "Overview", "info.read"},
	{"runs", "runs", "Runs", "runs.read"},
	{"schedules", "schedules", "Schedules", "schedules.read"},
	{"workflows", "workflows", "Workflows", "workflows.read"},
	{"workers", "workers", "Workers", "workers.read"},
	{"builds", "builds", "Builds", "builds.read"},
	{"limits", "limits", "Limits", "limits.read"},
	{"webhooks", "webhooks", "Webhooks", "webhooks.read"},
	{"doctor", "doctor", "Doctor", "doctor.read"},
	{"journal", "journal", "Journal", "actions.read"},
}

var templates = loadTemplates()

// loadTemplates makes a template of each page: those whose names begin with an underscore are shared.
func loadTemplates() map[string]*template.Template {
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	isShared := func(f string) bool { return strings.HasPrefix(f, "templates/_") }
	shared := template.New("").Funcs(words)
	all := map[string]*template.Template{}
	for _, f := range files {
		if isShared(f) {
			template.Must(shared.ParseFS(templateFiles, f))
		}
	}
	for _, f := range slices.DeleteFunc(files, isShared) {
		name := strings.TrimSuffix(strings.TrimPrefix(f, "templates/"), ".html")
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, f))
	}
	return all
}
