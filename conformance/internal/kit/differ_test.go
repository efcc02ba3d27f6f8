package kit

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// Values that differ in one field are told by that field, whatever their size.
func TestDifferences(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 9104)
	changed := bytes.Clone(long)
	changed[5000] = 'y'
	a := store.Run{Workflow: "wf", Input: long, Attempt: 1, CreatedAt: Began, Failure: &store.Failure{Code: "a"}}
	b := a
	b.Input, b.Attempt, b.Failure, b.CreatedAt = changed, 2, &store.Failure{Code: "b"}, Began.Add(time.Microsecond)
	require.ElementsMatch(t, []string{
		`[0].Input: saw 9104 bytes, expected 9104; they part at byte 5000: saw "xxxxxxxxxxxxxxxxxxxx", expected "yxxxxxxxxxxxxxxxxxxx"`,
		"[0].Attempt: saw 1, expected 2",
		`[0].Failure.Code: saw a, expected b`,
		"[0].CreatedAt: saw 2031-05-06T07:08:09.123457Z, expected 2031-05-06T07:08:09.123458Z",
	}, Differences([]store.Run{a}, []store.Run{b}))
	require.Empty(t, Differences(a, a))
	require.Equal(t, []string{"the value: saw 1 items, expected 2"}, Differences([]int{1}, []int{1, 2}))
	require.Equal(t, []string{"the value: saw nil bytes, expected 0 bytes \"\""}, Differences([]byte(nil), []byte{}))
	require.Equal(t, []string{"the value: saw []int(nil), expected []int{}"}, Differences([]int(nil), []int{}))
	require.Len(t, Differences(make([]int, 20), []int{19: 0, 0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}), mostDifferences+1)
}
