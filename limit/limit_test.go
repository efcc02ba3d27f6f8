package limit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
)

func TestRulesOfALimit(t *testing.T) {
	l := limit.New("github", limit.Rate(5000, time.Hour, limit.Burst(100)), limit.Concurrency(20), limit.Fair())
	require.NoError(t, l.Err())
	require.Equal(t, "github", l.Name())
	require.Equal(t, store.LimitRule{Concurrency: 20, Tokens: 5000, Per: time.Hour, Burst: 100, Fair: true}, l.Rule())
	require.Equal(t, int64(10), limit.New("mail", limit.Rate(10, time.Minute)).Rule().Burst, "a burst is the rate unless it is set")
}

func TestALimitThatIsNotValidSaysWhy(t *testing.T) {
	for want, l := range map[string]*limit.Limit{
		"it limits nothing":   limit.New("l"),
		"a concurrency of 0":  limit.New("l", limit.Concurrency(0)),
		"a concurrency of -1": limit.New("l", limit.Concurrency(-1)),
		"a rate of 0 in 1s":   limit.New("l", limit.Rate(0, time.Second)),
		"a rate of 5 in 0s":   limit.New("l", limit.Rate(5, 0)),
		"a burst of 0":        limit.New("l", limit.Rate(5, time.Second, limit.Burst(0))),
		"limit":               limit.New("", limit.Fair()),
		"it is nil":           nil,
	} {
		require.ErrorIs(t, l.Err(), store.ErrInvalid, want)
		require.ErrorContains(t, l.Err(), want)
		_, err := l.Use()
		require.ErrorIs(t, err, store.ErrInvalid, "a use of it: %s", want)
	}
}

func TestUsesOfALimit(t *testing.T) {
	l := limit.New("github", limit.Rate(10, time.Second, limit.Burst(5)))
	u, err := l.Use(limit.Key("acme"), limit.Tokens(5))
	require.NoError(t, err)
	require.Equal(t, store.LimitUse{Limit: "github", Key: "acme", Tokens: 5}, u)
	for want, opt := range map[string]limit.UseOption{
		"its key is empty":            limit.Key(""),
		"its key has 256 bytes":       limit.Key(strings.Repeat("k", 256)),
		"its tokens are not above":    limit.Tokens(0),
		"more than the limit's burst": limit.Tokens(6),
	} {
		_, err := l.Use(opt)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	_, err = limit.New("free", limit.Concurrency(1)).Use(limit.Tokens(1000))
	require.NoError(t, err, "without a rate, any number of tokens will do")
}
