package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/wire"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 42 * time.Microsecond: "42 µs", 350 * time.Millisecond: "350 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s",
		61 * time.Second: "1 min 1 s", time.Hour: "1 h", 3*time.Hour + 20*time.Minute: "3 h 20 min", 25 * time.Hour: "1 d 1 h", 400 * time.Hour: "16 d", -time.Minute: "1 min",
	} {
		require.Equal(t, want, span(d))
	}
}

func TestTimesOfSchedulesInWords(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := time.Date(2026, 11, 25, 22, 30, 0, 0, time.UTC) // 23:30 in Berlin
	for at, want := range map[time.Duration]string{
		10 * time.Minute: "today at 23:40", time.Hour: "tomorrow at 00:30", 50 * time.Hour: "Saturday at 01:30", 200 * time.Hour: "Friday, 4 December 2026 at 07:30",
		-30 * time.Hour: "Tuesday, 24 November 2026 at 17:30", time.Hour + 5*time.Second: "tomorrow at 00:30:05",
	} {
		require.Equal(t, want, dayWords(now.Add(at), now, berlin))
	}
}

func TestTimesOfFilters(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-11-25T10:30:00Z", "7d": "2026-11-18T12:00:00Z", "1.5d": "2026-11-24T00:00:00Z", "2026-11-01": "2026-11-01T00:00:00Z",
		"2026-11-01 14:30": "2026-11-01T14:30:00Z", "2026-11-01T14:30:05+01:00": "2026-11-01T13:30:05Z",
	} {
		at, err := timeOf(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, at.Format(time.RFC3339), text)
	}
	for _, text := range []string{"yesterday", "d", "12", "2026-13-01"} {
		_, err := timeOf(text, now)
		require.Error(t, err, text)
	}
}

func TestFilterSurvivesItsAddress(t *testing.T) {
	q := url.Values{"status": {"failed"}, "workflow": {" a&b=c"}, "queue": {"q"}, "external_id": {"e"}, "tags": {"a=b, c"}, "error": {"boom"}, "code": {"c"}, "step": {"s"}, "id": {"01a2"}, "after": {"24h"},
		"before": {"1h"}, "ended_after": {"2d"}, "ended_before": {"1d"}, "attempts": {"3"}, "parent": {"p"}, "build": {"v1"}, "stranded": {"1"}}
	f := filterOf(q)
	address, err := view{Base: "./"}.URL("runs", f.Query())
	require.NoError(t, err)
	u, err := url.Parse(address)
	require.NoError(t, err)
	require.Equal(t, f, filterOf(u.Query()))
	require.Equal(t, q, u.Query())
	require.False(t, f.Empty())
	for name := range q {
		require.NotEmpty(t, filterOf(url.Values{name: q[name]}).Words(), "%s is said in words", name)
	}
}

func TestAddressesStayInside(t *testing.T) {
	for _, a := range []string{"//evil.example.com", "/\\evil.example.com", "https://evil.example.com", "javascript:alert(1)", "../../other", "\\\\evil"} {
		require.Empty(t, inside(a), a)
	}
	for _, a := range []string{"", "runs/01a2", "runs?error=http://x/../y", "schedule?name=a:b"} {
		require.Equal(t, a, inside(a))
	}
}

func TestBaseLeadsToTheRoot(t *testing.T) {
	for path, want := range map[string]string{"/": "./", "/runs": "./", "/runs/1": "../", "/runs/a%2Fb": "../", "/a/b/c": "../../"} {
		require.Equal(t, want, base(httptest.NewRequest("GET", path, nil)), path)
	}
}

// TestViewersAreToldApart: whatever may say who somebody is keeps him apart from others.
func TestViewersAreToldApart(t *testing.T) {
	request := func(name, value string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User-Agent", "a browser")
		if name != "" {
			r.Header.Set(name, value)
		}
		return identify(r)
	}
	for _, name := range []string{"Cookie", "Authorization", "X-Forwarded-User", "Tailscale-User-Login", "X-Forwarded-For"} {
		require.NotEqual(t, request(name, "ada"), request(name, "eve"), name)
	}
	for _, name := range []string{"Accept", "Hx-Request", "Sec-Fetch-Site", "Referer", "User-Agent"} {
		require.Equal(t, request("", ""), request(name, "x"), name)
	}
	other := httptest.NewRequest("GET", "/", nil)
	other.RemoteAddr = "203.0.113.9:1"
	require.NotEqual(t, request("", ""), identify(other))
}

func TestTimelineHoldsItsSteps(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	at := func(s int) *time.Time { v := now.Add(time.Duration(s) * time.Second); return &v }
	require.Nil(t, drawTimeline(nil, now))
	require.Nil(t, drawTimeline([]wire.Step{{Key: "planned"}}, now))
	tl := drawTimeline([]wire.Step{
		{Key: "a", Kind: "function", Status: "completed", StartedAt: at(-50), FinishedAt: at(-40), Earlier: []wire.FailedAttempt{{Attempt: 1, StartedAt: at(-100)}}},
		{Key: "b", Kind: "sleep", Status: "running", StartedAt: at(-40)},
		{Key: "c", Kind: "function", Status: "failed", StartedAt: at(-40), FinishedAt: at(-45)}, // clocks differ
	}, now)
	require.Len(t, tl.Rows, 3)
	for _, r := range tl.Rows {
		require.GreaterOrEqual(t, r.X, float64(tl.Left))
		require.LessOrEqual(t, r.X+r.W, float64(tl.Right+3))
		require.Positive(t, r.W)
	}
	require.Equal(t, "1 min", tl.Rows[0].Took)
	require.Len(t, tl.Rows[0].Attempts, 1)
	require.Equal(t, []string{"", "wait open", "failed"}, []string{tl.Rows[0].Class, tl.Rows[1].Class, tl.Rows[2].Class})
}

func TestGraphIsDrawnInLayers(t *testing.T) {
	require.Nil(t, drawGraph(nil, nil))
	require.Nil(t, drawGraph([]byte(`"odd"`), nil))
	p := drawGraph([]byte(`{"nodes":[{"name":"c","kind":"step","edges":[{"from":"a","kind":"input"},{"from":"b","kind":"after"}]},{"name":"a","kind":"step"},{"name":"b","kind":"step","edges":[{"from":"a","kind":"input"},{"from":"none","kind":"input"}]}]}`),
		[]wire.Step{{Name: "a", Status: "completed"}})
	require.Len(t, p.Nodes, 3)
	require.Greater(t, p.Nodes[0].X, p.Nodes[2].X)
	require.Greater(t, p.Nodes[2].X, p.Nodes[1].X)
	require.Len(t, p.Edges, 3)
	require.True(t, p.Edges[1].Weak)
	require.Equal(t, "completed", p.Nodes[1].Class)
	require.NotNil(t, drawGraph([]byte(`{"nodes":[{"name":"a","edges":[{"from":"b"}]},{"name":"b","edges":[{"from":"a"}]}]}`), nil), "a circle ends")
}

// TestAssetsAreOurOwn: htmx is the one that docs/decisions.md names, with its license, and no page and no style
// loads anything from elsewhere.
func TestAssetsAreOurOwn(t *testing.T) {
	const htmx = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
	sum := sha256.Sum256(assets["htmx.min.js"].content)
	require.Equal(t, htmx, hex.EncodeToString(sum[:]), "htmx 4.0.1")
	require.Contains(t, string(assets["htmx.LICENSE.txt"].content), "Zero-Clause BSD")
	files, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	elsewhere := regexp.MustCompile(`(?i)(src|href|action)="(https?:)?//|url\(|@import|<style|\sstyle=|\son[a-z]+="`)
	for _, f := range files {
		text, err := templateFiles.ReadFile("templates/" + f.Name())
		require.NoError(t, err)
		require.Empty(t, elsewhere.FindString(string(text)), f.Name())
		require.Equal(t, strings.Count(string(text), "<script"), strings.Count(string(text), `<script src="{{.Asset`), f.Name())
	}
	require.Empty(t, elsewhere.FindString(string(assets["console.css"].content)))
}
