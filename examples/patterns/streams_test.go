package patterns

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

func TestAnswer(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		attempt := 0
		answer := Answer(func(_ context.Context, question string, write func(string) error) (string, error) {
			attempt++
			if err := write("It"); err != nil {
				return "", err
			}
			if attempt == 1 {
				return "", errors.New("the model is overloaded")
			}
			return "atlas, page 3", errors.Join(write("is"), write("Paris"))
		})
		h := workflowtest.Start(env, answer, "What is the capital of France?")
		require.Equal(t, "atlas, page 3", h.Result())

		follow := func(from string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(env.Context(), "GET", "/", nil)
			r.Header.Set("Last-Event-ID", from)
			Relay(env.Engine(), h.ID(), w, r)
			return w.Body.String()
		}
		all := follow("")
		require.Equal(t, 1, strings.Count(all, "event: reset"))
		require.Equal(t, []string{`"It"`, `"is"`, `"Paris"`}, data(all))
		_, rest, _ := strings.Cut(all, "id: ")
		cursor, _, _ := strings.Cut(rest, "\n")
		require.Equal(t, []string{`"is"`, `"Paris"`}, data(follow(cursor)))
		for source, err := range Sources.Read(env.Context(), env.Engine(), h.ID(), "") {
			env.NoError(err)
			require.Equal(t, workflow.Item[string]{Value: "atlas, page 3", Step: "model", Attempt: 2, Cursor: source.Cursor}, source)
		}
	})
}

// data returns the data of the events with an id.
func data(events string) (list []string) {
	for _, event := range strings.Split(events, "\n\n") {
		if strings.HasPrefix(event, "id: ") {
			_, text, _ := strings.Cut(event, "data: ")
			list = append(list, text)
		}
	}
	return list
}
