package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// nasty is text that clears a terminal's screen and sets its title, by ESC and by
// the C1 controls U+009B (CSI) and U+009D (OSC), and turns the direction of text.
const nasty = "\x1b[2J\u009b2J\u009d0;owned\u0007\u202etxt\x7f"

// nastyJSON is nasty as a codec writes it: encoding/json escapes C0 controls
// alone.
const nastyJSON = `"\u001b[2J` + "\u009b2J\u009d0;owned\u202etxt\x7f" + `"`

// TestTerminalIsSafe: whatever a run holds, no command hands it to the terminal.
func TestTerminalIsSafe(t *testing.T) {
	s := newShell(t, file(t))
	s.must("migrate", "up")
	ctx := t.Context()
	st, err := backends.Open(ctx, s.db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	const ns = "default"
	_, err = st.Create(ctx, store.CreateParams{Namespace: ns, Now: noon, Runs: []store.NewRun{
		{ID: id(1), Workflow: "w", Queue: "q", Input: []byte(nastyJSON), ExternalID: nasty},
		{ID: id(2), Workflow: "w", Queue: "q", Input: []byte(nasty)},
	}})
	require.NoError(t, err)
	_, err = st.SetState(ctx, store.SetStateParams{Namespace: ns, Run: id(1), Now: noon, Writes: []store.StateWrite{{Key: "k", Value: []byte(nasty)}, {Key: "j", Value: []byte(nastyJSON)}}})
	require.NoError(t, err)
	_, err = st.Signal(ctx, store.SignalParams{Namespace: ns, Now: noon, Signals: []store.NewSignal{{ID: id(9), Run: id(1), Name: "s", Payload: []byte(nastyJSON)}}})
	require.NoError(t, err)
	claimed, err := st.Claim(ctx, store.ClaimParams{Namespace: ns, Worker: "w\u202e1", LeaseFor: 1e12, Now: noon, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 2}}})
	require.NoError(t, err)
	record := func(status store.StepStatus, output []byte, f *store.Failure) []store.StepRecord {
		return []store.StepRecord{{StepKey: store.StepKey{Name: "step", Occurrence: 1}, Kind: store.KindFunction, Status: status, Position: 1, Attempt: 1, Output: output, Failure: f}}
	}
	failure := &store.Failure{Code: "error", Message: nasty, Type: nasty, Stack: nasty + "\n" + nasty}
	res, err := st.Commit(ctx, store.CommitParams{Namespace: ns, Now: noon, Commits: []store.Commit{
		{Lease: claimed.Runs[0].Lease, Seq: 1, Seen: 99, Steps: record(store.StepCompleted, []byte(nastyJSON), nil), Transition: &store.Transition{Kind: store.CompleteRun, Output: []byte(nastyJSON)}},
		{Lease: claimed.Runs[1].Lease, Seq: 1, Seen: 99, Steps: record(store.StepFailed, nil, failure), Transition: &store.Transition{Kind: store.FailRun, Failure: failure}},
	}})
	require.NoError(t, err)
	for _, r := range res {
		require.NoError(t, r.Err)
	}
	s.width, s.env["NO_COLOR"] = 100, "1"
	one, two := id(1).String(), id(2).String()
	for _, args := range []string{
		"runs list", "runs list --json", "runs count", "top --once", "top --json", "doctor",
		"runs show " + one + " --outputs", "runs show " + one + " --json", "runs show " + two, "runs show " + two + " --json",
		"runs watch " + one, "runs watch " + one + " --json", "runs watch " + two, "runs watch " + two + " --json",
		"runs explain " + two, "runs explain " + two + " --json", "runs export " + one, "runs export " + two,
		"runs state get " + one, "runs state get " + one + " --json", "runs state get " + one + " k --value", "runs state get " + one + " j --value",
		"runs cancel " + two, "runs show --external-id " + nasty, "runs show --external-id x" + nasty, "runs watch --external-id " + nasty, "runs start --wait w " + nasty,
	} {
		r := s.run(strings.Split(args, " ")...)
		requireSafe(t, r.out, "pawl %s", args)
		requireSafe(t, r.err, "pawl %s, standard error", args)
		require.NotEmpty(t, r.out+r.err, "pawl %s", args)
	}

	// start --wait prints what the run returns. The repetition of a start finds the
	// run that is final by now.
	r := s.run("runs", "start", "w", "--any", "--run-id", one, "--wait")
	require.Equal(t, exitOK, r.code, r.err)
	requireSafe(t, r.out, "start --wait")
	require.JSONEq(t, nastyJSON, r.out, "it is the same JSON")

	// A pipe gets the bytes of --value as they are.
	s.width = 0
	require.Equal(t, nasty+"\n", s.must("runs", "state", "get", one, "k", "--value"))
}

func requireSafe(t *testing.T, text, what string, args ...any) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && controls(r) {
			require.Failf(t, "a control character reaches the terminal", "%s: %U in %q", fmt.Sprintf(what, args...), r, text)
		}
	}
}

// TestVisibleWriter: characters that come in parts are judged whole.
func TestVisibleWriter(t *testing.T) {
	text := nastyJSON + "\né漢🙂\xff\xc2"
	var out bytes.Buffer
	w := &visibleWriter{to: &out}
	for i := range len(text) {
		n, err := w.Write([]byte{text[i]})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.NoError(t, w.Flush())
	require.Equal(t, string(visible([]byte(text))), out.String())
	require.Equal(t, `"\u001b[2J\u009b2J\u009d0;owned\u202etxt\u007f"`+"\né漢🙂\ufffd\ufffd", out.String())
}
