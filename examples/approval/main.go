// Approval: a person decides, over HTTP. A request is started, its approver is asked,
// reminded after a while, and at last the request times out. All that it waits for may take
// weeks; meanwhile it is a row in the database, and the server may stop, crash and start
// again.
//
//	approval                                       on a file of SQLite; -db postgres://... for a server
//	curl -d '{"title":"a new chair","approver":"ann"}' localhost:8080/requests
//	curl localhost:8080/requests/ID
//	curl -d '{"approve":true,"by":"ann","comment":"sit well"}' localhost:8080/requests/ID/decision
//
// A request that is sent again with the same Idempotency-Key has no second effect, and gets the
// same answer. What is decided stays: who comes later, or too late, gets 409 and is told how
// it ended.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Request is what is to be approved. Its times are part of it, so that those under way keep
// theirs when the server is started with others.
type Request struct {
	Title    string        `json:"title"`
	Approver string        `json:"approver"`
	Remind   time.Duration `json:"remind"`  // between two mails to the approver
	Timeout  time.Duration `json:"timeout"` // until nobody is asked any more
}

// Decision is what a person says.
type Decision struct {
	Key     string `json:"key"` // tells a decision that is sent again from another one
	By      string `json:"by"`
	Comment string `json:"comment,omitempty"`
}

// Outcome is how a request ended.
type Outcome struct {
	Result string `json:"result"` // approved, rejected or timed out
	Decision
}

// The signals that a request waits for, and the state that tells of it.
var (
	approved  = workflow.NewSignal[Decision]("approved")
	rejected  = workflow.NewSignal[Decision]("rejected")
	reminders = workflow.NewState[int]("reminders")
	outcome   = workflow.NewState[Outcome]("outcome")
)

// approval asks for a decision and sees to it that one is made. mail sends a mail at most once for
// a key.
func approval(mail func(ctx context.Context, key, to, text string) error) *workflow.Workflow[Request, Outcome] {
	return workflow.New("approval", func(ctx workflow.Context, r Request) (Outcome, error) {
		tell := func(step, to, text string) error {
			return workflow.Do(ctx, step, func(ctx context.Context) error {
				return mail(ctx, workflow.IdempotencyKey(ctx), to, text)
			}, workflow.Attempts(10), workflow.Timeout(time.Minute))
		}
		if err := tell("ask", r.Approver, "please decide on "+r.Title); err != nil {
			return Outcome{}, err
		}
		var o Outcome
		for left := r.Timeout; o.Result == ""; {
			wait := min(r.Remind, left)
			var yes, no Decision
			chosen, err := workflow.Select(ctx, "decision", approved.Into(&yes), rejected.Into(&no), workflow.Timer(wait))
			if err != nil {
				return o, err
			}
			switch left -= wait; {
			case chosen == 0:
				o = Outcome{"approved", yes}
			case chosen == 1:
				o = Outcome{"rejected", no}
			case left <= 0:
				o = Outcome{Result: "timed out"}
			default:
				if err := tell("remind", r.Approver, "please remember to decide on "+r.Title); err != nil {
					return o, err
				}
				n, _, err := reminders.Get(ctx)
				if err == nil {
					err = reminders.Set(ctx, n+1)
				}
				if err != nil {
					return o, err
				}
			}
		}
		if err := outcome.Set(ctx, o); err != nil {
			return o, err
		}
		return o, tell("tell", r.Approver, r.Title+": "+o.Result)
	})
}

// server answers requests over HTTP.
type server struct {
	eng             *engine.Engine
	approval        *workflow.Workflow[Request, Outcome]
	remind, timeout time.Duration
	patience        time.Duration // for which a decision waits to be taken
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /requests", s.start)
	mux.HandleFunc("GET /requests/{id}", s.show)
	mux.HandleFunc("POST /requests/{id}/decision", s.decide)
	return http.MaxBytesHandler(mux, 64<<10)
}

func (s *server) start(w http.ResponseWriter, r *http.Request) {
	var in Request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Title == "" || in.Approver == "" {
		refuse(w, http.StatusBadRequest, `send {"title": "...", "approver": "..."}`)
		return
	}
	in.Remind, in.Timeout = s.remind, s.timeout
	id := store.NewID()
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		id = store.DeriveID(store.ID{}, "approval/"+key)
	}
	// Starting twice with one ID is one run.
	if _, err := s.approval.Start(r.Context(), s.eng, in, engine.RunID(id)); err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Location", "/requests/"+id.String())
	answer(w, http.StatusCreated, map[string]any{"id": id})
}

// state is a request as it is shown.
type state struct {
	ID        store.ID  `json:"id"`
	Status    string    `json:"status"` // waiting, failed, canceled or an outcome's result
	Created   time.Time `json:"created"`
	Reminders int       `json:"reminders"`
	Outcome   *Outcome  `json:"outcome,omitempty"`
}

func (s *server) look(ctx context.Context, id store.ID) (state, error) {
	run, err := s.eng.Get(ctx, id)
	if err != nil {
		return state{}, err
	}
	st := state{ID: id, Status: "waiting", Created: run.CreatedAt}
	of := workflow.OfRun(ctx, s.eng, id)
	n, _, err := reminders.Get(of)
	if err != nil {
		return st, err
	}
	o, decided, err := outcome.Get(of)
	switch st.Reminders = n; {
	case err != nil:
	case decided:
		st.Status, st.Outcome = o.Result, &o
	case run.Status == store.Failed || run.Status == store.Canceled:
		st.Status = run.Status.String()
	}
	return st, err
}

func (s *server) show(w http.ResponseWriter, r *http.Request) {
	id, ok := requestID(w, r)
	if !ok {
		return
	}
	st, err := s.look(r.Context(), id)
	if err != nil {
		s.fail(w, err)
		return
	}
	answer(w, http.StatusOK, st)
}

func (s *server) decide(w http.ResponseWriter, r *http.Request) {
	id, ok := requestID(w, r)
	if !ok {
		return
	}
	var in struct {
		Approve     *bool
		By, Comment string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Approve == nil || in.By == "" {
		refuse(w, http.StatusBadRequest, `send {"approve": true or false, "by": "...", "comment": "..."}`)
		return
	}
	d := Decision{Key: cmp.Or(r.Header.Get("Idempotency-Key"), store.NewID().String()), By: in.By, Comment: in.Comment}
	kind := rejected
	if *in.Approve {
		kind = approved
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.patience)
	defer cancel()
	st, err := s.look(ctx, id)
	if err == nil && st.Status == "waiting" {
		err = kind.Send(ctx, s.eng, id, d)
		if err == nil {
			// Of several decisions the first counts: wait and see which it was.
			err = workflow.WaitForState(workflow.OfRun(ctx, s.eng, id), "decided", func(r workflow.FlowStateReader) (bool, error) {
				return r.Has(outcome.Key()), nil
			})
		}
		if ctx.Err() != nil && r.Context().Err() == nil {
			answer(w, http.StatusAccepted, map[string]string{"status": "kept, and not taken yet: look at the request later"})
			return
		}
		if err == nil || errors.Is(err, store.ErrFinished) || errors.Is(err, engine.ErrCanceled) {
			st, err = s.look(r.Context(), id)
		}
	}
	switch {
	case err != nil:
		s.fail(w, err)
	case st.Outcome != nil && st.Outcome.Key == d.Key:
		answer(w, http.StatusOK, st)
	case st.Outcome != nil && st.Outcome.By != "":
		refuse(w, http.StatusConflict, fmt.Sprintf("the request is %s, by %s", st.Status, st.Outcome.By))
	default:
		refuse(w, http.StatusConflict, "the request has ended: "+st.Status)
	}
}

func requestID(w http.ResponseWriter, r *http.Request) (store.ID, bool) {
	id, err := store.ParseID(r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no request %q", r.PathValue("id")))
	}
	return id, err == nil
}

// fail answers an error of the engine.
func (s *server) fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, http.StatusNotFound, "there is no such request")
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge):
		refuse(w, http.StatusBadRequest, err.Error())
	default:
		log.Print(err)
		refuse(w, http.StatusServiceUnavailable, "try again")
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addr := flag.String("addr", "localhost:8080", "where to listen")
	db := flag.String("db", "sqlite:approval.db", "the database")
	remind := flag.Duration("remind", 24*time.Hour, "after what time the approver is reminded, again and again")
	timeout := flag.Duration("timeout", 7*24*time.Hour, "after what time a request that nobody decides ends")
	flag.Parse()
	if err := run(ctx, os.Stdout, *addr, *db, *remind, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, out io.Writer, addr, db string, remind, timeout time.Duration) error {
	if remind <= 0 || timeout <= 0 {
		return errors.New("-remind and -timeout must be longer than nothing")
	}
	st, err := backends.Open(ctx, db)
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	flow := approval(func(ctx context.Context, key, to, text string) error {
		// Here a mail would be sent, with the key as its Message-ID.
		_, err := fmt.Fprintf(out, "mail %s to %s: %s\n", key, to, text)
		return err
	})
	w := worker.New(eng, worker.Lease(5*time.Second)) // a server that crashes is stood in for after five seconds
	if err := w.Register(flow); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &server{eng: eng, approval: flow, remind: remind, timeout: timeout, patience: 10 * time.Second}
	web := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(out, "listening on http://"+listener.Addr().String())

	ctx, stop := context.WithCancelCause(ctx)
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		stop(w.Run(ctx))
	}()
	go func() { stop(web.Serve(listener)) }()
	<-ctx.Done() // asked to end, or one of the two cannot go on
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	err = web.Shutdown(closing)
	<-worked
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}
