package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Run(m) }

func serve(t *testing.T, html string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		if r.URL.Path == "/script.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprint(w, `document.title = "scripted"`)
			return
		}
		_, _ = fmt.Fprint(w, html)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAPageIsOpenedReadAndAudited(t *testing.T) {
	p := Open(t)
	url := serve(t, `<!doctype html><html lang="en"><head><title>Still</title><script src="/script.js"></script></head><body><main><h1>Hello</h1><a href="/next">go on</a></main></body></html>`)
	if status := p.Go(url); status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
	if text := p.Text("h1"); text != "Hello" {
		t.Errorf("the heading says %q, want Hello", text)
	}
	p.WaitFor(`document.title === "scripted"`)
	p.FollowText("go on")
	if where := p.Where(); where != url+"/next" {
		t.Errorf("the page is %s, want /next", where)
	}
	if found := p.Audit(); len(found) != 0 {
		t.Errorf("axe finds %v on a page without faults", found)
	}
	if png := p.Screenshot(); !strings.HasPrefix(string(png), "\x89PNG") {
		t.Error("the picture is not a PNG")
	}
}

func TestFaultsOfAPageAreFound(t *testing.T) {
	p := Open(t)
	p.Go(serve(t, `<!doctype html><html><head><title>Bad</title></head><body><img src="/x.png"><script>window.ran = true</script></body></html>`))
	rules := fmt.Sprint(p.Audit())
	for _, rule := range []string{"html-has-lang", "image-alt"} {
		if !strings.Contains(rules, rule) {
			t.Errorf("axe does not find %s: %s", rule, rules)
		}
	}
	if problems := fmt.Sprint(p.Problems()); !strings.Contains(problems, "Content Security Policy") {
		t.Errorf("the inline script is not reported: %s", problems)
	}
}
