package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTagMatches(t *testing.T) {
	got, err := ParseTagMatches([]string{"state=new", "region=eu-*", "state=in-transit", "vip", "note=a=b"})
	require.NoError(t, err)
	require.Equal(t, []TagMatch{
		{Name: "state", Values: []string{"new", "in-transit"}}, {Name: "region", Prefix: "eu-"}, {Name: "vip"}, {Name: "note", Values: []string{"a=b"}},
	}, got)
	_, err = ParseTagMatches([]string{"state="})
	require.ErrorIs(t, err, ErrInvalid)
}
