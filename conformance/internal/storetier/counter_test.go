package storetier

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

// withCounts is the model with counts: each call of Counts returns the next list, and the last one
// stays.
type withCounts struct {
	*model.Store
	lists *[][]store.Count
}

func (s withCounts) Counts() []store.Count {
	list := (*s.lists)[0]
	if len(*s.lists) > 1 {
		*s.lists = (*s.lists)[1:]
	}
	return list
}

// The case of a backend's counts finds each fault, and nothing if the counts are right.
func TestCounterCase(t *testing.T) {
	count := func(name string, value int64) store.Count {
		return store.Count{Name: name, About: "What is counted.", Unit: "{row}", Value: value}
	}
	cs := counterCases[0]
	for name, tt := range map[string]struct {
		lists [][]store.Count
		want  string
	}{
		"right":           {[][]store.Count{{count("a", 1), count("b_c", 5)}, {count("a", 2), count("b_c", 5)}}, ""},
		"one shrinks":     {[][]store.Count{{count("a", 2)}, {count("a", 1)}}, "not to shrink"},
		"one is new":      {[][]store.Count{{count("a", 1)}, {count("a", 1), count("b", 1)}}, "counts afterwards"},
		"another order":   {[][]store.Count{{count("a", 1), count("b", 1)}, {count("b", 1), count("a", 1)}}, "what is counted"},
		"no name":         {[][]store.Count{{count("Rows read", 1)}}, "lower case"},
		"nothing is said": {[][]store.Count{{{Name: "a"}}}, "a sentence and a unit"},
	} {
		t.Run(name, func(t *testing.T) {
			lists := slices.Clone(tt.lists)
			s := withCounts{model.New(model.Options{}), &lists}
			defer func() { _ = s.Close() }()
			rec := &runner.Recorder{TB: t}
			rec.Do(func() { cs.Run(newC(rec, t, suite{}, s, s, cs)) })
			require.Equal(t, tt.want != "", rec.Failed(), rec.Text())
			require.Contains(t, rec.Text(), tt.want)
		})
	}
}
