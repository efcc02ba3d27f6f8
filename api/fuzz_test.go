package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
)

// FuzzRequests sends anything: the API answers each request as its document says, and never fails.
func FuzzRequests(f *testing.F) {
	for path, methods := range readDocument().Paths {
		target := strings.NewReplacer("{id}", "0191a5c2-7e9a-7cc1-b3f0-6b1f0c6e2d11", "{name}", "mail", "{key}", "k").Replace(path)
		for method := range methods {
			f.Add(strings.ToUpper(method), target, "", "")
			f.Add(strings.ToUpper(method), target, "limit=5&cursor=x&namespace=default", `{"workflow":"ship","input":{"a":1},"name":"n","value":1,"spec":"@daily","filter":{"status":["active"]},"action":"pause"}`)
		}
	}
	f.Add("POST", "/v1/runs/bulk", "", `{"action":"cancel","filter":{"status":["final","active"],"pinned_to":["\u0000"]}}`)
	f.Add("GET", "/v1/runs", "failure_text=%00&id_prefix=%ff&min_attempt=9223372036854775807", "")
	st, err := backends.Open(f.Context(), "sqlite:"+f.TempDir()+"/fuzz.db")
	require.NoError(f, err)
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	f.Cleanup(func() {
		eng.Close()
		_ = st.Close()
	})
	h := api.New(eng)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		u, err := url.Parse("http://localhost" + path)
		if err != nil || strings.HasSuffix(u.Path, "/events") || strings.HasSuffix(u.Path, "/doctor") || u.Host != "localhost" {
			return // streams do not end, and the doctor takes a while
		}
		if q, err := url.ParseQuery(query); err == nil && q.Get("wait") != "" {
			return
		}
		u.RawQuery = query
		r, err := http.NewRequestWithContext(t.Context(), method, u.String(), strings.NewReader(body))
		if err != nil {
			return
		}
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		r.Header.Set("Content-Type", "application/json")
		s := &site{t: t}
		w := httptest.NewRecorder()
		s.checked(h).ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s %s: %s", method, u, body, w.Body)
		}
	})
}
