package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func TestBatchRecordKeepsPayloads(t *testing.T) {
	payloads := [][]byte{[]byte("one"), {}, nil, []byte("batch 3\n"), {0, '\n', 255}}
	var list []store.Signal
	for _, p := range payloads {
		list = append(list, store.Signal{Payload: p})
	}
	got, ok := readBatch(writeBatch(list))
	require.True(t, ok)
	require.Equal(t, payloads, got)
	got, ok = readBatch(writeBatch(nil))
	require.True(t, ok)
	require.Empty(t, got)
}

func TestBatchRecordRefusesOtherRecords(t *testing.T) {
	for _, record := range []string{"", "batch", `"word"`, "0 word\n\"x\"", "batch 5\nab", "batch 1\nab", "batch -2\n", "batch x\n", "batch 9223372036854775807\n"} {
		_, ok := readBatch([]byte(record))
		require.False(t, ok, "%q was read as a batch", record)
	}
}

func FuzzBatchRecord(f *testing.F) {
	f.Add([]byte("batch 1 -1 0\nx"))
	f.Fuzz(func(t *testing.T, record []byte) {
		payloads, ok := readBatch(record)
		if !ok {
			return
		}
		var list []store.Signal
		for _, p := range payloads {
			list = append(list, store.Signal{Payload: p})
		}
		again, ok := readBatch(writeBatch(list))
		require.True(t, ok)
		require.Equal(t, payloads, again)
	})
}

func TestInboxTakesBackWhatIsNotConsumed(t *testing.T) {
	var n inbox
	box := store.Inbox{Signals: signals("a", "a", "a")}
	n.takeIn(box, Look{}, nil, false, 0)
	for _, s := range box.Signals[:2] {
		n.take(s.ID)
	}
	n.untake(box.Signals[1:2])
	n.takeIn(box, Look{}, nil, false, 0)
	next, ok := n.signal("a")
	require.True(t, ok)
	require.Equal(t, box.Signals[1].ID, next.ID)
}
