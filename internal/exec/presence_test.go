package exec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func TestPresenceJudges(t *testing.T) {
	const patience = time.Minute
	soon, late := time.Now().Add(time.Second), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		presence
		waits []*wait
		want  verdict
	}{
		"a goroutine works":                         {presence{live: 2}, []*wait{{due: late}}, working},
		"no goroutine is left":                      {presence{}, nil, working},
		"it is parked already":                      {presence{live: 1, parked: true}, []*wait{{due: late}}, working},
		"all wait for a time that is far":           {presence{live: 1}, []*wait{{due: late}}, suspend},
		"all wait for children":                     {presence{live: 1}, []*wait{{await: []store.Await{{Group: "g"}}}}, suspend},
		"one of the waits is over soon":             {presence{live: 2}, []*wait{{due: late}, {due: soon}}, park},
		"one waits for a signal":                    {presence{live: 2}, []*wait{{due: late}, {wakes: store.WakeSignal}}, parkBriefly},
		"one waits for a signal, one is over soon":  {presence{live: 2}, []*wait{{due: soon}, {wakes: store.WakeSignal}}, park},
		"it cannot be suspended":                    {presence{live: 1, pinned: 1}, []*wait{{due: late}}, park},
		"the worker drains":                         {presence{live: 1, draining: true}, []*wait{{due: soon}}, suspend},
		"the worker drains, it cannot be suspended": {presence{live: 1, draining: true, pinned: 1}, []*wait{{due: soon}}, giveBack},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.presence
			for _, w := range c.waits {
				p.enter(w)
			}
			require.Equal(t, c.want, p.judge(patience))
		})
	}
}

func TestPresenceFindsADeadlock(t *testing.T) {
	p := presence{live: 2}
	left, right := &Branch{path: "left"}, &Branch{path: "right"}
	p.join(left, right)
	require.Equal(t, working, p.judge(time.Minute))
	p.join(right, left)
	require.Equal(t, deadlock, p.judge(time.Minute))
	require.Contains(t, p.deadlockFailure().Message, `branch "left" waits for branch "right"; branch "right" waits for branch "left"`)
	p.joined(right)
	require.Equal(t, working, p.judge(time.Minute), "the left branch goes on")
}

// While another branch waits for a time or an event, the run can be woken.
func TestPresenceFindsNoDeadlockWhileOneBranchCanBeWoken(t *testing.T) {
	p := presence{live: 2}
	p.join(&Branch{}, &Branch{path: "child"})
	p.enter(&wait{due: time.Now().Add(time.Hour)})
	require.Equal(t, suspend, p.judge(time.Minute))
}

func TestPresenceMakesTheSleepOfAllWaits(t *testing.T) {
	var p presence
	now := time.Now()
	at := now.Add(3 * time.Hour)
	p.enter(&wait{due: at, storeDue: at})
	p.enter(&wait{due: now.Add(2 * time.Hour), wakes: store.WakeSignal})
	p.enter(&wait{due: now.Add(time.Hour)})
	p.enter(&wait{await: []store.Await{{Group: "g"}}})
	tr, unread := p.sleep()
	require.False(t, unread)
	require.Equal(t, store.Sleep, tr.Kind)
	require.Equal(t, at, tr.At, "a time of the store's clock is given as it is")
	require.Greater(t, tr.After, 59*time.Minute)
	require.LessOrEqual(t, tr.After, time.Hour, "of those by this process's clock, the first")
	require.Equal(t, store.WakeSignal, tr.Wakes)
	require.Equal(t, []store.Await{{Group: "g"}}, tr.Await)
}

func TestPresenceEndsASleepAtOnceWhenNewsIsUnread(t *testing.T) {
	var p presence
	w := &wait{wakes: store.WakeState, interrupt: make(chan struct{}, 1)}
	p.enter(w)
	p.stir(store.WakeSignal)
	require.False(t, w.news, "it waits for another event")
	p.stir(store.WakeState)
	require.Len(t, w.interrupt, 1, "its goroutine is woken")
	tr, unread := p.sleep()
	require.True(t, unread)
	require.Equal(t, time.Microsecond, tr.After)
}
