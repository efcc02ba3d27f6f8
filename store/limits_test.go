package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func TestLimitsOrDefault(t *testing.T) {
	const most, warn = store.EnvPayloadLimit, store.EnvPayloadWarn
	for _, tc := range []struct {
		name      string
		env       map[string]string
		set, want store.Limits
		err       string
	}{
		{name: "default", want: store.Limits{Payload: 2 << 20, Warn: 1 << 20}},
		{name: "environment", env: map[string]string{most: " 1000 ", warn: "10"}, want: store.Limits{Payload: 1000, Warn: 10}},
		{name: "half of the environment's", env: map[string]string{most: "1000"}, want: store.Limits{Payload: 1000, Warn: 500}},
		{name: "what the program sets counts", env: map[string]string{most: "1000", warn: "1"}, set: store.Limits{Payload: 8, Warn: 7}, want: store.Limits{Payload: 8, Warn: 7}},
		{name: "a unit", env: map[string]string{most: "2MB"}, err: `the environment's PAWL_PAYLOAD_MAX_BYTES: "2MB" is not a positive number of bytes, such as 2097152`},
		{name: "zero", env: map[string]string{warn: "0"}, err: `the environment's PAWL_PAYLOAD_WARN_BYTES: "0" is not a positive number of bytes, such as 2097152`},
		{name: "negative", set: store.Limits{Payload: -1}, err: "neither may be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range []string{most, warn} {
				t.Setenv(name, tc.env[name])
			}
			got, err := tc.set.OrDefault()
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.ErrorIs(t, err, store.ErrInvalid)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
