package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// patience limits each of a Page's methods.
const patience = 30 * time.Second

// Page is a page of the browser. Its methods fail the test if the browser does not do what they ask
// within half a minute. They are for one goroutine.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// Open opens a page, which is closed after the test. The test fails if a script on the page throws or
// the page breaks its own Content-Security-Policy, if it opens a dialog, and if it logs an error.
func Open(t testing.TB) *Page {
	t.Helper()
	if !underRun {
		t.Fatal("browsertest: to share the browser, the package needs: func TestMain(m *testing.M) { browsertest.Run(m) }")
	}
	b, err := shared()
	if err != nil {
		giveUp(t, err)
	}
	p := &Page{t: t}
	ctx, cancel := chromedp.NewContext(b.root, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.listen))
	p.ctx = ctx
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // it waits until the page is closed
			t.Logf("browsertest: closing a page: %v", err)
		}
		cancel()
		for _, problem := range p.Problems() {
			t.Errorf("the browser reports: %s", problem)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // without a limit of time, which would be that of the page
		t.Fatal("browsertest: opening a page:", err)
	}
	p.run("opening a page", command(cdplog.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}), command(page.Enable, page.EnableParams{}))
	p.Size(1200, 900)
	return p
}

// listen notes what the browser reports. It must not call the browser.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.problems = append(p.problems, "a script threw: "+text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			p.problems = append(p.problems, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			var said []string
			for _, a := range e.Args {
				said = append(said, string(a.Value)+a.Description)
			}
			text := strings.Join(said, " ")
			if !strings.Contains(text, "AbortError") { // a request that ended because the test went to another page
				p.problems = append(p.problems, "console.error: "+text)
			}
		}
	case *page.EventJavascriptDialogOpening:
		p.problems = append(p.problems, "a dialog opened: "+e.Message)
		go func() {
			_, _ = chromedp.Call(p.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	}
}

// Problems returns what the browser has reported since the last call.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.problems
	p.problems = nil
	return list
}

type action = chromedp.Action[chromedp.Void]

// command makes an action of a command without a result.
func command[P, R any](c cdp.Command[P, R], params P) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// into makes an action that stores the result of another.
func into[T any](a chromedp.Action[T], result *T) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		*result, err = a(ctx, t)
		return err
	})
}

// run runs actions within the patience.
func (p *Page) run(what string, actions ...action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("browsertest: %s: %v\nthe page is %s", what, err, p.describe())
	}
}

// describe says for a failure what the page shows.
func (p *Page) describe() string {
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
	defer cancel()
	var where, text string
	err := chromedp.Do(ctx, into(chromedp.Location(), &where), into(chromedp.Evaluate[string](`document.body ? document.body.innerText.slice(0, 3000) : ""`), &text))
	return fmt.Sprintf("%s (%v):\n%s", where, err, text)
}

// Go opens an address, and returns the status of its answer.
func (p *Page) Go(url string) int {
	p.t.Helper()
	return p.load("opening "+url, chromedp.Navigate(url))
}

// load runs an action that leads to another page, and returns the status of its answer when it is loaded.
func (p *Page) load(what string, a action) int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	res, err := chromedp.RunResponse(ctx, a)
	if err != nil {
		p.t.Fatalf("browsertest: %s: %v\nthe page is %s", what, err, p.describe())
	}
	if res == nil {
		return http.StatusOK
	}
	return int(res.Status)
}

// Where returns the address of the page.
func (p *Page) Where() (url string) {
	p.t.Helper()
	p.run("reading the address", into(chromedp.Location(), &url))
	return url
}

// Click clicks the first element that a CSS selector finds, when it is visible.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.run("clicking "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Follow clicks an element that leads to another page, and returns the status of that page when it is
// loaded.
func (p *Page) Follow(selector string) int {
	p.t.Helper()
	return p.load("following "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// FollowText goes where the first visible link or button leads whose text contains a text, and returns the
// status of that page when it is loaded.
func (p *Page) FollowText(text string) int {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("(%s)(%s)", finder, quote(text)))
	return p.load("following "+text, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(%s)(%s).click()", finder, quote(text))))
}

// ClickText clicks the first visible link, button or summary whose text contains a text.
func (p *Page) ClickText(text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("(%s)(%s)", finder, quote(text)))
	p.run("clicking "+text, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(%s)(%s).click()", finder, quote(text))))
}

// finder is a function of JavaScript. It finds and its caller clicks at one moment: a page that updates
// itself might replace the element between two.
const finder = `text => [...document.querySelectorAll("a, button, summary")].find(e => e.textContent.includes(text) && e.checkVisibility())`

func quote(v any) []byte {
	quoted, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return quoted
}

// Fill replaces the value of a field.
func (p *Page) Fill(selector, value string) {
	p.t.Helper()
	p.run("filling "+selector, chromedp.SetValue(chromedp.CSS(selector), value, chromedp.NodeVisible))
}

// Type types text into a field, key by key.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.run("typing into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Keys that Press knows.
const (
	Tab    = kb.Tab
	Enter  = kb.Enter
	Escape = kb.Escape
)

// Press presses keys, whatever has the focus.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.run("pressing a key", chromedp.KeyEvent(keys))
}

// Text returns the visible text of the first element that a CSS selector finds.
func (p *Page) Text(selector string) (text string) {
	p.t.Helper()
	p.run("reading "+selector, into(chromedp.Text(chromedp.CSS(selector)), &text))
	return text
}

// HTML returns the page's present HTML.
func (p *Page) HTML() (html string) {
	p.t.Helper()
	p.run("reading the page", into(chromedp.OuterHTML(chromedp.CSS("html")), &html))
	return html
}

// Eval evaluates an expression on the page and returns its value.
func Eval[T any](p *Page, expression string) (value T) {
	p.t.Helper()
	p.run("evaluating "+expression, into(chromedp.Evaluate[T](expression), &value))
	return value
}

// WaitFor waits until an expression is true. It also waits over the load of another page.
func (p *Page) WaitFor(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && holds {
			return
		}
		if ctx.Err() != nil {
			p.t.Fatalf("browsertest: %s does not become true (%v)\nthe page is %s", expression, err, p.describe())
		}
		time.Sleep(testserver.Pause) // while a page is loaded, nothing tells
	}
}

// WaitText waits until the page shows a text.
func (p *Page) WaitText(text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("document.body && document.body.innerText.includes(%s)", quote(text)))
}

// Size sets the size of the window in CSS pixels.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	p.run("changing the size", command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	}))
}

// Dark sets whether the user prefers dark pages.
func (p *Page) Dark(dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.run("changing the colors", command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// Scripts turns JavaScript on or off, for the pages that are opened next.
func (p *Page) Scripts(on bool) {
	p.t.Helper()
	p.run("turning scripts on or off", command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}))
}

// Header sends a header with each request of the page.
func (p *Page) Header(name, value string) {
	p.t.Helper()
	p.run("setting a header", command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{name: value}}))
}

// Width returns how wide the page's content is, in CSS pixels. If it is more than the window, the page
// scrolls to the side.
func (p *Page) Width() int {
	p.t.Helper()
	return Eval[int](p, "document.documentElement.scrollWidth")
}

// Screenshot returns a picture of the window, as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var shot page.CaptureScreenshotResult
	p.run("taking a picture", chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		shot, err = cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		return err
	}))
	return shot.Data
}

// Violation is a rule of accessibility that a page breaks.
type Violation struct {
	Rule, Help string
	Elements   []string // the elements that break it, and how
}

// Audit checks the page with axe-core and returns what it finds: by all its rules, or by those that are named.
func (p *Page) Audit(rules ...string) (list []Violation) {
	p.t.Helper()
	text, err := axe()
	if err != nil {
		giveUp(p.t, err)
	}
	type finding struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	if !Eval[bool](p, "!!window.axe") {
		Eval[bool](p, text+"\n;true")
	}
	options := `{resultTypes: ["violations"]}`
	if len(rules) > 0 {
		options = fmt.Sprintf(`{resultTypes: ["violations"], runOnly: %s}`, quote(rules))
	}
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]finding](`axe.run(document, `+options+`).then(r =>
		r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})))`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("browsertest: checking accessibility: %v\nthe page is %s", err, p.describe())
	}
	for _, f := range found {
		v := Violation{Rule: f.ID, Help: f.Help}
		for _, n := range f.Nodes {
			v.Elements = append(v.Elements, n.HTML+"\n"+n.FailureSummary)
		}
		list = append(list, v)
	}
	return list
}

// Focused names what has the focus: its text, its label or its name.
func (p *Page) Focused() string {
	p.t.Helper()
	return Eval[string](p, `(() => {
		const e = document.activeElement;
		return !e || e === document.body ? "" : (e.innerText || e.getAttribute("aria-label") || e.name || e.id || e.tagName).trim();
	})()`)
}
