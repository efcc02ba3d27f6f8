package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// TestEncryption holds the command line, which does not encrypt, against workers that take
// encrypted payloads alone.
func TestEncryption(t *testing.T) {
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, db(t))
			s.now = time.Now
			s.must("migrate", "up")
			ring := codec.Keyring{Current: "k", Keys: map[string][]byte{"k": bytes.Repeat([]byte("k"), 32)}}
			w := work(t, s.db, engine.PayloadCodec(codec.Chain(engine.JSON{}, codec.AESGCM(ring))))
			refused := func(args ...string) {
				t.Helper()
				r := s.run(args...)
				require.Equal(t, exitUsage, r.code, "pawl %s: %s%s", strings.Join(args, " "), r.out, r.err)
				require.Contains(t, r.err, "not encrypted")
				require.Contains(t, r.err, "codec")
			}
			refused("runs", "start", "order", `"lamp"`)
			refused("runs", "start", "order", `"lamp"`, "--external-id", "o", "--any")
			refused("schedules", "put", "s", "order", "@daily", `"lamp"`)
			page, err := w.eng.List(t.Context(), store.RunFilter{}, "", 1)
			require.NoError(t, err)
			require.Empty(t, page.Runs, "nothing was made")

			lamp, err := order.Start(t.Context(), w.eng, "lamp", engine.ExternalID("lamp"))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				status, err := lamp.Status(t.Context())
				return err == nil && status == store.Sleeping
			}, time.Minute, 5*time.Millisecond)
			refused("runs", "signal", lamp.ID().String(), "approval", `"ada"`)
			refused("runs", "signal", "--external-id", "lamp", "approval", `"ada"`)
			refused("runs", "state", "set", lamp.ID().String(), "limit", "100")
			refused("runs", "state", "set", "--external-id", "lamp", "limit", "100")
			s.must("runs", "state", "set", lamp.ID().String(), workflow.CoordErrorState.Key(), `"stop"`)
			s.must("runs", "state", "delete", lamp.ID().String(), workflow.CoordErrorState.Key())

			require.NoError(t, approval.Send(t.Context(), w.eng, lamp.ID(), "ada"))
			out, err := lamp.Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "charged lamp for ada", out)
		})
	}
}

func TestCoordErrorIsTheLibrarys(t *testing.T) {
	require.Equal(t, workflow.CoordErrorState.Key(), coordError)
}
