package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxViewers = 1000             // streams of a console
	heartbeat  = 15 * time.Second // between two signs of life on a stream
)

// feeds are the pages that somebody looks at now. Each is rendered at intervals, once for all who see
// the same, and its viewers are told when it has changed.
type feeds struct {
	console *console

	mu      sync.Mutex
	all     map[feedKey]*feed
	viewers int
}

type feedKey struct{ viewer, page string }

type feed struct {
	stop    context.CancelFunc
	body    []byte                // the latest
	seen    string                // the fingerprint of body
	viewers map[chan event]string // and of what each viewer has
}

type event string

const (
	changed event = "changed"
	gone    event = "gone" // the page cannot be shown any more: the viewer lost the right to see it
)

// latest returns the page as last rendered for its viewers.
func (f *feeds) latest(viewer, page string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	feed := f.all[feedKey{viewer, page}]
	if viewer == "" || feed == nil || feed.body == nil {
		return nil, false
	}
	return feed.body, true
}

// join adds a viewer to the feed of a page, which begins with its first viewer and ends with its last.
// seen is the fingerprint of what the viewer has. It returns false if there are too many viewers.
func (f *feeds) join(r *http.Request, key feedKey, seen string) (events chan event, leave func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.viewers >= maxViewers {
		return nil, nil, false
	}
	if f.all == nil {
		f.all = map[feedKey]*feed{}
	}
	it := f.all[key]
	if it == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
		it = &feed{stop: stop, viewers: map[chan event]string{}}
		f.all[key] = it
		go f.run(ctx, r, key, it)
	}
	events = make(chan event, 1) // one is enough: it says that something has changed
	it.viewers[events] = seen
	if it.seen != "" && it.seen != seen {
		events <- changed
		it.viewers[events] = it.seen
	}
	f.viewers++
	return events, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.viewers--
		delete(it.viewers, events)
		if len(it.viewers) == 0 {
			f.drop(key, it)
		}
	}, true
}

func (f *feeds) drop(key feedKey, it *feed) {
	it.stop()
	if f.all[key] == it {
		delete(f.all, key)
	}
}

// run renders a page at intervals until its viewers are gone.
func (f *feeds) run(ctx context.Context, r *http.Request, key feedKey, it *feed) {
	tick := time.NewTicker(f.console.refresh)
	defer tick.Stop()
	for {
		status, body := f.console.fetch(ctx, r, key.page)
		if ctx.Err() != nil || !f.tell(key, it, status, body) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell keeps the page and tells the viewers who have another. It returns false if the page is gone. An
// error of the server changes nothing: the database may be back soon.
func (f *feeds) tell(key feedKey, it *feed, status int, body []byte) (goes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := changed
	switch {
	case status == http.StatusOK:
		it.body, it.seen = body, fingerprintOf(body)
	case status >= 500:
		it.body = nil
		return true
	default:
		said, it.seen = gone, ""
		f.drop(key, it)
	}
	for viewer, seen := range it.viewers {
		if said == changed && seen == it.seen {
			continue
		}
		it.viewers[viewer] = it.seen
		select {
		case viewer <- said:
		default: // it has one to read already
		}
	}
	return said != gone
}

// unsigned stands in a page for its own fingerprint, until it is known.
const unsigned = "0000000000000000"

var signature = regexp.MustCompile(`&amp;seen=([0-9a-f]{16})"`)

// sign puts the fingerprint of a page into the address of its updates, so that a viewer is only told of
// what he does not have. The time of the page is not part of it.
func sign(body []byte) []byte {
	sum := sha256.Sum256(stripNow(body))
	return bytes.Replace(body, []byte("&amp;seen="+unsigned), []byte("&amp;seen="+hex.EncodeToString(sum[:8])), 1)
}

// fingerprintOf returns what sign has put into a page.
func fingerprintOf(body []byte) string {
	if m := signature.FindSubmatch(body); m != nil {
		return string(m[1])
	}
	return ""
}

// stripNow leaves out the time of the page, which changes always.
func stripNow(body []byte) []byte {
	before, rest, ok := bytes.Cut(body, []byte(`data-now="`))
	if !ok {
		return body
	}
	_, after, _ := bytes.Cut(rest, []byte(`"`))
	return slices.Concat(before, after)
}

// fetch renders a page for a viewer.
func (c *console) fetch(ctx context.Context, r *http.Request, page string) (status int, body []byte) {
	u, err := url.Parse("/" + page)
	if err != nil || u.Host != "" || u.Path == "/live" {
		return http.StatusBadRequest, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r2 := r.Clone(ctx)
	r2.Method, r2.URL, r2.RequestURI, r2.Body = http.MethodGet, u, u.RequestURI(), http.NoBody
	r2.Header.Del("HX-Request")
	rec := recorder{header: http.Header{}, status: http.StatusOK}
	c.mux.ServeHTTP(&rec, r2)
	return rec.status, rec.body.Bytes()
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// live tells a viewer when a page has changed, as server-sent events.
func (c *console) live(w http.ResponseWriter, r *http.Request) {
	page := r.URL.Query().Get("page")
	u, err := url.Parse("/" + page)
	if err != nil || u.Path == "/live" || strings.HasPrefix(page, "/") {
		http.Error(w, "which page?", http.StatusBadRequest)
		return
	}
	viewer := c.identify(r)
	if viewer == "" {
		viewer = fmt.Sprintf("%p", r) // shares with nobody
	}
	events, leave, ok := c.feeds.join(r, feedKey{viewer, page}, r.URL.Query().Get("seen"))
	if !ok {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // a server's limit is for answers that end
	say := func(text string) bool {
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for ok := say("retry: 3000\n\n"); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			ok = say(":\n\n")
		case e := <-events:
			ok = say(fmt.Sprintf("event: %s\ndata:\n\n", e)) && e != gone
		}
	}
}

// identify is the default of [Viewers].
func identify(r *http.Request) string {
	h := sha256.New()
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	_, _ = fmt.Fprintf(h, "%q %q %v", host, r.Host, r.Context().Value(http.LocalAddrContextKey))
	if r.TLS != nil {
		for _, cert := range r.TLS.PeerCertificates {
			_, _ = fmt.Fprintf(h, " %x", sha256.Sum256(cert.Raw))
		}
	}
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		if !tellsNothing(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		_, _ = fmt.Fprintf(h, "\n%q %q", name, r.Header[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tellsNothing reports whether a header says nothing about who sends it. Others might: proxies that
// authenticate users choose the names of their headers.
func tellsNothing(header string) bool {
	for _, prefix := range []string{"Accept", "Sec-", "Hx-", "If-", "Access-Control-Request-"} {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	switch header {
	case "User-Agent", "Referer", "Connection", "Cache-Control", "Pragma", "Upgrade-Insecure-Requests", "Priority", "Dnt", "Te", "Last-Event-Id", "Origin", "Range", "Content-Type", "Content-Length":
		return true
	}
	return false
}

// memory keeps answers that are expensive to get, for a short time, for all who see the same.
type memory struct {
	mu  sync.Mutex
	all map[feedKey]*note
}

type note struct {
	mu    sync.Mutex
	until time.Time
	value any
}

// recall returns what ask returns or has returned shortly before.
func recall[T any](m *memory, viewer, what string, keep time.Duration, ask func() (T, error)) (T, error) {
	if viewer == "" {
		return ask()
	}
	n := m.note(feedKey{viewer, what})
	n.mu.Lock() // others wait for the answer
	defer n.mu.Unlock()
	if value, ok := n.value.(T); ok && time.Now().Before(n.until) {
		return value, nil
	}
	value, err := ask()
	if err == nil {
		n.value, n.until = value, time.Now().Add(keep)
	}
	return value, err
}

func (m *memory) note(key feedKey) *note {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) > maxViewers { // of many viewers; begin again
		m.all = nil
	}
	if m.all == nil {
		m.all = map[feedKey]*note{}
	}
	if m.all[key] == nil {
		m.all[key] = &note{}
	}
	return m.all[key]
}
