package storetier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// writer is the attempt of a step of a run that writes to a stream, and numbers its items.
type writer struct {
	c       *C
	run     store.ClaimedRun
	stream  string
	step    store.StepKey
	attempt int
	next    int64
}

// writes returns the first attempt of step gen, which writes to the stream "tokens".
func (c *C) writes(run store.ClaimedRun) *writer {
	return &writer{c: c, run: run, stream: "tokens", step: store.StepKey{Name: "gen", Occurrence: 1}, attempt: 1, next: 1}
}

// again returns a later attempt of the same step, under the same lease.
func (w *writer) again() *writer {
	n := *w
	n.attempt, n.next = w.attempt+1, 1
	return &n
}

// under returns the first attempt of the same step under another lease.
func (w *writer) under(run store.ClaimedRun) *writer {
	n := *w
	n.run, n.attempt, n.next = run, 1, 1
	return &n
}

// on returns the same attempt, which writes to another stream.
func (w *writer) on(stream string) *writer {
	n := *w
	n.stream, n.next = stream, 1
	return &n
}

// by returns another step, which writes to the same stream.
func (w *writer) by(step store.StepKey) *writer {
	n := *w
	n.step, n.next = step, 1
	return &n
}

func texts(items ...string) [][]byte {
	out := make([][]byte, len(items))
	for i := range items {
		out[i] = []byte(items[i])
	}
	return out
}

// write makes the next write.
func (w *writer) write(items ...string) store.StreamWrite {
	out := store.StreamWrite{Stream: w.stream, Step: w.step, Attempt: w.attempt, First: w.next, Items: texts(items...)}
	w.next += int64(len(items))
	return out
}

// append appends the next items at once.
func (w *writer) append(items ...string) {
	w.c.Helper()
	res, err := w.c.tryAppend(w.run.Lease, w.write(items...))
	w.c.ok("Append", err)
	w.c.eq("the append", res, store.AppendResult{})
}

func (c *C) streamer() store.Streamer { return c.s.(store.Streamer) }

func (c *C) tryAppend(l store.Lease, w store.StreamWrite) (store.AppendResult, error) {
	c.Helper()
	res, err := c.streamer().Append(c.ctx, store.AppendParams{Namespace: c.ns, Lease: l, StreamWrite: w, Now: c.now})
	if err != nil {
		c.eq("the result beside an error", res, store.AppendResult{})
	}
	return res, err
}

// stream reads a page of a stream.
func (c *C) stream(p store.ReadStreamParams) store.StreamPage {
	c.Helper()
	p.Namespace = c.ns
	page, err := c.streamer().ReadStream(c.ctx, p)
	c.ok("ReadStream", err)
	return page
}

// items reads all items of a stream of a run in pages of a size, and checks their order.
func (c *C) items(run store.ID, stream string, limit int) (items []store.StreamItem) {
	c.Helper()
	p := store.ReadStreamParams{Run: run, Stream: stream, Limit: limit}
	for {
		page := c.stream(p)
		for _, it := range page.Items {
			if it.Position <= p.After {
				c.Fatalf("an item after position %d: saw one at %d, expected a higher one", p.After, it.Position)
			}
			p.After = it.Position
		}
		items = append(items, page.Items...)
		if page.Next == 0 {
			return items
		}
		if page.Next != p.After {
			c.Fatalf("Next of a page with %d items: saw %d, expected %d", len(page.Items), page.Next, p.After)
		}
	}
}

// told writes items as a reader sees them: a reset mark is "!".
func told(items []store.StreamItem) string {
	var out []string
	for _, it := range items {
		text := string(it.Payload)
		if it.Reset {
			text = "!" + text
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// streams checks the items of stream tokens.
func (c *C) streams(what string, run store.ID, want string) {
	c.Helper()
	c.eq(what, told(c.items(run, "tokens", 0)), want)
}

var streamCases = slices.Concat(streamBasics, streamRules, streamLives, streamBounds)

var streamBasics = []Case{
	{"stream/appended", "P27", "items are visible when Append returns, in the order of writing, with who wrote them and when", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.eq("a stream without items", c.stream(store.ReadStreamParams{Run: id, Stream: "tokens"}), store.StreamPage{Status: store.Running})
		w := c.writes(run)
		w.step = store.StepKey{Branch: "b", Name: "gen", Occurrence: 2}
		w.append("a", "b")
		at := c.now
		c.advance(time.Second)
		w.append("c")
		page := c.stream(store.ReadStreamParams{Run: id, Stream: "tokens"})
		c.eq("Next", page.Next, int64(0))
		c.eq("Status", page.Status, store.Running)
		c.eq("Closed", page.Closed(), false)
		var want []store.StreamItem
		for i, text := range []string{"a", "b", "c"} {
			it := store.StreamItem{Stream: "tokens", Step: w.step, Attempt: 1, Epoch: 1, Number: int64(i + 1), At: at, Payload: []byte(text)}
			if i == 2 {
				it.At = c.now
			}
			if i < len(page.Items) {
				it.Position = page.Items[i].Position
			}
			want = append(want, it)
		}
		c.eq("items", page.Items, want)
		c.check(page.Items[0].Position > 0, "the first position: saw %d, expected one above 0", page.Items[0].Position)
		c.eq("the run's events", c.get(id).Events, int64(0))
	}},
	{"stream/committed", "P27", "items of a commit become visible with it, and a commit that is refused writes none", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		cm := store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "gen", "")}, Streams: []store.StreamWrite{w.write("a", "b"), w.on("log").write("x")}}
		bad := cm
		bad.Steps = []store.StepRecord{step(1, "gen", ""), step(2, "gen", "")}
		c.fails("a step recorded twice", c.tryCommit(bad).Err, store.ErrInvalid)
		c.eq("items", len(c.items(id, "", 0)), 0)
		c.commit(cm)
		c.streams("items", id, "a b")
		c.eq("items of another stream", told(c.items(id, "log", 0)), "x")
		c.eq("items of all streams", told(c.items(id, "", 1)), "a b x")
		c.eq("steps", len(c.steps(id)), 1)
		c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.write("c")}})
		w.append("d")
		c.streams("items after another commit and an append", id, "a b c d")
	}},
	{"stream/with-transitions", "P27", "items come with every transition but a give back, and of all runs of a call", func(c *C) {
		list := transitions()
		c.createN(len(list), store.NewRun{})
		var cms []store.Commit
		for i, run := range c.claimAll(len(list)) {
			cms = append(cms, store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{c.writes(run).write(fmt.Sprint("item", i))}, Transition: list[i]})
		}
		c.allApplied(c.commits(cms...))
		for i, cm := range cms {
			c.streams(fmt.Sprint("items with ", list[i].Kind), cm.Lease.Run, fmt.Sprint("item", i))
		}
	}},
	{"stream/payloads", "P12", "items are returned unchanged: nil, empty and any bytes, appended at once or by a commit", func(c *C) {
		run := c.start()
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		items := [][]byte{nil, {}, every, slices.Repeat([]byte("x"), min(100_000, c.s.Limits().Payload))}
		for _, stream := range []string{"at once", "committed"} {
			w := store.StreamWrite{Stream: stream, Step: store.StepKey{Name: "s", Occurrence: 1}, First: 1, Items: items}
			if stream == "committed" {
				c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w}})
			} else {
				_, err := c.tryAppend(run.Lease, w)
				c.ok("Append", err)
			}
			for i, it := range c.items(run.Run.ID, stream, 0) {
				c.bytes(fmt.Sprintf("item %d %s", i, stream), it.Payload, items[i])
			}
		}
	}},
	{"stream/pages", "P14", "pages by After contain each item of a stream once, whatever their size, and Next is zero on the last one", func(c *C) {
		run := c.start()
		w := c.writes(run)
		other := w.on("other")
		var want []string
		for i := range 23 {
			want = append(want, fmt.Sprint(i))
			w.append(want[i])
			if i%3 == 0 {
				other.append("o")
			}
		}
		for _, limit := range []int{1, 2, 7, 23, 24, 0, store.MaxPage} {
			c.eq(fmt.Sprint("items by pages of ", limit), told(c.items(run.Run.ID, "tokens", limit)), strings.Join(want, " "))
		}
		c.eq("the other stream", len(c.items(run.Run.ID, "other", 3)), 8)
		c.eq("Next of a page that has all", c.stream(store.ReadStreamParams{Run: run.Run.ID, Stream: "tokens", Limit: 23}).Next, int64(0))
		last := c.items(run.Run.ID, "", 0)
		c.eq("a page behind the end", c.stream(store.ReadStreamParams{Run: run.Run.ID, After: last[len(last)-1].Position}), store.StreamPage{Status: store.Running})
	}},
	{"stream/bounded-pages", "P12", "a page ends before the item that would exceed MaxBytes, and has at least one", func(c *C) {
		run := c.start()
		c.writes(run).append(strings.Repeat("a", 100), strings.Repeat("b", 100), strings.Repeat("c", 50), "")
		for limit, want := range map[int]int{0: 4, 1: 1, 100: 1, 199: 1, 200: 2, 249: 2, 250: 4} {
			page := c.stream(store.ReadStreamParams{Run: run.Run.ID, Stream: "tokens", MaxBytes: limit})
			c.eq(fmt.Sprintf("items of at most %d bytes", limit), len(page.Items), want)
			c.eq("more", page.Next != 0, want < 4)
		}
	}},
	{"stream/names", "P15", "streams are told apart byte by byte, and those of other runs and namespaces do not exist", func(c *C) {
		run, other := c.start(), c.start()
		for _, name := range []string{"Tokens", "tokens", "tokéns", "toke%", "a b"} {
			c.writes(run).on(name).append(name)
		}
		for _, name := range []string{"Tokens", "tokens", "tokéns", "toke%", "a b"} {
			c.eq("items of "+name, told(c.items(run.Run.ID, name, 0)), name)
		}
		c.eq("items of another run", len(c.items(other.Run.ID, "", 0)), 0)
		_, err := c.streamer().ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns + "-other", Run: run.Run.ID})
		c.fails("ReadStream in another namespace", err, store.ErrNotFound)
		_, err = c.streamer().ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns, Run: store.NewID()})
		c.fails("ReadStream of no run", err, store.ErrNotFound)
		_, err = c.streamer().Append(c.ctx, store.AppendParams{Namespace: c.ns + "-other", Lease: run.Lease, StreamWrite: c.writes(run).write("x"), Now: c.now})
		c.fails("Append in another namespace", err, store.ErrLeaseLost)
	}},
}

var streamRules = []Case{
	{"stream/superseded", "P27", "the first items of a later attempt delete those of the earlier one in their stream, and carry the reset mark", func(c *C) {
		run := c.start()
		id := run.Run.ID
		first := c.writes(run)
		other := first.by(store.StepKey{Name: "gen", Occurrence: 2})
		elsewhere := first.on("log")
		first.append("a", "b")
		other.append("o")
		elsewhere.append("l")
		first.append("c")
		c.streams("items", id, "a b o c")
		seen := c.items(id, "tokens", 0)
		second := first.again()
		second.append("A", "B")
		c.streams("items of a reader that begins", id, "o !A B")
		c.eq("items of a reader in the middle", told(c.stream(store.ReadStreamParams{Run: id, Stream: "tokens", After: seen[1].Position}).Items), "o !A B")
		c.eq("items of a reader at the end", told(c.stream(store.ReadStreamParams{Run: id, Stream: "tokens", After: seen[3].Position}).Items), "!A B")
		second.append("C")
		c.streams("items", id, "o !A B C")
		c.eq("another stream of the attempt before", told(c.items(id, "log", 0)), "l")
		third := second.again()
		third.append("3")
		c.streams("items of a third attempt", id, "o !3")
		c.eq("items of a reader at the end", told(c.stream(store.ReadStreamParams{Run: id, Stream: "tokens", After: seen[3].Position}).Items), "!3")
	}},
	{"stream/superseded-by-commit", "P27", "items of a commit supersede those of an earlier attempt, and the positions of the deleted ones are not given again", func(c *C) {
		run := c.start()
		id := run.Run.ID
		first := c.writes(run)
		first.append("a", "b", "c")
		last := c.items(id, "", 0)[2].Position
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "gen", "")}, Streams: []store.StreamWrite{first.again().write("A")}})
		c.streams("items", id, "!A")
		c.check(c.items(id, "", 0)[0].Position > last, "the new position: saw %d, expected one above %d", c.items(id, "", 0)[0].Position, last)
	}},
	{"stream/superseded-after-crash", "P27", "the same attempt under a later lease supersedes the items of the lease that was lost", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		w.append("a", "b")
		c.advance(2 * aLease)
		run = c.claim1As("w2")
		c.streams("items after the takeover", id, "a b")
		w = w.under(run)
		w.append("A")
		c.streams("items", id, "!A")
		c.eq("epoch", c.items(id, "tokens", 0)[0].Epoch, run.Lease.Epoch)
	}},
	{"stream/superseded-attempt", "P27", "an attempt cannot write to a stream once a later attempt under its lease has", func(c *C) {
		run := c.start()
		id := run.Run.ID
		first := c.writes(run)
		first.append("a")
		second := first.again()
		second.append("A")
		_, err := c.tryAppend(run.Lease, first.write("b"))
		c.fails("an append of the first attempt", err, store.ErrConflict)
		res := c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "gen", "")}, Streams: []store.StreamWrite{first.write("c")}})
		c.fails("a commit with items of the first attempt", res.Err, store.ErrInvalid)
		c.eq("steps", len(c.steps(id)), 0)
		c.streams("items", id, "!A")
		second.append("B")
		c.streams("items", id, "!A B")
	}},
	{"stream/fenced", "P2", "a lease that is not the run's present one appends nothing", func(c *C) {
		old := c.start()
		id := old.Run.ID
		zombie := c.writes(old)
		zombie.append("a")
		c.advance(2 * aLease)
		run := c.claim1As("w2")
		_, err := c.tryAppend(old.Lease, zombie.write("z"))
		c.fails("an append of the zombie", err, store.ErrLeaseLost)
		for what, l := range map[string]store.Lease{
			"another worker": {Run: id, Worker: "w3", Epoch: run.Lease.Epoch}, "an epoch to come": {Run: id, Worker: "w2", Epoch: run.Lease.Epoch + 1}, "no such run": {Run: store.NewID(), Worker: "w2", Epoch: 1},
		} {
			_, err := c.tryAppend(l, c.writes(run).write("z"))
			c.fails("an append of "+what, err, store.ErrLeaseLost)
		}
		c.streams("items", id, "a")
		c.end(run, sleepFor(time.Hour))
		_, err = c.tryAppend(run.Lease, c.writes(run).write("z"))
		c.fails("an append after a transition", err, store.ErrLeaseLost)
		c.streams("items", id, "a")
	}},
	{"stream/expired", "P2", "a lease that expired but was not taken over can append", func(c *C) {
		run := c.start()
		w := c.writes(run)
		c.advance(2 * aLease)
		w.append("late")
		c.streams("items", run.Run.ID, "late")
	}},
	{"stream/repeated", "P4", "an append that is sent again changes nothing, however late, and says so", func(c *C) {
		run := c.start()
		w := c.writes(run)
		one, two := w.write("a", "b"), w.write("c")
		for _, cm := range []store.StreamWrite{one, two} {
			_, err := c.tryAppend(run.Lease, cm)
			c.ok("Append", err)
		}
		want := c.items(run.Run.ID, "tokens", 0)
		c.advance(time.Second)
		two.Items = texts("other")
		for _, cm := range []store.StreamWrite{one, two, one} {
			res, err := c.tryAppend(run.Lease, cm)
			c.ok("the same append again", err)
			c.eq("its result", res, store.AppendResult{Repeated: true})
		}
		c.eq("items", c.items(run.Run.ID, "tokens", 0), want)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "gen", "")}, Streams: []store.StreamWrite{two}})
		c.eq("items after a commit with stored ones", c.items(run.Run.ID, "tokens", 0), want)
		c.eq("steps", len(c.steps(run.Run.ID)), 1)
	}},
	{"stream/repeated-commit", "P4", "a commit that is sent again appends nothing", func(c *C) {
		run := c.start()
		w := c.writes(run)
		cm := store.Commit{Lease: run.Lease, Seq: 1, Streams: []store.StreamWrite{w.write("a")}}
		c.ok("the commit", c.tryCommit(cm).Err)
		cm.Streams = []store.StreamWrite{w.write("b")}
		res := c.tryCommit(cm)
		c.ok("the repeat", res.Err)
		c.eq("Repeated", res.Repeated, true)
		c.streams("items", run.Run.ID, "a")
	}},
	{"stream/gap", "P2", "items that skip a number are not stored: the store has lost what the holder believes stored", func(c *C) {
		run := c.start()
		w := c.writes(run)
		w.next = 2
		_, err := c.tryAppend(run.Lease, w.write("b"))
		c.fails("an append that begins with 2", err, store.ErrLeaseLost)
		w.next = 1
		w.append("a")
		w.next = 3
		_, err = c.tryAppend(run.Lease, w.write("c"))
		c.fails("an append that skips 2", err, store.ErrLeaseLost)
		c.fails("a commit that skips 3", c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.write("d")}}).Err, store.ErrInvalid)
		w.next = 1
		_, err = c.tryAppend(run.Lease, w.write("a", "b"))
		c.fails("an append with an item that is stored and one that is not", err, store.ErrInvalid)
		c.streams("items", run.Run.ID, "a")
		w.next = 2
		w.append("b")
		c.streams("items", run.Run.ID, "a b")
	}},
	{"stream/invalid", "P16", "a write without a name, a step, items or a number, and two writes of one step in a commit, are ErrInvalid; nothing is stored", func(c *C) {
		run := c.start()
		good := c.writes(run).write("a")
		for what, spoil := range map[string]func(w *store.StreamWrite){
			"no stream": func(w *store.StreamWrite) { w.Stream = "" }, "a stream with a control character": func(w *store.StreamWrite) { w.Stream = "a\x01" },
			"a long name": func(w *store.StreamWrite) { w.Stream = strings.Repeat("x", store.MaxName+1) }, "no step": func(w *store.StreamWrite) { w.Step = store.StepKey{} },
			"no occurrence": func(w *store.StreamWrite) { w.Step.Occurrence = 0 }, "a negative attempt": func(w *store.StreamWrite) { w.Attempt = -1 },
			"no items": func(w *store.StreamWrite) { w.Items = nil }, "no number": func(w *store.StreamWrite) { w.First = 0 },
			"too many items": func(w *store.StreamWrite) { w.Items = make([][]byte, store.MaxBatch+1) },
		} {
			w := good
			spoil(&w)
			_, err := c.tryAppend(run.Lease, w)
			c.fails("an append with "+what, err, store.ErrInvalid)
			c.fails("a commit with "+what, c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w}}).Err, store.ErrInvalid)
		}
		c.fails("two writes of one step", c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{good, good}}).Err, store.ErrInvalid)
		c.fails("a give back", c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{good}, Pin: misfit(), Transition: giveBack()}).Err, store.ErrInvalid)
		for what, p := range map[string]store.ReadStreamParams{
			"a negative After": {Namespace: c.ns, Run: run.Run.ID, After: -1}, "a large page": {Namespace: c.ns, Run: run.Run.ID, Limit: store.MaxPage + 1},
			"negative bytes": {Namespace: c.ns, Run: run.Run.ID, MaxBytes: -1}, "no namespace": {Run: run.Run.ID}, "a bad name": {Namespace: c.ns, Run: run.Run.ID, Stream: " x"},
		} {
			_, err := c.streamer().ReadStream(c.ctx, p)
			c.fails("ReadStream with "+what, err, store.ErrInvalid)
		}
		c.eq("items", len(c.items(run.Run.ID, "", 0)), 0)
	}},
	{"stream/takeover-race", "P2", "of appends while the run is taken over, those that succeed are the items that readers see, and none comes after the takeover", func(c *C) {
		for range 4 * c.answerRounds() {
			old := c.start()
			id := old.Run.ID
			c.advance(2 * aLease)
			applied, taken := make([][]string, 2), 0
			c.race(3, func(i int, s store.Store) error {
				if i == 2 {
					for got := 0; got == 0; { // a claim may skip a run that an append has locked
						out, err := patient(c.ctx, func() (store.Claimed, error) {
							return s.Claim(c.ctx, c.claimParams(store.ClaimParams{Worker: "w2"}))
						})
						if err != nil {
							return err
						}
						got = len(out.Runs)
					}
					page, err := patient(c.ctx, func() (store.StreamPage, error) {
						return s.(store.Streamer).ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns, Run: id})
					})
					taken = len(page.Items)
					return err
				}
				w := c.writes(old).by(store.StepKey{Name: fmt.Sprint("step", i), Occurrence: 1})
				for k := range 8 {
					text := fmt.Sprintf("%d.%d", i, k)
					write := w.write(text)
					_, err := patient(c.ctx, func() (store.AppendResult, error) {
						return s.(store.Streamer).Append(c.ctx, store.AppendParams{Namespace: c.ns, Lease: old.Lease, StreamWrite: write, Now: c.now})
					})
					if errors.Is(err, store.ErrLeaseLost) {
						return nil
					}
					if err != nil {
						return err
					}
					applied[i] = append(applied[i], text)
				}
				return nil
			})
			c.eq("items after the takeover and at the end", len(c.items(id, "", 0)), taken)
			var got [2][]string
			for _, it := range c.items(id, "tokens", 0) {
				i := int(it.Payload[0] - '0')
				got[i] = append(got[i], string(it.Payload))
			}
			for i := range got {
				c.eq(fmt.Sprint("items of writer ", i), strings.Join(got[i], " "), strings.Join(applied[i], " "))
			}
			c.force(id)
		}
	}},
	{"stream/readers-race", "P27", "readers that follow while steps of a run append at once get every item once, in the order of each step", func(c *C) {
		const writers, each = 3, 12
		run := c.start()
		id := run.Run.ID
		c.race(writers+2, func(i int, s store.Store) error {
			x := s.(store.Streamer)
			if i < writers {
				w := c.writes(run).by(store.StepKey{Name: fmt.Sprint("step", i), Occurrence: 1})
				for k := range each {
					write := w.write(fmt.Sprintf("%d.%d", i, k))
					_, err := patient(c.ctx, func() (store.AppendResult, error) {
						return x.Append(c.ctx, store.AppendParams{Namespace: c.ns, Lease: run.Lease, StreamWrite: write, Now: c.now})
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			next, after := [writers]int64{1, 1, 1}, int64(0)
			for n := 0; n < writers*each; {
				page, err := patient(c.ctx, func() (store.StreamPage, error) {
					return x.ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns, Run: id, Stream: "tokens", After: after, Limit: 5})
				})
				if err != nil {
					return err
				}
				for _, it := range page.Items {
					from := int(it.Payload[0] - '0')
					if it.Position <= after || it.Number != next[from] || it.Reset {
						return fmt.Errorf("after position %d: saw %+v, expected item %d of its step", after, it, next[from])
					}
					next[from]++
					after = it.Position
					n++
				}
			}
			return nil
		})
	}},
}

var streamLives = []Case{
	{"stream/lives-on", "P27", "items stay through sleeps, retries, crashes, continuations, the end and a restart, and positions go on", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		w.append("0")
		want := "0"
		for i, t := range []*store.Transition{sleepFor(time.Second), retryIn(time.Second), release(), nil} {
			if t != nil {
				c.commit(store.Commit{Lease: run.Lease, Transition: t})
			}
			c.advance(time.Hour)
			run = c.claim1()
			c.streams("items", id, want)
			c.writes(run).by(store.StepKey{Name: fmt.Sprint("later", i), Occurrence: 1}).append(fmt.Sprint(i + 1))
			want += fmt.Sprint(" ", i+1)
			c.streams("items", id, want)
		}
		c.commit(store.Commit{Lease: run.Lease, Transition: failWith("x")})
		c.streams("items of a failed run", id, want)
		c.eq("Closed", ptr(c.stream(store.ReadStreamParams{Run: id})).Closed(), true)
		c.ok("Restart", itemErr(c.tryRestart(id), nil))
		c.streams("items of a restarted run", id, want)
		c.eq("Closed", ptr(c.stream(store.ReadStreamParams{Run: id})).Closed(), false)
		run = c.claim1()
		w = w.under(run)
		w.append("again")
		c.streams("items", id, strings.TrimPrefix(want, "0 ")+" !again")
	}},
	{"stream/generations", "P27", "a step of a later generation is not a later attempt: what earlier generations wrote stays", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		w.append("a")
		c.commit(store.Commit{Lease: run.Lease, Transition: continueWith("in")})
		run = c.claim1()
		w = w.under(run)
		w.append("b")
		c.streams("items", id, "a b")
		c.eq("generations", []int{c.items(id, "", 0)[0].Generation, c.items(id, "", 0)[1].Generation}, []int{0, 1})
		w.again().append("B")
		c.streams("items", id, "a !B")
		c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.by(store.StepKey{Name: "last", Occurrence: 1}).write("c")}, Transition: continueWith("in")})
		c.eq("the generation of items with a continuation", c.items(id, "tokens", 0)[2].Generation, 1)
	}},
	{"stream/closed", "P27", "a reader that sees a run final sees every item, and a page that is not the last is not closed", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		w.append("a", "b")
		c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.write("c")}, Transition: complete("")})
		page := c.stream(store.ReadStreamParams{Run: id, Stream: "tokens", Limit: 2})
		c.eq("Status", page.Status, store.Completed)
		c.eq("Closed with an item left", page.Closed(), false)
		page = c.stream(store.ReadStreamParams{Run: id, Stream: "tokens", After: page.Next})
		c.eq("items", told(page.Items), "c")
		c.eq("Closed", page.Closed(), true)
	}},
	{"stream/closed-at-once", "P27", "no reader sees a run final without the items of the commit that ended it", func(c *C) {
		for range 5 {
			run := c.start()
			id := run.Run.ID
			c.race(3, func(i int, s store.Store) error {
				if i == 0 {
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Streams: []store.StreamWrite{c.writes(run).write("last")}, Transition: complete("")})
					return first(err, res.Err)
				}
				for range 15 {
					page, err := patient(c.ctx, func() (store.StreamPage, error) {
						return s.(store.Streamer).ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns, Run: id})
					})
					if err != nil {
						return err
					}
					if page.Status.Final() != (len(page.Items) == 1) {
						return fmt.Errorf("the run is %v with %d items", page.Status, len(page.Items))
					}
				}
				return nil
			})
		}
	}},
	{"stream/canceling", "P11", "a run that is canceled while it is held appends until its end", func(c *C) {
		run := c.start()
		w := c.writes(run)
		w.append("a")
		c.cancel(run.Run.ID)
		w.append("b")
		c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.write("c")}, Transition: cancelRun()})
		c.streams("items", run.Run.ID, "a b c")
	}},
	{"stream/purged", "P27", "the items of a run are purged with it, and those of others stay", func(c *C) {
		run, other := c.start(), c.start()
		c.writes(run).append("a")
		c.writes(other).append("o")
		c.end(run, complete(""))
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{Limit: 10}), 1)
		_, err := c.streamer().ReadStream(c.ctx, store.ReadStreamParams{Namespace: c.ns, Run: run.Run.ID})
		c.fails("ReadStream", err, store.ErrNotFound)
		c.create(store.NewRun{ID: run.Run.ID})
		c.eq("items of a new run with the same id", len(c.items(run.Run.ID, "", 0)), 0)
		c.streams("items of the other run", other.Run.ID, "o")
	}},
	{"stream/forked", "P27", "a fork begins without items, and its items are its own", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.writes(run).append("a")
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "gen", "")}, Transition: complete("")})
		twin := store.NewID()
		c.fork(store.ForkParams{ID: id, New: twin})
		c.eq("items of the fork", len(c.items(twin, "", 0)), 0)
		c.writes(c.claim1()).append("b")
		c.streams("items of the fork", twin, "b")
		c.streams("items of the original", id, "a")
	}},
	{"import/streams", "P27", "an imported run has its items with their positions, and goes on after them", func(c *C) {
		c.importer(c.s)
		rec := c.aRecord(store.Running)
		rec.Run.Deadline = time.Time{}
		at := c.now.Add(-time.Hour)
		gen := store.StepKey{Name: "gen", Occurrence: 1}
		rec.Streams = []store.StreamItem{
			{Position: 3, Stream: "tokens", Step: gen, Attempt: 1, Epoch: 2, Generation: 1, Number: 1, At: at, Payload: []byte("a")},
			{Position: 7, Stream: "log", Step: gen, Attempt: 1, Epoch: 8, Generation: 2, Number: 1, At: at},
			{Position: 8, Stream: "tokens", Step: gen, Attempt: 2, Epoch: 8, Generation: 2, Number: 1, Reset: true, At: at, Payload: []byte{}},
		}
		c.imports(rec)
		id := rec.Run.ID
		c.eq("items", c.items(id, "", 0), rec.Streams)
		c.resume(id)
		run := c.claim1()
		c.writes(run).append("b")
		c.streams("items", id, "a !b")
		last := c.items(id, "", 0)
		c.check(last[len(last)-1].Position > 8, "the position of a new item: saw %d, expected one above 8", last[len(last)-1].Position)
		for what, spoil := range map[string]func(it *store.StreamItem){
			"without a time": func(it *store.StreamItem) { it.At = time.Time{} }, "out of order": func(it *store.StreamItem) { it.Position = 7 },
			"of an epoch to come": func(it *store.StreamItem) { it.Epoch = 10 }, "of a generation to come": func(it *store.StreamItem) { it.Generation = 3 },
			"with another number":            func(it *store.StreamItem) { it.Number = 2 },
			"of another attempt of the step": func(it *store.StreamItem) { it.Generation, it.Number = 1, 2 }, "without a step": func(it *store.StreamItem) { it.Step = store.StepKey{} },
		} {
			bad := c.aRecord(store.Failed)
			bad.Streams = slices.Clone(rec.Streams)
			spoil(&bad.Streams[2])
			_, err := c.importer(c.s).Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: bad, Now: c.now})
			c.fails("an item "+what, err, store.ErrInvalid)
		}
	}},
}

var streamBounds = []Case{
	{"stream/too-large", "P12", "an item of exactly the payload limit is stored; of a larger one nothing is, nor of its commit", func(c *C) {
		run := c.start()
		limit := c.s.Limits().Payload
		w := c.writes(run)
		large := w.write(strings.Repeat("x", limit+1))
		_, err := c.tryAppend(run.Lease, large)
		c.fails("an item above the limit", err, store.ErrTooLarge)
		c.fails("a commit with it", c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Streams: []store.StreamWrite{large}}).Err, store.ErrTooLarge)
		c.eq("steps", len(c.steps(run.Run.ID)), 0)
		w.next = 1
		w.append(strings.Repeat("x", limit))
		c.eq("bytes of the item", len(c.items(run.Run.ID, "tokens", 0)[0].Payload), limit)
	}},
	{"sizes/stream-items", "P27", "a run has up to MaxStreamItems items in its streams; one more is refused, at once or by a commit, and nothing of it is stored", func(c *C) {
		run := c.start()
		id := run.Run.ID
		w := c.writes(run)
		fillTo := func(w *writer, n int64) {
			for w.next <= n {
				w.append(slices.Repeat([]string{"x"}, int(min(500, n-w.next+1)))...)
			}
		}
		fillTo(w, store.MaxStreamItems-3)
		other := w.on("other")
		other.append("1", "2")
		for _, write := range []store.StreamWrite{{First: w.next, Items: texts("a", "b")}, {First: other.next, Stream: "other", Items: texts("a", "b")}} {
			write.Step, write.Attempt = w.step, w.attempt
			if write.Stream == "" {
				write.Stream = w.stream
			}
			_, err := c.tryAppend(run.Lease, write)
			c.fails("an append of two above the bound", err, store.ErrTooLarge)
			c.fails("a commit of two above the bound", c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Streams: []store.StreamWrite{write}}).Err, store.ErrTooLarge)
		}
		c.fails("a commit of one and one above the bound", c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{
			{Stream: w.stream, Step: w.step, Attempt: 1, First: w.next, Items: texts("a")}, {Stream: "third", Step: w.step, Attempt: 1, First: 1, Items: texts("a")},
		}}).Err, store.ErrTooLarge)
		c.eq("steps", len(c.steps(id)), 0)
		w.append("last")
		_, err := c.tryAppend(run.Lease, w.on("fourth").write("x"))
		c.fails("an append above the bound", err, store.ErrTooLarge)
		c.eq("items of the other stream", told(c.items(id, "other", 0)), "1 2")
		again := w.again()
		again.append("anew")
		c.streams("items of a later attempt of a full stream", id, "!anew")
		fillTo(again, store.MaxStreamItems-2)
		_, err = c.tryAppend(run.Lease, again.write("x"))
		c.fails("an append above the bound", err, store.ErrTooLarge)
	}},
	{"sizes/stream-bytes", "P27", "a run has up to MaxStreamBytes bytes in its streams; one more is refused, and a later attempt has them again", func(c *C) {
		run := c.start()
		w := c.writes(run)
		chunk := min(c.s.Limits().Payload, 1<<19)
		fill := func(w *writer, left int) {
			for left > 0 {
				n := min(chunk, left)
				w.append(strings.Repeat("x", n))
				left -= n
			}
		}
		fill(w, store.MaxStreamBytes-1)
		_, err := c.tryAppend(run.Lease, w.write("ab"))
		c.fails("two bytes above the bound", err, store.ErrTooLarge)
		w.next--
		c.fails("a commit above the bound", c.tryCommit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.on("other").write("ab")}}).Err, store.ErrTooLarge)
		w.append("", "a")
		c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.again().write("anew")}})
		c.streams("items of a later attempt", run.Run.ID, "!anew")
	}},
}
