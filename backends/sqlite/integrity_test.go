package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestIntegrityIsCheckedNowAndThen: the check reads the whole file, so that a page that is opened again must not repeat it.
func TestIntegrityIsCheckedNowAndThen(t *testing.T) {
	t.Parallel()
	var c integrity
	checks, said, now := 0, "ok", time.Now()
	look := func(size int64, after time.Duration) store.Finding {
		t.Helper()
		f, err := c.finding(size, now.Add(after), func() (string, error) { checks++; return said, nil })
		require.NoError(t, err)
		return f
	}
	require.Equal(t, "checked, no errors", look(shortCheck+1, 0).Seen)
	require.Equal(t, "checked 1m0s ago, no errors", look(shortCheck+1, time.Minute).Seen)
	require.Equal(t, 1, checks)
	said = "row 1 is missing"
	require.Equal(t, store.Fault, look(shortCheck, time.Minute).Level, "a small file is checked each time")
	require.Equal(t, store.Fault, look(shortCheck+1, 2*time.Minute).Level, "what was found is told again")
	require.Equal(t, 2, checks)
	said = "ok"
	require.Equal(t, "checked, no errors", look(shortCheck+1, time.Minute+checkAgain).Seen)
	require.Equal(t, "not checked, because the file is large", look(longCheck+1, 0).Seen)
	require.Equal(t, 3, checks)
}
