package patterns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// The code of the documents is this package's, or that of the example of the first pattern.
func TestDocument(t *testing.T) {
	var code []string
	for _, pattern := range []string{"*.go", "../reindex/*.go", "../reindex/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := os.ReadFile(name)
			require.NoError(t, err)
			code = append(code, string(file))
		}
	}
	for page, most := range map[string]int{"patterns.md": 6, "updates.md": 3, "limits.md": 4, "tags.md": 4, "signal-with-start.md": 3, "views.md": 4, "streams.md": 3, "webhooks.md": 3} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		samples := strings.Split(string(text), "```go\n")[1:]
		require.GreaterOrEqual(t, len(samples), most)
		checkSamples(t, page, samples, code)
	}
}

// checkSamples reports the samples of a page that no file has.
func checkSamples(t *testing.T, page string, samples, code []string) {
next:
	for _, sample := range samples {
		sample, _, _ = strings.Cut(sample, "```")
		for _, file := range code {
			if strings.Contains(file, "\n"+sample) {
				continue next
			}
		}
		t.Errorf("no file has this code of docs/%s; copy it again:\n%s", page, sample)
	}
}

type mailer struct{ mails sync.Map }

func (m *mailer) Ask(_ context.Context, _ Request, key string) error {
	m.mails.Store(key, true)
	return nil
}

func (m *mailer) count() (n int) {
	m.mails.Range(func(any, any) bool { n++; return true })
	return n
}

func TestApproval(t *testing.T) {
	ask := Request{Title: "a lamp", Every: 24 * time.Hour, Mails: 3}
	workflowtest.Run(t, func(env *workflowtest.Env) {
		mails := &mailer{}
		approval := Approval(mails)
		approved := workflowtest.Start(env, approval, ask)
		withdrawn := workflowtest.Start(env, approval, ask)
		silent := workflowtest.Start(env, approval, ask)
		env.Advance(30 * time.Hour)
		require.Equal(t, 6, mails.count(), "each was asked and reminded")
		env.NoError(Decided.Send(env.Context(), env.Engine(), approved.ID(), Decision{true, "yes"}))
		env.NoError(Withdrawn.Send(env.Context(), env.Engine(), withdrawn.ID(), "too late"))
		require.Equal(t, Decision{true, "yes"}, approved.Result())
		require.Equal(t, Decision{Why: "withdrawn: too late"}, withdrawn.Result())
		require.Equal(t, Decision{Why: "nobody has answered"}, silent.Result())
		require.Equal(t, 7, mails.count())
	})
}

// agency loses answers: it books and says that it has not.
type agency struct {
	booked map[string]bool
	full   string
	fails  map[string]int
}

func (a *agency) Book(_ context.Context, ref, part string) error {
	a.booked[ref] = true
	if part == a.full {
		return workflow.Permanent(errors.New("no " + part + " is left, or so it seems"))
	}
	return nil
}

func (a *agency) Cancel(_ context.Context, ref string) error {
	if a.fails[ref]++; ref == "t1-car" && a.fails[ref] == 1 {
		return errors.New("nobody answers")
	}
	delete(a.booked, ref)
	return nil
}

func TestBookTrip(t *testing.T) {
	trip := Trip{"t1", []string{"flight", "car"}}
	for full, want := range map[string][]string{"": {"t1-flight", "t1-car"}, "car": {}, "flight": {}} {
		workflowtest.Run(t, func(env *workflowtest.Env) {
			a := &agency{map[string]bool{}, full, map[string]int{}}
			refs, err := workflowtest.Start(env, BookTrip(a), trip).Wait()
			require.Len(t, a.booked, len(want))
			if full != "" {
				require.ErrorContains(t, err, "no "+full+" is left")
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, refs)
		})
	}
	a := &agency{}
	workflowtest.CrashEverywhere(t, BookTrip(a), trip,
		workflowtest.Reset(func() { *a = agency{map[string]bool{}, "car", map[string]int{}} }),
		workflowtest.Observe(func() any { return len(a.booked) }))
}

// exporter finishes a job when it has been looked at so often.
type exporter struct {
	looks, done int
	end         string
}

func (e *exporter) Begin(_ context.Context, table, _ string) (string, error) {
	return "job of " + table, nil
}

func (e *exporter) Look(_ context.Context, job string) (Export, error) {
	if e.looks++; e.looks < e.done {
		return Export{State: "working"}, nil
	}
	return Export{e.end, "url of " + job}, nil
}

func TestExport(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		other := &exporter{done: 40, end: "done"}
		run := workflowtest.Start(env, ExportTable(other), "orders")
		env.Advance(time.Hour)
		require.Less(t, other.looks, 30, "it does not ask all the time")
		require.Equal(t, "url of job of orders", run.Result())
		require.Len(t, run.Steps(), 2, "however often it looked")
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		_, err := workflowtest.Start(env, ExportTable(&exporter{end: "failed"}), "orders").Wait()
		require.ErrorContains(t, err, "export job of orders has failed")
	})
}

func TestExportCallback(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		other := &exporter{done: 3, end: "done"}
		flow := ExportTableCallback(other)
		called := workflowtest.Start(env, flow, "orders")
		env.Advance(time.Hour)
		env.NoError(Exported.Send(env.Context(), env.Engine(), called.ID(), "called back"))
		require.Equal(t, "called back", called.Result())
		require.Zero(t, other.looks)
		require.Equal(t, "url of job of lost", workflowtest.Start(env, flow, "lost").Result())
		require.Equal(t, 3, other.looks)
	})
}

// service counts what comes in each second, and refuses the first calls.
type service struct {
	mu      sync.Mutex
	calls   map[int64]int
	refuses int
}

func (s *service) Call(_ context.Context, request, _ string) (Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[time.Now().Unix()]++
	if s.refuses > 0 {
		s.refuses--
		return Reply{RetryAfter: 90 * time.Second}, nil
	}
	return Reply{Body: "answer to " + request}, nil
}

func TestCallService(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		s := &service{calls: map[int64]int{}, refuses: 5}
		flow := CallService(s)
		runs := map[string]*workflowtest.Started[string]{}
		for i := range 50 {
			request := fmt.Sprint(i)
			runs[request] = workflowtest.Start(env, flow, request)
		}
		for request, run := range runs {
			require.Equal(t, "answer to "+request, run.Result())
		}
		for second, calls := range s.calls {
			require.LessOrEqual(t, calls, 12, second)
		}
		require.GreaterOrEqual(t, len(s.calls), 5)
	})
}
