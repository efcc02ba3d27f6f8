package storetier

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// sendN sends n signals of a name and a size to a run, in one call.
func (c *C) sendN(id store.ID, n int, name string, size int) {
	c.Helper()
	for _, res := range c.signals(signalsOf(id, n, name, size)...) {
		c.ok("Signal's item", res.Err)
	}
}

func signalsOf(id store.ID, n int, name string, size int) []store.NewSignal {
	sigs := make([]store.NewSignal, n)
	for i := range sigs {
		sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: name, Payload: make([]byte, size)}
	}
	return sigs
}

// signalsInTurn sends many signals in several calls: a server may limit the time of one.
func (c *C) signalsInTurn(sigs []store.NewSignal) {
	c.Helper()
	for part := range slices.Chunk(sigs, 250) {
		for _, res := range c.signals(part...) {
			c.ok("Signal's item", res.Err)
		}
	}
}

// keepN writes n keys of a size: k0000 and so on.
func (c *C) keepN(id store.ID, n, size int) {
	c.Helper()
	p := store.SetStateParams{Namespace: c.ns, Run: id, Now: c.now}
	for i := range n {
		p.Writes = append(p.Writes, store.StateWrite{Key: fmt.Sprintf("k%04d", i), Value: make([]byte, size)})
	}
	_, err := c.s.SetState(c.ctx, p)
	c.ok("SetState", err)
}

// box reads an inbox.
func (c *C) box(p store.InboxParams) store.Inbox {
	c.Helper()
	p.Namespace = c.ns
	in, err := c.s.Inbox(c.ctx, p)
	c.ok("Inbox", err)
	return in
}

// entries reads state.
func (c *C) entries(p store.GetStateParams) []store.StateEntry {
	c.Helper()
	p.Namespace = c.ns
	list, err := c.s.GetState(c.ctx, p)
	c.ok("GetState", err)
	return list
}

func keysOf(list []store.StateEntry) []string {
	keys := []string{}
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	return keys
}

// boundedClaims claims runs that have n items of 1000 bytes each, with several limits. brought
// returns how many items of a run were returned, whether there are more, and how many a read after
// them finds.
func (c *C) boundedClaims(runs, n int, brought func(r store.ClaimedRun) (items int, more bool, rest int)) {
	c.Helper()
	for _, limit := range []int{500, 2500, 7500, n*1000 - 1, n * 1000, 100_000} {
		got := c.claim(store.ClaimParams{Max: runs, MaxBytes: limit}).Runs
		c.eq("runs", len(got), runs)
		sum, cut := 0, false
		for _, r := range got {
			items, more, rest := brought(r)
			c.eq(fmt.Sprintf("whether there are more, of %d that came with MaxBytes %d", items, limit), more, items < n)
			c.eq("items of the claim and of the rest", items+rest, n)
			c.check(items == 0 || !cut, "MaxBytes %d: a run behind one that was cut off came with %d items", limit, items)
			sum, cut = sum+items, cut || more
			c.commit(store.Commit{Lease: r.Lease, Transition: release()})
		}
		c.eq(fmt.Sprintf("items of a claim of MaxBytes %d", limit), sum, min(limit/1000, runs*n))
	}
}

var boundCases = []Case{
	{"claim/bytes-by-priority", "P12", "MaxBytes leaves the runs that are last in the order of P7, whatever their priorities and times", func(c *C) {
		var ids []store.ID
		for _, priority := range []int{0, 5, 3, 5} {
			ids = append(ids, c.create(store.NewRun{Priority: priority, Input: make([]byte, 1000)}))
			c.advance(time.Second)
		}
		for _, want := range [][]store.ID{{ids[1], ids[3]}, {ids[2], ids[0]}} {
			got := c.claim(store.ClaimParams{Max: 4, MaxBytes: 2500}).Runs
			c.eq("runs", runIDs(got), want)
		}
	}},
	{"claim/inputs-bounded-in-bytes", "P12", "a claim takes only as many runs as MaxBytes has room for their inputs, metas and failures, in the order of P7, but at least one; the others are still due", func(c *C) {
		var ids []store.ID
		for range 5 {
			ids = append(ids, c.create(store.NewRun{Input: make([]byte, 800), Meta: make([]byte, 200)}))
			c.advance(time.Second)
		}
		for _, tt := range []struct{ limit, want int }{{1, 1}, {1999, 1}, {2000, 2}, {2500, 2}, {4999, 4}, {5000, 5}} {
			got := c.claim(store.ClaimParams{Max: 5, MaxBytes: tt.limit})
			c.eq(fmt.Sprintf("runs of a claim of MaxBytes %d", tt.limit), runIDs(got.Runs), ids[:tt.want])
			if tt.want < 5 {
				c.check(!got.NextDue.IsZero() && !got.NextDue.After(got.Now), "NextDue with runs left: saw %v, expected a time that is not after %v", got.NextDue, got.Now)
			}
			for _, r := range got.Runs {
				c.eq("bytes of input and meta", []int{len(r.Run.Input), len(r.Run.Meta)}, []int{800, 200})
			}
			for _, id := range ids[tt.want:] {
				c.eq("status of a run that was left", c.get(id).Status, store.Pending)
			}
			for _, r := range got.Runs {
				c.end(r, release())
			}
			ids = c.pendingInOrder(5)
		}
		// Some databases store a large input separately; it counts nevertheless.
		size := min(50_000, c.s.Limits().Payload)
		large := c.create(store.NewRun{Queue: "large", Input: make([]byte, size)})
		c.advance(time.Second)
		small := c.create(store.NewRun{Queue: "large"})
		got := c.claim(store.ClaimParams{MaxBytes: 1000, Demands: []store.Demand{demand("large", 2)}}).Runs
		c.eq("runs with a large input first", runIDs(got), []store.ID{large})
		c.eq("its bytes", len(got[0].Run.Input), size)
		got = c.claim(store.ClaimParams{MaxBytes: 1000, Demands: []store.Demand{demand("large", 2)}}).Runs
		c.eq("runs behind it", runIDs(got), []store.ID{small})
		// Failures of earlier attempts count, too.
		c.createN(3, store.NewRun{Queue: "failing"})
		for _, r := range c.claim(store.ClaimParams{Demands: []store.Demand{demand("failing", 3)}}).Runs {
			c.end(r, &store.Transition{Kind: store.Retry, Failure: &store.Failure{Code: "x", Message: string(bytes.Repeat([]byte("m"), 100_000))}})
		}
		for range 3 {
			got := c.claim(store.ClaimParams{MaxBytes: 150_000, Demands: []store.Demand{demand("failing", 3)}}).Runs
			c.eq("runs with a failure of 100,000 bytes in a claim of 150,000", len(got), 1)
		}
	}},
	{"claim/steps-bounded", "P12", "a claim returns at most MaxPage steps of a run, and counts the failures of steps; Steps has the rest", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i := range store.MaxPage + 5 {
			recs = append(recs, step(int64(i+1), fmt.Sprintf("s%04d", i), "o"))
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs, Transition: release()})
		run = c.claim1()
		c.eq("steps", len(run.Steps), store.MaxPage)
		c.eq("MoreSteps", run.MoreSteps, true)
		page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, After: run.Steps[store.MaxPage-1].Position})
		c.ok("Steps", err)
		c.eq("steps behind them", len(page.Steps), 5)
		c.end(run, complete(""))

		run, recs = c.start(), nil
		for i := range 3 {
			s := step(int64(i+1), fmt.Sprint("f", i), "")
			s.Output, s.Status, s.Failure = nil, store.StepFailed, &store.Failure{Code: "x", Message: string(bytes.Repeat([]byte("m"), 100_000))}
			recs = append(recs, s)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs, Transition: release()})
		got := c.one(c.claim(store.ClaimParams{MaxBytes: 150_000}).Runs)
		c.eq("steps with a failure of 100,000 bytes in a claim of 150,000", len(got.Steps), 1)
		c.eq("MoreSteps", got.MoreSteps, true)
		page, err = c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: got.Run.ID, MaxBytes: 250_000})
		c.ok("Steps", err)
		c.eq("steps of a page of 250,000, and whether there are more", []any{len(page.Steps), page.Next != 0}, []any{2, true})
	}},
	{"claim/signals-bounded-in-bytes", "P12", "MaxBytes limits the payloads of the unread signals of all claimed runs, MaxPage the signals of each; MoreSignals says what is cut off, and Inbox has the rest", func(c *C) {
		for _, id := range c.createN(3, store.NewRun{}) {
			c.sendN(id, 5, "n", 1000)
		}
		c.boundedClaims(3, 5, func(r store.ClaimedRun) (int, bool, int) {
			var last int64
			for _, s := range r.Inbox.Signals {
				c.check(s.Position > last, "a signal's Position: saw %d behind %d", s.Position, last)
				c.eq("bytes of a signal", len(s.Payload), 1000)
				last = s.Position
			}
			return len(r.Inbox.Signals), r.Inbox.MoreSignals, len(c.box(store.InboxParams{Run: r.Run.ID, After: last}).Signals)
		})
		id := c.create(store.NewRun{Queue: "many"})
		c.signalsInTurn(signalsOf(id, store.MaxPage+5, "n", 1))
		in := c.claim(store.ClaimParams{Demands: []store.Demand{demand("many", 1)}}).Runs[0].Inbox
		c.eq("signals of a run that has more than MaxPage, and whether there are more", []any{len(in.Signals), in.MoreSignals}, []any{store.MaxPage, true})
		rest := c.box(store.InboxParams{Run: id, After: in.Signals[store.MaxPage-1].Position})
		c.eq("the rest", []any{len(rest.Signals), rest.MoreSignals}, []any{5, false})
	}},
	{"claim/state-bounded-in-bytes", "P12", "MaxBytes limits the state values of all claimed runs, MaxPage the entries of each; MoreState says what is cut off, and GetState has the rest", func(c *C) {
		for _, id := range c.createN(3, store.NewRun{}) {
			c.keepN(id, 5, 1000)
		}
		c.boundedClaims(3, 5, func(r store.ClaimedRun) (int, bool, int) {
			last := ""
			for i, e := range r.Inbox.State {
				c.eq("key", e.Key, fmt.Sprintf("k%04d", i))
				c.eq("bytes of a value", len(e.Value), 1000)
				last = e.Key
			}
			return len(r.Inbox.State), r.Inbox.MoreState, len(c.entries(store.GetStateParams{Run: r.Run.ID, After: last}))
		})
		id := c.create(store.NewRun{Queue: "many"})
		c.keepN(id, store.MaxPage+5, 1)
		in := c.claim(store.ClaimParams{Demands: []store.Demand{demand("many", 1)}}).Runs[0].Inbox
		c.eq("entries of a run that has more than MaxPage, and whether there are more", []any{len(in.State), in.MoreState}, []any{store.MaxPage, true})
	}},
	{"claim/bare", "P12", "a bare claim reads no payloads, whatever its MaxBytes, and says so; the lease is like any other", func(c *C) {
		full := c.startWith(store.NewRun{Input: []byte("in"), Meta: []byte("m")})
		id := full.Run.ID
		c.sendN(id, 1, "n", 10)
		c.keepN(id, 1, 10)
		c.commit(store.Commit{
			Lease: full.Lease, Steps: []store.StepRecord{step(1, "a", "out")}, Spawn: []store.NewRun{kid(1)},
			Transition: &store.Transition{Kind: store.Retry, Failure: &store.Failure{Code: "x", Message: "y"}},
		})
		c.advance(time.Second)
		empty := c.create(store.NewRun{Input: make([]byte, 4000)})
		got := c.claim(store.ClaimParams{Max: 2, MaxBytes: 1, Bare: true}).Runs
		c.eq("runs", runIDs(got), []store.ID{id, empty})
		for i, r := range got {
			c.eq("Omitted", r.Run.Omitted, true)
			c.eq("input, meta, output and failure", []any{r.Run.Input, r.Run.Meta, r.Run.Output, r.Run.Failure}, []any{[]byte(nil), []byte(nil), []byte(nil), (*store.Failure)(nil)})
			c.eq("steps, and whether there are more", []any{len(r.Steps), r.MoreSteps}, []any{0, i == 0})
			c.eq("signals, entries and groups", []int{len(r.Inbox.Signals), len(r.Inbox.State), len(r.Inbox.Groups)}, []int{0, 0, 0})
			c.eq("whether there are more of them", []bool{r.Inbox.MoreSignals, r.Inbox.MoreState, r.Inbox.MoreGroups}, []bool{true, true, true})
		}
		whole := c.get(id)
		c.eq("the run that Get reads", []any{string(whole.Input), string(whole.Meta), whole.Failure.Message, whole.Omitted}, []any{"in", "m", "y", false})
		c.eq("status and attempt", []any{got[0].Run.Status, got[0].Run.Attempt}, []any{store.Running, 2})
		c.commit(store.Commit{Lease: got[0].Lease, Transition: complete("")})
		c.commit(store.Commit{Lease: got[1].Lease, Transition: complete("")})
	}},
	{"inbox/bounded-in-bytes", "P12", "MaxBytes limits the payloads and the values separately, but the first of each is returned; the More fields say what is cut off", func(c *C) {
		id := c.create(store.NewRun{})
		c.sendN(id, 5, "n", 1000)
		c.keepN(id, 4, 1000)
		for _, tt := range []struct{ limit, signals, state int }{{1, 1, 1}, {1999, 1, 1}, {2000, 2, 2}, {4000, 4, 4}, {4999, 4, 4}, {5000, 5, 4}, {0, 5, 4}} {
			in := c.box(store.InboxParams{Run: id, MaxBytes: tt.limit})
			c.eq(fmt.Sprintf("signals and entries up to %d bytes", tt.limit), []int{len(in.Signals), len(in.State)}, []int{tt.signals, tt.state})
			c.eq("whether there are more", []bool{in.MoreSignals, in.MoreState, in.MoreGroups}, []bool{tt.signals < 5, tt.state < 4, false})
			c.eq("Events", in.Events, int64(9))
		}
	}},
	{"inbox/of-one-name", "P17", "with a Name, an inbox contains only the signals of that name; others do not count toward its limits, neither in bytes nor in number", func(c *C) {
		id := c.create(store.NewRun{})
		c.signalsInTurn(signalsOf(id, store.MaxPage+5, "a", 10))
		c.sendN(id, 1, "b", 1000)
		c.sendN(id, 1, "a", 10)
		c.sendN(id, 2, "b", 1000)
		in := c.box(store.InboxParams{Run: id, Name: "b", MaxBytes: 3000})
		c.eq("signals, and whether there are more", []any{len(in.Signals), in.MoreSignals}, []any{3, false})
		for _, s := range in.Signals {
			c.eq("name", s.Name, "b")
		}
		in = c.box(store.InboxParams{Run: id, Name: "b", MaxBytes: 2999, After: in.Signals[0].Position})
		c.eq("signals behind the first, and whether there are more", []any{len(in.Signals), in.MoreSignals}, []any{2, false})
		in = c.box(store.InboxParams{Run: id, Name: "B"})
		c.eq("signals of no such name, and whether there are more", []any{len(in.Signals), in.MoreSignals}, []any{0, false})
	}},
	{"inbox/pages-of-signals", "P17", "with a Position, an inbox contains the signals that were stored later; pages therefore contain each signal once, in order", func(c *C) {
		run := c.start()
		id := run.Run.ID
		const n = 2*store.MaxPage + 5
		sigs := make([]store.NewSignal, n)
		for i := range sigs {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: "n", Payload: fmt.Appendf(nil, "%04d", i)}
		}
		c.signalsInTurn(sigs)
		var sizes []int
		var after int64
		seen := 0
		for more := true; more && len(sizes) < 5; {
			in := c.box(store.InboxParams{Run: id, After: after})
			for _, s := range in.Signals {
				c.eq("a signal's place", string(s.Payload), fmt.Sprintf("%04d", seen))
				c.check(s.Position > after, "a signal's Position: saw %d behind %d", s.Position, after)
				seen, after = seen+1, s.Position
			}
			sizes, more = append(sizes, len(in.Signals)), in.MoreSignals
		}
		c.eq("pages", sizes, []int{store.MaxPage, store.MaxPage, 5})
		// A page that contains exactly the rest is the last one.
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{sigs[0].ID, sigs[1].ID, sigs[2].ID, sigs[3].ID, sigs[4].ID}})
		in := c.box(store.InboxParams{Run: id, After: c.box(store.InboxParams{Run: id}).Signals[store.MaxPage-1].Position})
		c.eq("the second page of two", []any{len(in.Signals), in.MoreSignals}, []any{store.MaxPage, false})
	}},
	{"inbox/without-state", "", "with NoState an inbox leaves the state unread, and does not say that there is more", func(c *C) {
		id := c.create(store.NewRun{})
		c.sendN(id, 2, "n", 10)
		c.keepN(id, 2, 10)
		in := c.box(store.InboxParams{Run: id, NoState: true})
		c.eq("signals, entries, and whether there are more", []any{len(in.Signals), len(in.State), in.MoreState}, []any{2, 0, false})
	}},
	{"sizes/pages-of-groups", "P9", "a claim and an inbox return at most MaxPage groups, by name; AfterGroup returns the rest", func(c *C) {
		run := c.start()
		const n = store.MaxPage + 5
		var spawn []store.NewRun
		for i := range n {
			k := kid(1)
			k.Group = fmt.Sprintf("g%04d", i)
			spawn = append(spawn, k)
		}
		c.commit(store.Commit{Lease: run.Lease, Spawn: spawn, Transition: release()})
		run = c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 1)}}).Runs)
		first := c.box(store.InboxParams{Run: run.Run.ID})
		for what, in := range map[string]store.Inbox{"a claim": run.Inbox, "an inbox": first} {
			c.eq("groups of "+what+", and whether there are more", []any{len(in.Groups), in.MoreGroups}, []any{store.MaxPage, true})
			for i, g := range in.Groups {
				c.eq("group", []any{g.Name, g.Total, g.Open}, []any{fmt.Sprintf("g%04d", i), int64(1), int64(1)})
			}
		}
		rest := c.box(store.InboxParams{Run: run.Run.ID, AfterGroup: first.Groups[len(first.Groups)-1].Name})
		c.eq("the rest, and whether there are more", []any{len(rest.Groups), rest.MoreGroups}, []any{5, false})
		c.eq("its last", rest.Groups[len(rest.Groups)-1].Name, fmt.Sprintf("g%04d", n-1))
		rest = c.box(store.InboxParams{Run: run.Run.ID, AfterGroup: "g0004"})
		c.eq("exactly MaxPage groups, and whether there are more", []any{len(rest.Groups), rest.MoreGroups}, []any{store.MaxPage, false})
	}},
	{"inbox/of-one-group", "P9", "with a Group, an inbox contains only that group", func(c *C) {
		run := c.start()
		var spawn []store.NewRun
		for _, name := range []string{"a", "b", "b", "c"} {
			k := kid(int64(len(spawn) + 1))
			k.Group = name
			spawn = append(spawn, k)
		}
		c.commit(store.Commit{Lease: run.Lease, Spawn: spawn})
		in := c.box(store.InboxParams{Run: run.Run.ID, Group: "b"})
		c.eq("groups, and whether there are more", []any{in.Groups, in.MoreGroups}, []any{[]store.Group{{Name: "b", Total: 2, Open: 2}}, false})
		in = c.box(store.InboxParams{Run: run.Run.ID, Group: "d"})
		c.eq("groups of no such name", len(in.Groups), 0)
		in = c.box(store.InboxParams{Run: run.Run.ID, AfterGroup: "b"})
		c.eq("groups behind it", len(in.Groups), 1)
	}},
	{"state/pages", "P14", "GetState returns the entries above After, up to Limit of them and MaxBytes, but at least one; without limits it returns all", func(c *C) {
		id := c.create(store.NewRun{})
		const n = store.MaxPage + 5
		c.keepN(id, n, 10)
		c.eq("entries without a bound", len(c.entries(store.GetStateParams{Run: id})), n)
		in := c.box(store.InboxParams{Run: id})
		c.eq("entries of an inbox, and whether there are more", []any{len(in.State), in.MoreState}, []any{store.MaxPage, true})
		rest := c.entries(store.GetStateParams{Run: id, After: in.State[store.MaxPage-1].Key})
		c.eq("entries behind them", keysOf(rest), []string{"k1000", "k1001", "k1002", "k1003", "k1004"})
		c.eq("entries behind the last", len(c.entries(store.GetStateParams{Run: id, After: "k1004"})), 0)
		c.eq("a page", keysOf(c.entries(store.GetStateParams{Run: id, After: "k0009", Limit: 3})), []string{"k0010", "k0011", "k0012"})
		for _, tt := range []struct{ limit, want int }{{1, 1}, {19, 1}, {20, 2}, {35, 3}, {1000, 4}} {
			c.eq(fmt.Sprintf("entries up to %d bytes", tt.limit), len(c.entries(store.GetStateParams{Run: id, After: "k0009", Limit: 4, MaxBytes: tt.limit})), tt.want)
		}
		c.eq("of some keys", keysOf(c.entries(store.GetStateParams{Run: id, Keys: []string{"k0001", "k0007", "k0005", "x"}, After: "k0001", Limit: 1})), []string{"k0005"})
	}},
	{"get/bounded-in-bytes", "P12", "Get returns complete runs up to MaxBytes, but at least the first; later ones say that they are not complete", func(c *C) {
		ids := c.createN(4, store.NewRun{Input: make([]byte, 600), Meta: make([]byte, 100)})
		for _, r := range c.claimN(4) {
			c.end(r, complete(string(make([]byte, 300))))
		}
		get := func(p store.GetParams) (whole int) {
			c.Helper()
			p.Namespace, p.IDs = c.ns, ids
			runs, err := c.s.Get(c.ctx, p)
			c.ok("Get", err)
			c.eq("runs", len(runs), 4)
			cut := false
			for i, r := range runs {
				c.eq("run", []any{r.ID, r.Status}, []any{ids[i], store.Completed})
				sizes := []int{len(r.Input), len(r.Meta), len(r.Output)}
				switch want := []int{600, 100, 300}; {
				case r.Omitted:
					cut = true
					c.eq("bytes of a run that was left out", sizes, []int{0, 0, 0})
				default:
					if p.NoInput {
						want = []int{0, 0, 300}
					}
					c.eq("bytes of a run", sizes, want)
					c.check(!cut, "a run behind one that was left out came whole")
					whole++
				}
			}
			return whole
		}
		for _, tt := range []struct{ limit, want, output int }{{1, 1, 1}, {899, 1, 2}, {900, 1, 3}, {1999, 1, 4}, {2000, 2, 4}, {3999, 3, 4}, {4000, 4, 4}, {0, 4, 4}} {
			c.eq(fmt.Sprintf("whole runs up to %d bytes", tt.limit), get(store.GetParams{MaxBytes: tt.limit}), tt.want)
			c.eq(fmt.Sprintf("whole runs without input up to %d bytes", tt.limit), get(store.GetParams{MaxBytes: tt.limit, NoInput: true}), tt.output)
		}
	}},
	{"namespaces/get-in-every-form", "P15", "Get finds no run of another namespace, whatever it leaves out", func(c *C) {
		id := c.recorded(complete("out")).Run.ID
		for _, p := range []store.GetParams{{}, {NoInput: true}, {FinalOnly: true}, {MaxBytes: 1}, {MaxBytes: 1, NoInput: true}, {MaxBytes: 1, FinalOnly: true}} {
			for ns, want := range map[string]int{c.ns: 1, c.ns + "-other": 0} {
				p.Namespace, p.IDs = ns, []store.ID{id}
				runs, err := c.s.Get(c.ctx, p)
				c.ok("Get", err)
				c.eq(fmt.Sprintf("runs in %q of %+v", ns, p), len(runs), want)
			}
		}
	}},
	{"children/bounded-in-bytes", "P12", "Children returns outputs and failures up to MaxBytes, but at least those of the first child; later children say that they were left out", func(c *C) {
		parent := c.family(sleepOn(store.WakeSignal), kids(4)...)
		for i := range 4 {
			if i < 3 {
				c.end(c.claimKid(), complete(string(make([]byte, 1000))))
			} else {
				c.end(c.claimKid(), &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "x", Message: string(bytes.Repeat([]byte("m"), 100_000))}})
			}
		}
		for _, tt := range []struct{ limit, want int }{{1, 1}, {1999, 1}, {2000, 2}, {3000, 3}, {50_000, 3}, {500_000, 4}, {0, 4}} {
			list, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g", MaxBytes: tt.limit})
			c.ok("Children", err)
			c.eq("children", len(list.Children), 4)
			for i, r := range list.Children {
				c.eq(fmt.Sprintf("ordinal, and whether it was left out, up to %d bytes", tt.limit), []any{r.Ordinal, r.Omitted}, []any{int64(i + 1), i >= tt.want})
				c.eq("whether it has an output or a failure", r.Output != nil || r.Failure != nil, i < tt.want)
			}
		}
	}},
	{"list/bounded-in-bytes", "P14", "a page of List ends before its failures exceed PageBytes; the pages contain each run once", func(c *C) {
		const size = 200_000
		ids := c.createN(store.PageBytes/size+5, store.NewRun{})
		for _, r := range c.claimN(len(ids)) {
			c.end(r, &store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "x", Message: string(bytes.Repeat([]byte("m"), size))}})
		}
		for _, oldest := range []bool{false, true} {
			p := store.ListParams{Namespace: c.ns, OldestFirst: oldest, Limit: store.MaxPage}
			seen := map[store.ID]int{}
			pages := 0
			for ; pages < 5; pages++ {
				page, err := c.s.List(c.ctx, p)
				c.ok("List", err)
				for _, r := range page.Runs {
					seen[r.ID]++
					c.check(r.Failure != nil && len(r.Failure.Message) == size, "run %v has lost its failure", r.ID)
				}
				c.check(len(page.Runs) > 0 && len(page.Runs)*size <= store.PageBytes, "a page holds %d runs with failures of %d bytes", len(page.Runs), size)
				if p.Cursor = page.Next; p.Cursor == "" {
					break
				}
			}
			c.eq("pages", pages+1, 2)
			for _, id := range ids {
				c.eq("how often a run came", seen[id], 1)
			}
		}
	}},
	{"schedules/bounded-in-bytes", "P14", "a page of ListSchedules ends before its inputs and metas exceed PageBytes; the pages contain each schedule once", func(c *C) {
		size := min(c.s.Limits().Payload, 500_000)
		n := store.PageBytes/size + 2
		names := []string{}
		for i := range n {
			names = append(names, fmt.Sprintf("s%04d", i))
			_, err := c.s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Now: c.now, Schedule: store.Schedule{
				Name: names[i], Workflow: aWorkflow, Queue: aQueue, Spec: "* * * * *", Input: make([]byte, size), NextAt: c.now,
			}})
			c.ok("PutSchedule", err)
		}
		p := store.ListSchedulesParams{Namespace: c.ns, Limit: store.MaxPage, Now: c.now}
		seen := []string{}
		pages := 0
		for ; pages < 5; pages++ {
			page, err := c.s.ListSchedules(c.ctx, p)
			c.ok("ListSchedules", err)
			for _, s := range page.Schedules {
				seen = append(seen, s.Name)
				c.eq("bytes of input", len(s.Input), size)
			}
			c.check(len(page.Schedules) > 0 && len(page.Schedules)*size <= store.PageBytes, "a page holds %d schedules with inputs of %d bytes", len(page.Schedules), size)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		c.eq("pages", pages+1, 2)
		c.eq("schedules", seen, names)
		page, err := c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.ns, Due: true, Limit: store.MaxPage, Now: c.now})
		c.ok("ListSchedules of those due", err)
		c.eq("those due at first", len(page.Schedules), store.PageBytes/size)
	}},
	{"workflows/bounded-in-bytes", "P14", "a page of ListWorkflows ends before its metas exceed PageBytes; the pages contain each workflow once", func(c *C) {
		const size = 60_000
		n := store.PageBytes/size + 3
		names := []string{}
		for i := range n {
			names = append(names, fmt.Sprintf("f%04d", i))
			c.putWorkflows(store.Workflow{Name: names[i], Queue: aQueue, Meta: make([]byte, size)})
		}
		pages := pagesOf(c, func(cursor string) ([]store.Workflow, string, error) {
			page, err := c.s.ListWorkflows(c.ctx, store.ListWorkflowsParams{Namespace: c.ns, Limit: store.MaxPage, Cursor: cursor})
			return page.Workflows, page.Next, err
		}, nil)
		c.eq("sizes of pages", lengths(pages), []int{store.PageBytes / size, n - store.PageBytes/size})
		seen := []string{}
		for _, w := range slices.Concat(pages...) {
			seen = append(seen, w.Name)
			c.eq("bytes of meta", len(w.Meta), size)
		}
		c.eq("workflows", seen, names)
	}},
	{"workers/bounded-in-bytes", "P14", "a page of ListWorkers ends before its texts exceed PageBytes, but the first worker is always returned; the pages contain each worker once", func(c *C) {
		const size = 400_000
		text := strings.Repeat("é", size/2) // bytes count, not characters
		put := []store.Worker{
			{ID: "w1", Host: text, Queues: []string{text}, Workflows: []string{text}},
			{ID: "w2", Labels: map[string]string{"a": text}, Takes: map[string][]string{text: {"a"}}},
			{ID: "w3", Limits: map[string]int{text: 1}},
			{ID: "w4", Host: strings.Repeat("h", store.PageBytes+1)},
			{ID: "w5"},
		}
		for _, w := range put {
			w.TTL = time.Minute
			c.putWorker(w)
		}
		pages := pagesOf(c, func(cursor string) ([]store.Worker, string, error) {
			page, err := c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, Limit: store.MaxPage, Cursor: cursor, Now: c.now})
			return page.Workers, page.Next, err
		}, nil)
		c.eq("sizes of pages", lengths(pages), []int{2, 1, 1, 1})
		for i, w := range slices.Concat(pages...) {
			want := put[i]
			c.check(w.ID == want.ID && w.Host == want.Host && reflect.DeepEqual(w.Queues, want.Queues) && reflect.DeepEqual(w.Workflows, want.Workflows) && reflect.DeepEqual(w.Labels, want.Labels) &&
				reflect.DeepEqual(w.Takes, want.Takes) && reflect.DeepEqual(w.Limits, want.Limits), "worker %s, the %dth of the pages, is not as it was put", w.ID, i+1)
		}
	}},
	{"payload/call-of-commits", "P12", "a call of commits accepts CallBytes of payloads", func(c *C) {
		size := c.callPayload()
		n := store.CallBytes / size
		c.createN(n, store.NewRun{})
		var list []store.Commit
		for i, r := range c.claimN(n) {
			s := step(1, "a", "")
			s.Output = make([]byte, size/2)
			m := store.Commit{Lease: r.Lease, Steps: []store.StepRecord{s}}
			switch i % 3 {
			case 0:
				m.Transition = complete(string(make([]byte, size/2)))
			case 1:
				m.State = []store.StateWrite{{Key: "k", Value: make([]byte, size/2)}}
			default:
				k := kid(1)
				k.Input = make([]byte, size/2)
				m.Spawn = []store.NewRun{k}
			}
			list = append(list, m)
		}
		for i, res := range c.commits(list...) {
			c.ok("Commit's item", res.Err)
			id := list[i].Lease.Run
			c.eq("bytes of the step", len(c.steps(id)[0].Output), size/2)
			switch i % 3 {
			case 0:
				c.eq("bytes of the output", len(c.get(id).Output), size/2)
			case 1:
				c.eq("bytes of the value", len(c.entries(store.GetStateParams{Run: id})[0].Value), size/2)
			default:
				c.eq("bytes of the child's input", len(c.get(list[i].Spawn[0].ID).Input), size/2)
			}
		}
		// All of one kind, which some databases handle in one statement.
		c.createN(n, store.NewRun{Queue: "plain"})
		list = nil
		for _, r := range c.claim(store.ClaimParams{Demands: []store.Demand{demand("plain", n)}}).Runs {
			list = append(list, store.Commit{Lease: r.Lease, Transition: complete(string(make([]byte, size)))})
		}
		for i, res := range c.commits(list...) {
			c.ok("Commit's item", res.Err)
			c.eq("bytes of the output", len(c.get(list[i].Lease.Run).Output), size)
		}
	}},
	{"payload/large-commit", "P12", "a single commit may have more than CallBytes of payloads, each within the limit", func(c *C) {
		size := c.callPayload()
		n := store.CallBytes/size + 2
		run := c.start()
		m := store.Commit{Lease: run.Lease}
		for i := range n {
			s := step(int64(i+1), fmt.Sprintf("s%04d", i), "")
			s.Output = make([]byte, size)
			m.Steps = append(m.Steps, s)
		}
		c.commit(m)
		page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, After: int64(n - 1)})
		c.ok("Steps", err)
		c.eq("steps behind the last but one", len(page.Steps), 1)
		c.eq("bytes of the last", len(page.Steps[0].Output), size)
	}},
	{"payload/call-of-runs", "P12", "a call of new runs accepts CallBytes of payloads", func(c *C) {
		size := c.callPayload()
		runs := make([]store.NewRun, store.CallBytes/size)
		for i := range runs {
			runs[i] = fill(store.NewRun{Input: make([]byte, size)})
		}
		for _, res := range c.creates(runs...) {
			c.ok("Create's item", res.Err)
			c.eq("bytes of the input", len(c.get(res.ID).Input), size)
		}
	}},
	{"payload/call-of-signals", "P12", "a call of signals accepts CallBytes of payloads", func(c *C) {
		size := c.callPayload()
		id := c.create(store.NewRun{})
		c.sendN(id, store.CallBytes/size, "n", size)
		var after int64
		for range store.CallBytes / size {
			in := c.box(store.InboxParams{Run: id, After: after, MaxBytes: 1})
			c.eq("signals", len(in.Signals), 1)
			c.eq("bytes of the signal", len(in.Signals[0].Payload), size)
			after = in.Signals[0].Position
		}
	}},
}

// callPayload is the size of each payload in a call with CallBytes of payloads.
func (c *C) callPayload() int {
	size := store.CallBytes / 4
	for size > c.s.Limits().Payload {
		size /= 2
	}
	return size
}

// pendingInOrder creates runs and returns them in the order in which they would be claimed.
func (c *C) pendingInOrder(n int) []store.ID {
	c.Helper()
	got := c.claimN(n)
	for _, r := range got {
		c.commit(store.Commit{Lease: r.Lease, Transition: release()})
		c.advance(time.Microsecond)
	}
	return runIDs(got)
}
