package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

// TestDeployFiles reads the files of deploy/: they are well-formed and use only figures that /metrics has,
// and each alert names a runbook that is there.
func TestDeployFiles(t *testing.T) {
	s := newSite(t)
	s.work()
	_, err := s.c.PauseQueue(s.ctx, "ship")
	require.NoError(t, err)
	_, err = s.eng.Subscribe(s.ctx, store.Subscription{Name: "audit", Kinds: []store.ChangeKind{store.RunCreated}})
	require.NoError(t, err)
	s.start(wire.Start{Workflow: "busy", Input: []byte(`{}`)})
	text, err := s.c.GetMetrics(s.ctx, wire.In{})
	require.NoError(t, err)
	for _, figure := range []string{"waiting", "oldest_waiting_seconds", "dropped"} {
		require.Contains(t, string(text), "pawl_webhook_"+figure+`{namespace="default",webhook="audit"} `)
	}
	require.Contains(t, string(text), `pawl_webhook_waiting{namespace="default",webhook="audit"} 1`)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) gauge$`).FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = true
	}
	root := filepath.Join("..", "deploy")
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(data)
	}
	names := regexp.MustCompile(`\bpawl_[a-z_]+`)
	for _, name := range []string{"grafana/pawl.json", "prometheus/rules.yml", "keda/scaledobject.yaml"} {
		used := names.FindAllString(read(name), -1)
		require.NotEmpty(t, used, name)
		for _, metric := range used {
			require.True(t, known[metric], "%s uses %s, which /metrics does not have", name, metric)
		}
	}
	require.True(t, json.Valid([]byte(read("grafana/pawl.json"))))
	require.NoError(t, yaml.Unmarshal([]byte(read("keda/scaledobject.yaml")), new(any)))

	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Runbook string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read("prometheus/rules.yml")), &rules))
	headings := regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(read("README.md"), -1)
	var books []string
	for _, h := range headings {
		books = append(books, "deploy/README.md#"+strings.ToLower(h[1]))
	}
	var alerts []string
	for _, r := range rules.Groups[0].Rules {
		require.NotEmpty(t, r.Expr, r.Alert)
		require.NotEmpty(t, r.Annotations.Summary, r.Alert)
		alerts = append(alerts, r.Annotations.Runbook)
	}
	require.Greater(t, len(alerts), 5)
	slices.Sort(alerts)
	slices.Sort(books)
	require.Equal(t, books, alerts)
}
