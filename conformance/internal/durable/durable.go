// Package durable kills processes and servers, and looks for what a store had acknowledged.
package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/internal/testing/selfexec"
	"github.com/pawlhq/pawl/store"
)

// Harness is conformance.DurableHarness.
type Harness struct {
	New   func(t testing.TB) (place string)
	Open  func(ctx context.Context, place string) (store.Store, error)
	Crash func(t testing.TB, place string) // nil: processes alone are killed
	Seed  uint64                           // 0: draw one
}

// What a process that is to be killed is told.
const (
	envDurablePlace = "PAWL_CONFORMANCE_DURABLE"
	envDurableFirst = "PAWL_CONFORMANCE_DURABLE_FIRST" // the number of its first story
)

const (
	durableKills = 6
	durableLanes = 4    // stories that a process tells at the same time
	durableLease = 1000 // stories of a process at most
	durableLimit = time.Minute
)

// Child does the work of a process that [Run] has started, until it is killed. In any other
// process it returns at once.
func Child(open func(ctx context.Context, place string) (store.Store, error)) {
	place, ok := os.LookupEnv(envDurablePlace)
	if !ok {
		return
	}
	go selfexec.DieWithParent()
	if err := tellStories(context.Background(), open, place); err != nil {
		fmt.Println("fail", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	fmt.Println("idle")
	select {} // until it is killed
}

// tellStories writes in several lanes until the store cannot be reached any more.
func tellStories(ctx context.Context, open func(context.Context, string) (store.Store, error), place string) error {
	first, err := strconv.Atoi(os.Getenv(envDurableFirst))
	if err != nil {
		return err
	}
	s, err := open(ctx, place)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	errs := make([]error, durableLanes)
	var lanes sync.WaitGroup
	for lane := range durableLanes {
		lanes.Go(func() {
			for n := first + lane; n < first+durableLease && errs[lane] == nil; n += durableLanes {
				errs[lane] = killStory(n).tell(ctx, s)
			}
			if store.Retryable(errs[lane]) {
				errs[lane] = nil // what was asked for last may have happened or not
			}
		})
	}
	lanes.Wait()
	return errors.Join(errs...)
}

// Run is conformance.RunDurable.
func Run(t testing.TB, h Harness) {
	t.Helper()
	kinds := []bool{false}
	if h.Crash != nil {
		kinds = append(kinds, true)
	}
	for _, crash := range kinds {
		k := &killer{TB: t, h: h, place: h.New(t), seed: h.Seed, told: map[killStory]*progress{}}
		if k.seed == 0 {
			k.seed = rand.Uint64()
		}
		k.random = rand.New(rand.NewPCG(k.seed, 0))
		k.run(crash)
	}
}

// progress is how far a story has come, as the processes say.
type progress struct{ asked, acked int }

// killer starts processes and kills them.
type killer struct {
	testing.TB
	h      Harness
	place  string
	seed   uint64
	random *rand.Rand

	mu   sync.Mutex
	told map[killStory]*progress
}

func (k *killer) run(crash bool) {
	k.Helper()
	began, acked := time.Now(), 0
	for i := range durableKills {
		acked += k.kill(i*durableLease, 20+k.random.IntN(200), crash && i%2 == 0)
		if !k.verify(slices.Sorted(maps.Keys(k.told))[max(0, len(k.told)-3*durableLanes):]) {
			return // more of the same tells no more
		}
	}
	k.verify(slices.Sorted(maps.Keys(k.told)))
	k.Logf("%d kills, %d writes acknowledged, %d stories, in %v (seed %d)", durableKills, acked, len(k.told), time.Since(began).Round(time.Millisecond), k.seed)
}

// kill starts a process and kills it when it has said that so many writes were acknowledged,
// or kills the server under it first.
func (k *killer) kill(first, after int, crash bool) (acked int) {
	k.Helper()
	enough := make(chan struct{})
	var once sync.Once
	var failed string
	p := selfexec.Spawn(k, "durable", []string{"-test.run=^$"}, []string{envDurablePlace + "=" + k.place, envDurableFirst + "=" + strconv.Itoa(first)}, func(line string) {
		verb, rest, _ := strings.Cut(line, " ")
		var n killStory
		var stage int
		switch verb {
		case "fail":
			failed = rest
		case "idle":
			once.Do(func() { close(enough) })
		case "ask", "ack":
			if _, err := fmt.Sscan(rest, &n, &stage); err != nil {
				failed = fmt.Sprintf("a line that makes no sense: %q", line)
				return
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.told[n] == nil {
				k.told[n] = &progress{}
			}
			if verb == "ask" {
				k.told[n].asked = stage
				return
			}
			k.told[n].acked = stage
			if acked++; acked == after {
				once.Do(func() { close(enough) })
			}
		}
	})
	select {
	case <-enough:
	case <-p.Done:
		k.Fatalf("the process that was to be killed has ended by itself: %v %s; does TestMain call conformance.DurableChild?", p.Err, failed)
	case <-time.After(durableLimit):
		k.Fatalf("the process has not had %d writes acknowledged within %v (seed %d)", after, durableLimit, k.seed)
	}
	if crash {
		k.h.Crash(k.TB, k.place)
	}
	if err := p.Cmd.Process.Kill(); err != nil && !p.Ended() {
		k.Fatal(err)
	}
	<-p.Done
	if failed != "" {
		k.Fatalf("a process got %s (seed %d)", failed, k.seed)
	}
	return acked
}

// verify opens the store and holds stories against what was said of them, up to the third that is
// not as it should be.
func (k *killer) verify(list []killStory) (whole bool) {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), durableLimit)
	defer cancel()
	s, err := k.h.Open(ctx, k.place)
	if err != nil {
		k.Fatalf("opening the store again: %v (seed %d)", err, k.seed)
	}
	defer func() {
		if err := s.Close(); err != nil {
			k.Error("Close: ", err)
		}
	}()
	wrong := 0
	for _, n := range list {
		if wrong == 3 {
			break
		}
		t := k.told[n]
		diff := n.compare(ctx, s, *t)
		if t.acked < t.asked { // what was under way may end only now, on a server
			pause := time.NewTicker(10 * time.Millisecond)
			for tries := 0; diff != "" && tries < 100 && ctx.Err() == nil; tries++ {
				<-pause.C
				diff = n.compare(ctx, s, *t)
			}
			pause.Stop()
		}
		if diff != "" {
			wrong++
			k.Errorf("killStory %d, of which %q was acknowledged and %q was asked for (seed %d):\n%s", n, stageName(t.acked), stageName(t.asked), k.seed, diff)
		}
	}
	return wrong == 0
}

// A killStory is a run and what happens to it, stage by stage. Its number decides everything,
// so that whoever knows how far it has come knows what must be there.
type killStory int

// The namespace and worker of stories.
const (
	storySpace  = "durable"
	storyWorker = "teller"
	storyLong   = 1000 * time.Hour // no lease or sleep ends meanwhile
)

// id derives the ID of what belongs to the story.
func (n killStory) id(what string) store.ID {
	return store.DeriveID(store.ID{15: 1}, fmt.Sprintf("%d %s", n, what))
}

func (n killStory) text(what string) string { return fmt.Sprintf("%s-%d", what, n) }

// stage is one write.
type stage struct {
	name string
	do   func(ctx context.Context, s store.Store, n killStory) error
	// then changes what is expected to be seen.
	then func(n killStory, see map[string]string)
}

func stageName(i int) string {
	if i == 0 {
		return "nothing"
	}
	return stages[i-1].name
}

// tell does one stage after the other.
func (n killStory) tell(ctx context.Context, s store.Store) error {
	for i, st := range stages {
		if _, err := fmt.Printf("ask %d %d\n", n, i+1); err != nil {
			return err
		}
		if err := st.do(ctx, s, n); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		if _, err := fmt.Printf("ack %d %d\n", n, i+1); err != nil {
			return err
		}
	}
	return nil
}

// compare says how what is there differs from the story as it may stand; empty: it does not.
func (n killStory) compare(ctx context.Context, s store.Store, t progress) (diff string) {
	got, err := n.look(ctx, s)
	if err != nil {
		return "it cannot be read: " + err.Error()
	}
	want := map[string]string{}
	for i := 0; ; i++ {
		if i >= t.acked {
			if maps.Equal(got, want) {
				return ""
			}
			diff += fmt.Sprintf("after %q:\n", stageName(i))
			for _, key := range slices.Sorted(maps.Keys(union(got, want))) {
				if got[key] != want[key] {
					diff += fmt.Sprintf("  %s: saw %q, expected %q\n", key, got[key], want[key])
				}
			}
		}
		if i >= t.asked {
			return diff
		}
		stages[i].then(n, want)
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// look reads all of a story; what is not there has no key.
func (n killStory) look(ctx context.Context, s store.Store) (map[string]string, error) {
	see := map[string]string{}
	runs, err := s.Get(ctx, store.GetParams{Namespace: storySpace, IDs: []store.ID{n.id("run"), n.id("kid 1"), n.id("kid 2"), n.id("fired")}})
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		for _, what := range []string{"run", "kid 1", "kid 2", "fired"} {
			if r.ID == n.id(what) {
				see[what] = fmt.Sprintf("%v, epoch %d, input %q, output %q", r.Status, r.Epoch, r.Input, r.Output)
			}
		}
		if r.ID == n.id("run") {
			if err := n.lookInto(ctx, s, see); err != nil {
				return nil, err
			}
		}
	}
	if found, err := s.Find(ctx, store.FindParams{Namespace: storySpace, ExternalID: n.text("external")}); err == nil {
		see["external id"] = found.ID.String()
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	page, err := s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: storySpace, Names: []string{n.text("schedule")}})
	if err != nil || len(page.Schedules) == 0 {
		return see, err
	}
	see["schedule"] = page.Schedules[0].Spec
	firings, err := s.ListFirings(ctx, store.ListFiringsParams{Namespace: storySpace, Schedule: n.text("schedule")})
	for _, f := range firings.Firings {
		see["firings"] += f.Run.String() + " "
	}
	return see, err
}

// lookInto reads what belongs to the story's run.
func (n killStory) lookInto(ctx context.Context, s store.Store, see map[string]string) error {
	page, err := s.Steps(ctx, store.StepsParams{Namespace: storySpace, Run: n.id("run")})
	if err != nil {
		return err
	}
	for _, st := range page.Steps {
		see["steps"] += fmt.Sprintf("%s=%s ", st.Name, st.Output)
	}
	in, err := s.Inbox(ctx, store.InboxParams{Namespace: storySpace, Run: n.id("run")})
	if err != nil {
		return err
	}
	for _, sig := range in.Signals {
		see["signals"] += string(sig.Payload) + " "
	}
	for _, e := range in.State {
		see["state"] += fmt.Sprintf("%s=%s ", e.Key, e.Value)
	}
	for _, g := range in.Groups {
		see["groups"] += fmt.Sprintf("%s: %d of %d open ", g.Name, g.Open, g.Total)
	}
	return nil
}

func (n killStory) lease() store.Lease {
	return store.Lease{Run: n.id("run"), Worker: storyWorker, Epoch: 1}
}

func (n killStory) signal(ctx context.Context, s store.Store, what string) error {
	res, err := s.Signal(ctx, store.SignalParams{Namespace: storySpace, Signals: []store.NewSignal{{ID: n.id(what), Run: n.id("run"), Name: "s", Payload: []byte(n.text(what))}}})
	return firstOf(err, func() error { return res[0].Err })
}

func (n killStory) setState(ctx context.Context, s store.Store, value string) error {
	_, err := s.SetState(ctx, store.SetStateParams{Namespace: storySpace, Run: n.id("run"), Writes: []store.StateWrite{{Key: "k", Value: []byte(value)}}})
	return err
}

func (n killStory) commit(ctx context.Context, s store.Store, c store.Commit) error {
	c.Lease = n.lease()
	res, err := s.Commit(ctx, store.CommitParams{Namespace: storySpace, Commits: []store.Commit{c}})
	return firstOf(err, func() error { return res[0].Err })
}

// firstOf is err or, where there is none, that of the item.
func firstOf(err error, item func() error) error {
	if err != nil {
		return err
	}
	return item()
}

// seeRun expects the run in a status.
func (n killStory) seeRun(see map[string]string, status store.Status, epoch int64, output string) {
	see["run"] = fmt.Sprintf("%v, epoch %d, input %q, output %q", status, epoch, n.text("input"), output)
}

// stages are the writes of a story, in order.
var stages = []stage{
	{"Create", func(ctx context.Context, s store.Store, n killStory) error {
		res, err := s.Create(ctx, store.CreateParams{Namespace: storySpace, Runs: []store.NewRun{{
			ID: n.id("run"), Workflow: n.text("wf"), Queue: kit.Queue, Input: []byte(n.text("input")), ExternalID: n.text("external"), Reuse: store.ReuseNever,
		}}})
		return firstOf(err, func() error { return res[0].Err })
	}, func(n killStory, see map[string]string) {
		n.seeRun(see, store.Pending, 0, "")
		see["external id"] = n.id("run").String()
	}},
	{"Signal", func(ctx context.Context, s store.Store, n killStory) error { return n.signal(ctx, s, "first") },
		func(n killStory, see map[string]string) { see["signals"] = n.text("first") + " " }},
	{"SetState", func(ctx context.Context, s store.Store, n killStory) error { return n.setState(ctx, s, "before") },
		func(n killStory, see map[string]string) { see["state"] = "k=before " }},
	{"Claim", func(ctx context.Context, s store.Store, n killStory) error {
		got, err := s.Claim(ctx, store.ClaimParams{Namespace: storySpace, Worker: storyWorker, LeaseFor: storyLong, Demands: []store.Demand{{Queue: kit.Queue, Workflows: []string{n.text("wf")}, Max: 1}}})
		return firstOf(err, func() error {
			if len(got.Runs) != 1 || got.Runs[0].Lease != n.lease() {
				return fmt.Errorf("saw %+v, expected the run of killStory %d in its first epoch", got.Runs, n)
			}
			return nil
		})
	}, func(n killStory, see map[string]string) { n.seeRun(see, store.Running, 1, "") }},
	{"a commit", func(ctx context.Context, s store.Store, n killStory) error {
		kid := func(i int64) store.NewRun {
			return store.NewRun{ID: n.id(fmt.Sprint("kid ", i)), Workflow: n.text("kid"), Queue: kit.KidQueue, Group: "g", Ordinal: i}
		}
		return n.commit(ctx, s, store.Commit{
			Seq: 1, Steps: []store.StepRecord{kit.Step(1, "a", n.text("a")), kit.Step(2, "b", n.text("b"))}, Consumed: []store.SignalID{n.id("first")},
			State: []store.StateWrite{{Key: "l", Value: []byte("mine")}}, Spawn: []store.NewRun{kid(1), kid(2)},
		})
	}, func(n killStory, see map[string]string) {
		see["steps"] = fmt.Sprintf("a=%s b=%s ", n.text("a"), n.text("b"))
		see["state"] = "k=before l=mine "
		see["groups"] = "g: 2 of 2 open "
		see["kid 1"] = fmt.Sprintf("%v, epoch 0, input %q, output %q", store.Pending, "", "")
		see["kid 2"] = see["kid 1"]
		delete(see, "signals")
	}},
	{"a second Signal", func(ctx context.Context, s store.Store, n killStory) error { return n.signal(ctx, s, "second") },
		func(n killStory, see map[string]string) { see["signals"] = n.text("second") + " " }},
	{"a second SetState", func(ctx context.Context, s store.Store, n killStory) error { return n.setState(ctx, s, "after") },
		func(n killStory, see map[string]string) { see["state"] = "k=after l=mine " }},
	{"PutSchedule", func(ctx context.Context, s store.Store, n killStory) error {
		_, err := s.PutSchedule(ctx, store.PutScheduleParams{Namespace: storySpace, Schedule: store.Schedule{
			Name: n.text("schedule"), Workflow: n.text("tick"), Queue: kit.Queue, Spec: n.text("spec"), NextAt: kit.Began.Add(-10 * 365 * 24 * time.Hour),
		}})
		return err
	}, func(n killStory, see map[string]string) { see["schedule"] = n.text("spec") }},
	{"Fire", func(ctx context.Context, s store.Store, n killStory) error {
		at := kit.Began.Add(-10 * 365 * 24 * time.Hour)
		res, err := s.Fire(ctx, store.FireParams{Namespace: storySpace, Schedule: n.text("schedule"), At: at, Run: &store.NewRun{ID: n.id("fired"), Workflow: n.text("tick"), Queue: kit.Queue}})
		return firstOf(err, func() error {
			if !res.Made {
				return fmt.Errorf("saw %+v, expected it to make its run", res)
			}
			return nil
		})
	}, func(n killStory, see map[string]string) {
		see["firings"] = n.id("fired").String() + " "
		see["fired"] = fmt.Sprintf("%v, epoch 0, input %q, output %q", store.Pending, "", "")
	}},
	{"the commit of a transition", func(ctx context.Context, s store.Store, n killStory) error {
		t := []*store.Transition{kit.Complete(n.text("output")), kit.FailWith("x"), kit.SleepFor(storyLong)}[n%3]
		return n.commit(ctx, s, store.Commit{Seq: 2, Seen: 1 << 40, Steps: []store.StepRecord{kit.Step(3, "d", n.text("d"))}, Transition: t})
	}, func(n killStory, see map[string]string) {
		see["steps"] += fmt.Sprintf("d=%s ", n.text("d"))
		n.seeRun(see, []store.Status{store.Completed, store.Failed, store.Sleeping}[n%3], 1, []string{n.text("output"), "", ""}[n%3])
		if n%3 < 2 { // the children end with their parent
			see["groups"] = "g: 0 of 2 open "
			see["kid 1"] = fmt.Sprintf("%v, epoch 0, input %q, output %q", store.Canceled, "", "")
			see["kid 2"] = see["kid 1"]
		}
	}},
	{"Purge, Restart or Pause", func(ctx context.Context, s store.Store, n killStory) error {
		switch n % 3 {
		case 0:
			_, err := s.Purge(ctx, store.PurgeParams{Namespace: storySpace, Workflow: n.text("wf")})
			return err
		case 1:
			res, err := s.Restart(ctx, store.RestartParams{Namespace: storySpace, IDs: []store.ID{n.id("run")}})
			return firstOf(err, func() error { return res[0].Err })
		}
		res, err := s.Pause(ctx, store.PauseParams{Namespace: storySpace, IDs: []store.ID{n.id("run")}})
		return firstOf(err, func() error { return res[0].Err })
	}, func(n killStory, see map[string]string) {
		switch n % 3 {
		case 0:
			for _, key := range []string{"run", "external id", "steps", "state", "signals", "groups"} {
				delete(see, key)
			}
		case 1:
			n.seeRun(see, store.Pending, 2, "")
		case 2:
			n.seeRun(see, store.Paused, 1, "")
		}
	}},
	{"DeleteSchedule", func(ctx context.Context, s store.Store, n killStory) error {
		return s.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: storySpace, Name: n.text("schedule")})
	}, func(_ killStory, see map[string]string) {
		delete(see, "schedule")
		delete(see, "firings")
	}},
}
