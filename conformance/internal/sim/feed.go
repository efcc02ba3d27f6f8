package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// A feed is an external id whose runs clients start and reach with inputs: signals with a start and
// updates with a start. A run collects inputs in batches, answers requests, works, and shows what it
// does by streams, views and tags. It continues as new now and then, and ends when nothing comes any
// more. Then the next input starts the next run. The clients repeat calls as if they had crashed.
type feed struct {
	n       int
	clients [][]feedInput // what each client sends, in order
	most    int           // inputs of a batch
	within  time.Duration // that a batch waits
	turns   int           // batches of a generation
	pieces  int           // items of the generator with which a run begins; 0: it has none
	fails   int           // failing attempts of each step
	crashes int           // percent of calls that a client repeats although they were answered
}

// feedInput is a signal or a request.
type feedInput struct {
	Key   string
	Ask   bool          `json:",omitempty"`
	Bad   bool          `json:",omitempty"` // the run refuses the request
	Slow  bool          `json:",omitempty"` // the run answers it after a step
	pause time.Duration // of the client, before
}

// fed is the input of a run and of its generations, and its output.
type fed struct {
	Feed    int
	Turn    int      // generations before
	Got     []string // keys of inputs, in the order in which the run received them
	Batches int
	Pieces  []string // what the generator's items gave
}

type reply struct {
	Key string
	X   int64 // of the invocation that answered
}

// bit is an item of a stream.
type bit struct {
	X int64 // the execution, or the value, that it belongs to
	I int
}

var (
	feedWord    = workflow.NewSignal[feedInput]("word")
	feedAsk     = workflow.NewUpdate[feedInput, reply]("ask")
	feedNow     = workflow.NewStream[bit]("now")
	feedRecord  = workflow.NewStream[bit]("record", workflow.WithRecord())
	feedTurns   = workflow.NewStream[bit]("turns")
	feedLast    = workflow.NewView[int64]("last")
	feedBatches = workflow.NewView[int]("batches")
)

const feedFlow = "feed"

// feedStart names the workflow to clients, whose engines do not run it.
var feedStart = workflow.Ref[fed, fed](feedFlow)

func (f *feed) external() string { return fmt.Sprint("feed-", f.n) }

// inputs is the number of all inputs.
func (f *feed) inputs() (n int) {
	for _, c := range f.clients {
		n += len(c)
	}
	return n
}

// newFeeds draws the feeds of a world. They have numbers of their own, so that a seed has the same plans with and
// without them.
func (w *world) newFeeds() {
	r := w.rng("feeds", 0)
	if r.IntN(3) > 0 {
		return
	}
	m := &maker{Rand: r, lease: w.profile.lease, long: w.profile.long}
	for n := range 1 + m.IntN(2) {
		f := &feed{n: n, most: 1 + m.IntN(4), within: m.upTo(2 * m.lease), turns: 1 + m.IntN(3), fails: m.IntN(3) * m.IntN(2), crashes: [...]int{0, 20, 50}[m.IntN(3)]}
		if m.chance(40) && w.profile.maxCrashes >= 10 { // the children of a run that fails would be canceled
			f.pieces = 1 + m.IntN(6)
		}
		for c := range 1 + m.IntN(3) {
			var list []feedInput
			for i := range 1 + m.IntN(6) {
				in := feedInput{Key: fmt.Sprintf("%d/%d/%d", n, c, i), Ask: m.chance(50), pause: m.upTo(w.profile.chaos / 2)}
				in.Bad, in.Slow = in.Ask && m.chance(15), in.Ask && m.chance(40)
				list = append(list, in)
			}
			f.clients = append(f.clients, list)
		}
		w.feeds = append(w.feeds, f)
	}
}

func (p *proc) feedDefinitions() []workflow.Definition {
	return []workflow.Definition{workflow.New(feedFlow, p.feed), workflow.New("piece", p.piece)}
}

// feed is the workflow's function.
func (p *proc) feed(ctx workflow.Context, in fed) (fed, error) {
	f := p.world.feeds[in.Feed]
	if f.pieces > 0 && in.Turn == 0 {
		item := workflow.Ref[int, int]("piece")
		_, err := workflow.Generate(ctx, "pieces", func(_ context.Context, yield func(int) error) error {
			for i := range f.pieces {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, item, workflow.Fold(&in.Pieces, func(all []string, place int64, out int) ([]string, error) {
			return append(all, fmt.Sprint(place, ":", out)), nil
		}))
		if err != nil {
			return in, err
		}
	}
	for range f.turns {
		words, err := feedWord.ReceiveMany(ctx, f.most, f.within)
		if err != nil {
			return in, err
		}
		for _, w := range words {
			in.Got = append(in.Got, w.Key)
		}
		if len(words) > 0 {
			if err := p.feedStep(ctx, f, "work"); err != nil {
				return in, err
			}
		}
		asked, err := p.feedAnswer(ctx, f, &in)
		if err != nil {
			return in, err
		}
		if len(words) == 0 && !asked {
			return in, nil
		}
		in.Batches++
		if err := p.feedShow(ctx, &in); err != nil {
			return in, err
		}
	}
	in.Turn++
	return in, workflow.ContinueAsNew(ctx, in)
}

// feedAnswer receives a request, if one comes, and answers it.
func (p *proc) feedAnswer(ctx workflow.Context, f *feed, in *fed) (bool, error) {
	req, err := feedAsk.ReceiveTimeout(ctx, f.within, workflow.Validate(func(in feedInput) error {
		if in.Bad {
			return errTransient
		}
		return nil
	}))
	if errors.Is(err, workflow.ErrTimeout) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	in.Got = append(in.Got, req.In.Key)
	if req.In.Slow {
		if err := p.feedStep(ctx, f, "think"); err != nil {
			return false, err
		}
	}
	return true, req.Answer(ctx, reply{req.In.Key, p.world.value()}, nil)
}

// feedShow sets tags, publishes, and appends to a stream.
func (p *proc) feedShow(ctx workflow.Context, in *fed) error {
	tags := map[string]string{"batches": fmt.Sprint(in.Batches), "odd": ""}
	if in.Batches%2 == 1 {
		tags["odd"] = "yes"
	}
	return errors.Join(
		workflow.SetTags(ctx, tags),
		feedBatches.Publish(ctx, in.Batches),
		feedTurns.AppendInRun(ctx, bit{p.world.value(), in.Batches}),
	)
}

// feedStep is a step that appends to streams and publishes.
func (p *proc) feedStep(ctx workflow.Context, f *feed, name string) error {
	run := ctx.Info().RunID
	_, err := workflow.Step(ctx, name, func(sctx context.Context) (stepOut, error) {
		info := exec.Info(sctx)
		if p.dead() {
			p.haunt()
			return stepOut{}, errCut
		}
		e := p.world.executing(p, run, info.Key)
		n := feedItems(e.x)
		if err := feedRecord.Append(sctx, bit{e.x, 0}); err != nil {
			return stepOut{}, err
		}
		for i := range n {
			if err := feedNow.Append(sctx, bit{e.x, i}); err != nil {
				return stepOut{}, err
			}
			if err := p.work(sctx, 50*time.Millisecond, true); err != nil {
				return stepOut{}, err
			}
		}
		for i := 1; i < n; i++ {
			if err := feedRecord.Append(sctx, bit{e.x, i}); err != nil {
				return stepOut{}, err
			}
		}
		if err := feedLast.Publish(workflow.InStep(sctx), e.x); err != nil {
			return stepOut{}, err
		}
		if info.Attempt <= f.fails {
			return stepOut{}, errTransient
		}
		p.world.succeeded(e)
		return stepOut{e.x}, nil
	}, workflow.Attempts(100), workflow.Backoff(time.Second, 1, time.Second))
	return err
}

// feedItems is how many items an execution appends to each stream.
func feedItems(x int64) int { return 1 + int(x%3) }

// piece is the workflow of a generator's items.
func (p *proc) piece(ctx workflow.Context, n int) (int, error) {
	run := ctx.Info().RunID
	_, err := workflow.Step(ctx, "piece", func(sctx context.Context) (stepOut, error) {
		if p.dead() {
			p.haunt()
			return stepOut{}, errCut
		}
		e := p.world.executing(p, run, exec.Info(sctx).Key)
		p.world.succeeded(e)
		return stepOut{e.x}, nil
	}, workflow.Attempts(100), workflow.Backoff(time.Second, 1, time.Second))
	return 2 * n, err
}

// sent is what was told to a client of an input.
type sent struct {
	feedInput
	feed       *feed
	runs       map[store.ID]bool // to which its calls were told to have gone
	answer     string            // empty: none yet
	unanswered bool
	done       bool
}

// feeder is a client: it sends its inputs one after the other, each until it is acknowledged and
// answered. At times it forgets what it was told, and does it again.
func (w *world) feeder(f *feed, inputs []feedInput) {
	r := w.rng("feeder "+inputs[0].Key, 0)
	for _, in := range inputs {
		if !w.sleep(in.pause) {
			return
		}
		s := &sent{feedInput: in, feed: f, runs: map[store.ID]bool{}}
		w.mu.Lock()
		w.inputs = append(w.inputs, s)
		w.mu.Unlock()
		for again := 0; ; again++ {
			if !w.feedOne(f, s) {
				return
			}
			if r.IntN(100) >= f.crashes || again == 3 {
				break
			}
			w.count("feed: input sent again by a client that forgot it")
		}
		w.mu.Lock()
		s.done = true
		w.mu.Unlock()
	}
}

// feedOne sends an input until the store acknowledges it, and waits for the answer of a request; false: the
// world has ended.
func (w *world) feedOne(f *feed, s *sent) bool {
	for {
		eng := w.client
		if len(w.procs) > 0 && hash(s.Key)%2 == 0 {
			if pr := w.procs[int(hash(s.Key)%uint64(len(w.procs)))].current(); pr != nil && w.crashAt == nil {
				eng = pr.eng
			}
		}
		err := w.feedCall(eng, f, s)
		switch {
		case err == nil:
			return true
		case w.ctx.Err() != nil:
			return false
		case !store.Retryable(err) && !errors.Is(err, errCut) && !errors.Is(err, engine.ErrUnknownWorkflow) && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, context.DeadlineExceeded):
			w.fail("input %s: %v", s.Key, err)
			return false
		}
		pause := w.profile.lease / 5
		if errors.Is(err, context.DeadlineExceeded) {
			pause = w.profile.long / 5
		}
		if !w.sleep(pause) {
			return false
		}
	}
}

func (w *world) feedCall(eng *engine.Engine, f *feed, s *sent) error {
	id := engine.ExternalID(f.external(), engine.WhileActive)
	first := fed{Feed: f.n}
	tags := engine.Tags(map[string]string{"feed": fmt.Sprint(f.n), "batches": "0"})
	if !s.Ask {
		h, err := feedStart.SignalWithStart(w.ctx, eng, first, feedWord.With(s.feedInput, workflow.SendKey(s.Key)), id, tags)
		if err == nil {
			w.feedAcked(s, h.ID())
		}
		return err
	}
	asked, err := feedAsk.Send(w.ctx, feedStart.WithStart(eng, first, id, tags), s.feedInput, workflow.SendKey(s.Key))
	if err != nil {
		return err
	}
	w.feedAcked(s, asked.Run())
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute) // polls of days would take minutes of ours
	defer cancel()
	out, err := asked.Wait(ctx)
	return w.feedAnswered(s, out, err)
}

// feedAcked notes to which run a call was told to have gone.
func (w *world) feedAcked(s *sent, id store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("client", "input %s acknowledged: %s", s.Key, w.name(id))
	first := len(s.runs) == 0
	s.runs[id] = true
	if len(s.runs) > 1 {
		w.failLocked("input %s was told to have reached %d runs", s.Key, len(s.runs))
	}
	run := w.runs[id]
	if run == nil || run.fed == nil {
		w.failLocked("input %s was acknowledged with %s, which was never made", s.Key, w.name(id))
		return
	}
	if first && !run.fed.read {
		run.fed.read = true
		w.wg.Go(func() { w.feedReader(id) })
	}
}

// feedAnswered notes an answer, which must be the one that was given before.
func (w *world) feedAnswered(s *sent, out reply, err error) error {
	var refused *workflow.AnswerError
	var got string
	switch {
	case err == nil:
		got = fmt.Sprint(out)
	case errors.As(err, &refused):
		got = "refused: " + refused.Failure.Code
	case errors.Is(err, engine.ErrUnanswered):
		w.mu.Lock()
		defer w.mu.Unlock()
		s.unanswered = true
		return nil
	default:
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.answer != "" && s.answer != got:
		w.failLocked("input %s was answered with %q and then with %q", s.Key, s.answer, got)
	case s.answer != "":
		w.counts.add("feed: answered again")
	}
	s.answer = got
	return nil
}

// feedReader reads the stream of a run while the run goes on, discards what is superseded, and begins again
// from its last cursor after an error.
func (w *world) feedReader(id store.ID) {
	var have []workflow.Item[bit]
	var cursor workflow.Cursor
	for w.ctx.Err() == nil {
		var failed error
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
		for item, err := range feedNow.Read(ctx, w.client, id, cursor) {
			if err != nil {
				failed = err
				break
			}
			if cursor = item.Cursor; item.Reset {
				before := len(have)
				have = slices.DeleteFunc(have, func(was workflow.Item[bit]) bool { return was.Step == item.Step && was.Generation == item.Generation })
				if len(have) < before {
					w.count("feed: reader discarded items")
				}
			}
			have = append(have, item)
		}
		cancel()
		if failed == nil {
			w.mu.Lock()
			s := w.runs[id]
			s.fed.live, s.fed.ended = nil, true
			for _, it := range have {
				s.fed.live = append(s.fed.live, it.Value)
			}
			w.mu.Unlock()
			return
		}
		if !store.Retryable(failed) && !errors.Is(failed, context.DeadlineExceeded) && w.ctx.Err() == nil {
			w.fail("reader of run %s: %v", id, failed)
			return
		}
		if !w.sleep(w.profile.long / 5) {
			return
		}
	}
}

// What the watcher knows of the runs of feeds.

// seenFed is the watcher's record of a run of a feed, or of its child.
type seenFed struct {
	feed     *feed
	parent   *seen // of a child; nil: it has none
	inputs   []store.SignalID
	xs       []int64 // of steps that were recorded, in order
	batches  int     // items that the function has appended
	tags     store.Tags
	read     bool // a reader has begun
	ended    bool // and has come to the end
	live     []bit
	views    map[string]string
	consumed []string // keys, in order
}

// delivery is a signal that a run has got.
type delivery struct {
	input    feedInput
	run      store.ID
	consumed bool
	answer   string // as it was committed first; empty: none
}

// fedCreate checks the outcome of a start with a signal.
func (w watched) fedCreate(n *store.NewRun, res store.CreateResult, now time.Time) {
	w.noteLocked(w.from.who, "create %s with signal %s: %s created %v repeated %v %v", w.name(n.ID), n.Signal.Payload, w.name(res.ID), res.Created, res.Repeated, res.Err)
	if res.Err != nil {
		w.failLocked("start %s with a signal: %v", n.ExternalID, res.Err)
		return
	}
	if d := w.deliveries[n.Signal.ID]; d != nil {
		w.count("feed: start with a signal repeated")
		if res.ID != d.run {
			w.failLocked("signal %s was repeated and reached %s, before it was %s", n.Signal.Payload, w.name(res.ID), w.name(d.run))
		}
		return
	}
	d := &delivery{run: res.ID}
	if err := json.Unmarshal(n.Signal.Payload, &d.input); err != nil {
		w.failLocked("a start with signal %q", n.Signal.Payload)
	}
	w.deliveries[n.Signal.ID] = d
	var active *seen
	for _, s := range w.runs {
		if s.external == n.ExternalID {
			if !s.final() {
				active = s
			} else if res.Created && !res.Repeated {
				w.counts.add("feed: next run")
			}
		}
	}
	s := w.runs[res.ID]
	switch {
	case active != nil && res.ID != active.id:
		w.failLocked("start %s with a signal reached %s, and %s is active", n.ExternalID, w.name(res.ID), w.name(active.id))
	case active != nil:
		w.count("feed: signal to the active run")
	case res.ID != n.ID || s != nil:
		w.failLocked("start %s with a signal reached %s, and no run is active", n.ExternalID, w.name(res.ID))
	default:
		var in fed
		if err := json.Unmarshal(n.Input, &in); err != nil || in.Feed >= len(w.feeds) {
			w.failLocked("run %s was made with input %q", n.ID, n.Input)
			return
		}
		s = w.newFed(n, &seenFed{feed: w.feeds[in.Feed], tags: maps.Clone(n.Tags)}, fmt.Sprint("f", in.Feed), now)
	}
	if s != nil {
		s.fed.inputs = append(s.fed.inputs, n.Signal.ID)
	}
}

// newFed adds a run to those that were seen.
func (w watched) newFed(n *store.NewRun, f *seenFed, name string, now time.Time) *seen {
	s := &seen{id: n.ID, name: name, external: n.ExternalID, created: now, due: micro(now), status: store.Pending, steps: map[store.StepKey]seenStep{}, sleeper: map[store.StepKey]int64{}, fed: f}
	f.views = map[string]string{}
	for _, other := range w.runs {
		if other.name == s.name {
			s.name += "'"
		}
	}
	w.runs[n.ID] = s
	w.noteLocked(w.from.who, "run %s is %s", n.ID, s.name)
	return s
}

// fedCommit checks and notes what a commit that was applied says of inputs, streams, views and tags.
func (w watched) fedCommit(s *seen, c *store.Commit, now time.Time) {
	for _, id := range c.Consumed {
		d := w.deliveries[id]
		switch {
		case d == nil || d.run != s.id:
			w.failLocked("run %s has received signal %s, which it was not sent", w.name(s.id), id)
			continue
		case d.consumed:
			w.failLocked("run %s has received input %s twice", w.name(s.id), d.input.Key)
		}
		d.consumed = true
		if !d.input.Bad {
			s.fed.consumed = append(s.fed.consumed, d.input.Key)
		}
	}
	for _, a := range c.Answers {
		if d := w.deliveries[a.Signal]; d != nil && d.answer == "" {
			d.answer = "refused: "
			if a.Failure != nil {
				d.answer += a.Failure.Code
			} else {
				var out reply
				_ = json.Unmarshal(a.Output, &out)
				d.answer = fmt.Sprint(out)
			}
		}
	}
	for i := range c.Steps {
		st := &c.Steps[i]
		if st.Kind == store.KindFunction && st.Status == store.StepCompleted {
			var out stepOut
			_ = json.Unmarshal(st.Output, &out)
			s.fed.xs = append(s.fed.xs, out.X)
		}
	}
	for i := range c.Streams {
		if c.Streams[i].Stream == feedTurns.Name() {
			s.fed.batches += len(c.Streams[i].Items)
		}
	}
	for _, v := range c.State {
		s.fed.views[v.Key] = string(v.Value)
	}
	if c.Tags != nil {
		s.fed.tags = maps.Clone(c.Tags)
	}
	for i := range c.Spawn {
		w.count("feed: child")
		w.newFed(&c.Spawn[i], &seenFed{feed: s.fed.feed, parent: s}, s.name+"/piece", now)
	}
	if c.Transition != nil && c.Transition.Kind == store.Continue {
		w.count("feed: continued as new")
	}
}

// fedLimit is when a run of a feed must be final if all is well from a time on.
func (w *world) fedLimit(s *seen, from time.Time, slack time.Duration) time.Time {
	f := s.fed.feed
	turns := time.Duration(f.inputs() + 2)
	own := turns * (2*f.within + 2*time.Duration(f.fails+1)*2*time.Second)
	if w.profile.noHints {
		own += 8 * (turns + time.Duration(f.pieces)) * w.profile.poll
	}
	if f.pieces > 0 {
		own += 4 * w.profile.poll
	}
	return from.Add(3*w.profile.lease + own + slack)
}

// feedsWait reports whether clients still send, and which of them should have ended.
func (w *world) feedsWait(healed time.Time, slack time.Duration) (waiting bool, late []string) {
	acked := 0
	for _, s := range w.inputs {
		if s.done {
			acked++
		}
	}
	want := 0
	limit := healed.Add(w.profile.chaos/2 + slack)
	for _, f := range w.feeds {
		want += f.inputs()
		limit = limit.Add(time.Duration(f.inputs()) * (w.profile.chaos/2 + 4*(w.profile.retryFor+w.profile.lease+slack) + 2*f.within + w.profile.long))
	}
	if acked == want {
		return false, nil
	}
	if time.Now().After(limit) {
		return false, []string{fmt.Sprintf("%d of %d inputs of feeds are acknowledged and answered", acked, want)}
	}
	return true, nil
}

// checkFed compares the end of a run of a feed with what was committed.
func (w *world) checkFed(run store.Run) {
	s := w.runs[run.ID]
	if run.Status != s.status {
		w.failLocked("run %s is %v; what was committed makes it %v", s.name, run.Status, s.status)
	}
	crashed := run.Status == store.Failed && run.Failure != nil && run.Failure.Code == "crashed" && s.worst > w.profile.maxCrashes
	if run.Status != store.Completed && !crashed {
		w.failLocked("run %s ended as %v (%v)", s.name, run.Status, run.Failure)
		return
	}
	if s.fed.parent != nil {
		return
	}
	var out fed
	if err := json.Unmarshal(run.Output, &out); err != nil && !crashed {
		w.failLocked("run %s has output %q", s.name, run.Output)
	}
	w.checkInputs(s, out, crashed)
	w.checkShown(s, run, out, crashed)
	w.checkStreams(s, crashed)
	w.checkTree(s)
}

// checkTree checks that the counts of a run's tree are those of its children, which have none (P29).
func (w *world) checkTree(s *seen) {
	trees, ok := w.store.(store.TreeReader)
	if !ok {
		return
	}
	got, err := trees.Tree(w.ctx, store.TreeParams{Namespace: namespace, Run: s.id})
	if err != nil {
		w.failLocked("counts of the tree of run %s: %v", s.name, err)
		return
	}
	var want store.TreeCounts
	for id, child := range w.runs {
		if child.fed == nil || child.fed.parent != s {
			continue
		}
		runs, err := w.store.Get(w.ctx, store.GetParams{Namespace: namespace, IDs: []store.ID{id}})
		if err != nil || len(runs) != 1 {
			w.failLocked("get of run %s: %d runs, %v", child.name, len(runs), err)
			return
		}
		if runs[0].Group == "" {
			continue // its parent has continued as new
		}
		want.Total++
		switch runs[0].Status {
		case store.Completed:
			want.Completed++
		case store.Failed:
			want.Failed++
		case store.Canceled:
			want.Canceled++
		default:
			want.Open++
		}
	}
	if sum := got.Sum(); sum != want || got.Capped {
		w.failLocked("the tree of run %s has the counts %+v, expected %+v (P29)", s.name, sum, want)
	}
	w.countIf("feed: tree counted", want.Total > 0)
}

// checkInputs checks that each input was received once or is unread.
func (w *world) checkInputs(s *seen, out fed, crashed bool) {
	in, err := w.store.Inbox(w.ctx, store.InboxParams{Namespace: namespace, Run: s.id})
	if err != nil {
		w.failLocked("inbox of run %s: %v", s.name, err)
		return
	}
	unread := map[store.SignalID]bool{}
	for _, sig := range in.Signals {
		w.count("feed: input unread at the end")
		unread[sig.ID] = true
		if d := w.deliveries[sig.ID]; d == nil || d.run != s.id {
			w.failLocked("run %s has an unread signal %s that it was not sent", s.name, sig.Payload)
		}
	}
	for _, id := range s.fed.inputs {
		if d := w.deliveries[id]; d.consumed == unread[id] {
			w.failLocked("input %s of run %s: received %v, unread at the end %v", d.input.Key, s.name, d.consumed, unread[id])
		}
	}
	if len(unread) > len(s.fed.inputs) {
		w.failLocked("run %s has %d unread inputs of %d", s.name, len(unread), len(s.fed.inputs))
	}
	if !crashed && !slices.Equal(slices.Sorted(slices.Values(out.Got)), slices.Sorted(slices.Values(s.fed.consumed))) {
		w.failLocked("run %s saw inputs %q, and commits say that it has received %q", s.name, out.Got, s.fed.consumed)
	}
	if len(out.Got) > 1 {
		w.count("feed: several inputs of a run")
	}
	byClient := map[string]int{}
	for _, key := range out.Got { // signals of one client come in order, and so do requests
		client, i, _ := cutLast(key)
		ask := strconv.FormatBool(w.asks(key))
		if last, ok := byClient[client+ask]; ok && i <= last {
			w.failLocked("run %s saw inputs %q, out of order", s.name, out.Got)
		}
		byClient[client+ask] = i
	}
	if f := s.fed.feed; f.pieces > 0 && !crashed {
		w.count("feed: folded")
		var want []string
		for i := range f.pieces {
			want = append(want, fmt.Sprint(i+1, ":", 2*i))
		}
		if !slices.Equal(out.Pieces, want) {
			w.failLocked("run %s folded %q, expected %q", s.name, out.Pieces, want)
		}
	}
}

func cutLast(key string) (client string, i int, err error) {
	at := strings.LastIndexByte(key, '/')
	i, err = strconv.Atoi(key[at+1:])
	return key[:at], i, err
}

func (w *world) asks(key string) bool {
	return slices.ContainsFunc(w.inputs, func(s *sent) bool { return s.Key == key && s.Ask })
}

// checkShown compares views and tags with the last commits.
func (w *world) checkShown(s *seen, run store.Run, out fed, crashed bool) {
	if !maps.Equal(run.Tags, s.fed.tags) {
		w.failLocked("run %s has tags %v, the last commit has set %v", s.name, run.Tags, s.fed.tags)
	}
	if !crashed && run.Tags["batches"] != fmt.Sprint(out.Batches) {
		w.failLocked("run %s has tags %v after %d batches", s.name, run.Tags, out.Batches)
	}
	var matches []store.TagMatch
	for name, value := range s.fed.tags {
		matches = append(matches, store.TagMatch{Name: name, Values: []string{value}})
	}
	page, err := w.store.List(w.ctx, store.ListParams{Namespace: namespace, Filter: store.RunFilter{Tags: matches}})
	if err != nil || !slices.ContainsFunc(page.Runs, func(r store.Run) bool { return r.ID == run.ID }) {
		w.failLocked("run %s is not in the list of its tags %v: %v", s.name, s.fed.tags, err)
	}
	if s.fed.tags["odd"] == "" {
		page, err := w.store.List(w.ctx, store.ListParams{Namespace: namespace, Filter: store.RunFilter{Tags: []store.TagMatch{{Name: "odd", Values: []string{"yes"}}}}})
		if err != nil || slices.ContainsFunc(page.Runs, func(r store.Run) bool { return r.ID == run.ID }) {
			w.failLocked("run %s is in the list of a tag that it has not: %v", s.name, err)
		}
	}
	last, ok, err := feedLast.Get(w.ctx, w.clean, s.id)
	if n := len(s.fed.xs); err != nil || ok != (n > 0) || ok && last != s.fed.xs[n-1] {
		w.failLocked("run %s shows the view of execution %d (%v, %v), recorded are %v", s.name, last, ok, err, s.fed.xs)
	}
	n, ok, err := feedBatches.Get(w.ctx, w.clean, s.id)
	if err != nil || !crashed && (ok != (out.Batches > 0) || n != out.Batches) {
		w.failLocked("run %s shows %d batches (%v, %v), it had %d", s.name, n, ok, err, out.Batches)
	}
	state, err := w.store.GetState(w.ctx, store.GetStateParams{Namespace: namespace, Run: s.id})
	if err != nil || len(state) != len(s.fed.views) {
		w.failLocked("run %s has %d views, committed were %d: %v", s.name, len(state), len(s.fed.views), err)
	}
	for _, e := range state {
		if s.fed.views[e.Key] != string(e.Value) {
			w.failLocked("view %s of run %s is %q, the last commit has set %q", e.Key, s.name, e.Value, s.fed.views[e.Key])
		}
	}
}

// checkStreams compares the streams with the executions that were recorded.
func (w *world) checkStreams(s *seen, crashed bool) {
	var want []bit
	for _, x := range s.fed.xs {
		for i := range feedItems(x) {
			want = append(want, bit{x, i})
		}
	}
	record, err := w.readFed(feedRecord, s.id)
	if err != nil || !slices.Equal(record, want) {
		w.failLocked("run %s has appended %v with its records (%v), recorded were %v", s.name, record, err, want)
	}
	now, err := w.readFed(feedNow, s.id)
	if crashed && len(now) > len(want) { // the last attempt was not recorded
		now = now[:len(want)]
	}
	if err != nil || !slices.Equal(now, want) {
		w.failLocked("run %s has appended %v at once (%v), recorded were %v", s.name, now, err, want)
	}
	if s.fed.ended {
		w.count("feed: reader at the end")
		live := s.fed.live
		if crashed && len(live) > len(want) {
			live = live[:len(want)]
		}
		if !slices.Equal(live, want) {
			w.failLocked("a reader of run %s has %v, recorded were %v", s.name, live, want)
		}
	}
	turns, err := w.readFed(feedTurns, s.id)
	for i, b := range turns {
		if b.I != i+1 {
			w.failLocked("run %s has appended %v for its batches", s.name, turns)
			break
		}
	}
	if n, ok, _ := feedBatches.Get(w.ctx, w.clean, s.id); err != nil || ok && !crashed && len(turns) != n {
		w.failLocked("run %s has appended %v for %d batches: %v", s.name, turns, n, err)
	}
}

func (w *world) readFed(stream workflow.Stream[bit], id store.ID) (all []bit, err error) {
	for item, err := range stream.Read(w.ctx, w.clean, id, "") {
		if err != nil {
			return all, err
		}
		all = append(all, item.Value)
	}
	return all, nil
}

// checkFeeds compares what clients were told with what was committed.
func (w *world) checkFeeds() {
	byKey := map[string]*delivery{}
	for _, d := range w.deliveries {
		if byKey[d.input.Key] != nil {
			w.failLocked("input %s was delivered twice", d.input.Key)
		}
		byKey[d.input.Key] = d
	}
	for _, s := range w.inputs {
		d := byKey[s.Key]
		switch {
		case d == nil && len(s.runs) > 0:
			w.failLocked("input %s was acknowledged and never delivered", s.Key)
			continue
		case d == nil:
			continue
		case len(s.runs) > 0 && !s.runs[d.run]:
			w.failLocked("input %s was told to have reached another run than %s", s.Key, w.name(d.run))
		}
		if s.Bad && s.answer != "" && s.answer != "refused: "+workflow.CodeRefused {
			w.failLocked("input %s is bad, and was answered with %q", s.Key, s.answer)
		}
		switch {
		case s.answer != "" && (d.answer != s.answer || s.unanswered):
			w.failLocked("input %s was answered with %q, committed was %q; told as unanswered: %v", s.Key, s.answer, d.answer, s.unanswered)
		case s.unanswered && d.answer != "":
			w.failLocked("input %s was told to be unanswered, committed was %q", s.Key, d.answer)
		case s.unanswered:
			w.count("feed: unanswered")
		case s.answer != "":
			w.count("feed: answered")
		}
	}
}
