package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestJSONReference holds docs/cli-json.md to the types that are written.
func TestJSONReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# JSON output

Fields may be added; none is renamed or removed. Times are RFC 3339 in UTC. Optional fields are omitted when they have no value.
Control characters are escaped. This page is generated from the program: ` + "`go test ./cmd/pawl/cli -run TestJSONReference -update`" + `.

`)
	for _, o := range []struct {
		name, from string
		value      any
	}{
		{"run", "`runs list` (in `runs`), `show` (`run`), `watch` (`run`), `start --wait`, `explain` (`run`), `top` (`last_failed`)", runJSON{}},
		{"step", "`runs show` (`steps`), `watch` (`step`)", stepJSON{}},
		{"failure", "runs and steps", store.Failure{}},
		{"attempt", "steps (`earlier`)", store.FailedAttempt{}},
		{"pin", "runs", store.Pin{}},
		{"payload", "inputs, outputs, state and signals: `json` if it is JSON, `base64` otherwise", payloadJSON{}},
		{"view", "`runs show`", viewJSON{}},
		{"state", "`runs show`, `runs state get` and `set` (`state`)", stateJSON{}},
		{"signal", "`runs show` (`signals`)", signalJSON{}},
		{"progress", "`runs show`, `watch` (`progress`); also the fields of counts", progressJSON{}},
		{"counts", "progress (`levels`)", countsJSON{}},
		{"group", "`runs show` (`groups`)", groupJSON{}},
		{"action", "`actions`, `runs show` (`actions`)", actionJSON{}},
		{"worker", "`workers list` (`workers`), `top` (`workers`)", workerJSON{}},
		{"line", "`queues list`, `workflows list`, `top` (`queues`)", line{}},
		{"definition", "`workflows show`", definitionJSON{}},
		{"retention", "`workflows show` (`retention`); 0 means forever", retentionJSON{}},
		{"bulk", "`runs cancel`, `pause`, `resume`, `restart`, `unpin` of many runs", bulkJSON{}},
		{"item", "`runs stream`, one in each line", itemJSON{}},
		{"webhook", "`webhooks list` (`webhooks`)", subscriptionJSON{}},
		{"limit", "`limits list` (`limits`), `limits show` (`limit`)", limitJSON{}},
		{"rule", "limits (`rule`, `set`)", ruleJSON{}},
		{"limit key", "`limits show` (`keys`)", limitKeyJSON{}},
		{"use", "runs (`under`, `step_under`)", store.LimitUse{}},
		{"build", "`builds` (`builds`)", buildLine{}},
		{"version", "`version`", versionJSON{}},
	} {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", o.name, o.from)
		typ := reflect.TypeOf(o.value)
		for i := range typ.NumField() {
			name, rest, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "-" || name == "" {
				continue
			}
			optional := ""
			if strings.Contains(rest, "omitempty") {
				optional = "optional"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, jsonType(typ.Field(i).Type), optional)
		}
		b.WriteString("\n")
	}
	golden(t, filepath.Join("..", "..", "..", "docs", "cli-json.md"), b.String())
	cli, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	require.NoError(t, err)
	require.Contains(t, string(cli), "(cli-json.md)")
}

// jsonType is a type as those know it who read JSON.
func jsonType(t reflect.Type) string {
	switch name := t.String(); {
	case t.Kind() == reflect.Pointer:
		return jsonType(t.Elem())
	case strings.HasSuffix(name, "JSON") && t.Kind() != reflect.Slice:
		return strings.TrimSuffix(strings.TrimPrefix(name, "cli."), "JSON")
	case name == "store.Failure":
		return "failure"
	case name == "store.FailedAttempt":
		return "attempt"
	case name == "store.Pin":
		return "pin"
	case name == "store.ID":
		return "id"
	case name == "time.Time":
		return "time"
	case name == "store.Status":
		return "status"
	case name == "json.RawMessage":
		return "any JSON"
	case name == "[]uint8":
		return "base64"
	case t.Kind() == reflect.Slice:
		return "list of " + jsonType(t.Elem())
	case t.Kind() == reflect.Map:
		return "object of " + jsonType(t.Elem()) + " by name"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "text"
	}
	return "number"
}
