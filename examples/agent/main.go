// Agent: a language model answers questions in two steps, and a person approves the first one. What
// the model writes reaches the browser word by word; the answer survives a crash of the server.
//
//	agent                                         on a file of SQLite; -db postgres://... for a server
//	curl -d '{"question":"what is a pawl?"}' localhost:8080/questions
//	curl -N localhost:8080/questions/ID/words     server-sent events; a browser continues where it was
//	curl localhost:8080/questions/ID
//	curl -d '{"approve":true,"by":"ann"}' localhost:8080/questions/ID/approval
//	curl -X DELETE localhost:8080/questions/ID    stops it
//
// The model is a small server that the program starts itself, which makes up its answers. To use a real
// one, give its address with -model.
package main

import (
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
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Question is what a person asks.
type Question struct {
	Question string `json:"question"`
}

// Verdict is what a person says about a plan.
type Verdict struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
}

// Progress is how far an answer is.
type Progress struct {
	State string `json:"state"` // planning, waiting, answering, answered or rejected
	Plan  string `json:"plan,omitempty"`
	By    string `json:"by,omitempty"` // who has decided
}

// What the run passes on while it goes on, and what it asks for.
var (
	words    = workflow.NewStream[string]("words")
	progress = workflow.NewView[Progress]("progress")
	approval = workflow.NewUpdate[Verdict, Progress]("approval")
)

// model is the quota of the model's provider: the calls of all servers together.
var model = limit.New("model", limit.Concurrency(4), limit.Rate(600, time.Minute, limit.Burst(20)))

// agent plans an answer, has the plan approved, and writes the answer. Each call of the model is a step:
// once it is recorded it is not made again. What a call has written before its server died is
// superseded by what the next one writes.
func agent(ask func(ctx context.Context, prompt string, each func(word string) error) (string, error)) *workflow.Workflow[Question, string] {
	return workflow.New("agent", func(ctx workflow.Context, q Question) (string, error) {
		call := func(step, prompt string) (string, error) {
			return workflow.Step(ctx, step, func(ctx context.Context) (string, error) {
				return ask(ctx, prompt, func(word string) error { return words.Append(ctx, word) })
			}, workflow.StepUnder(model), workflow.Attempts(5), workflow.Timeout(2*time.Minute))
		}
		p := Progress{State: "planning"}
		if err := progress.Publish(ctx, p); err != nil {
			return "", err
		}
		plan, err := call("plan", "Plan how to answer: "+q.Question)
		if err != nil {
			return "", err
		}
		p = Progress{State: "waiting", Plan: plan}
		if err := progress.Publish(ctx, p); err != nil {
			return "", err
		}
		request, err := approval.Receive(ctx, workflow.Validate(func(v Verdict) error {
			if v.By == "" {
				return errors.New(`say who you are: {"approve": true, "by": "..."}`)
			}
			return nil
		}))
		if err != nil {
			return "", err
		}
		p.By, p.State = request.In.By, "answering"
		if !request.In.Approve {
			p.State = "rejected"
		}
		if err := errors.Join(progress.Publish(ctx, p), request.Answer(ctx, p, nil)); err != nil || !request.In.Approve {
			return "", err
		}
		text, err := call("answer", "Answer "+q.Question+" by this plan: "+plan)
		if err != nil {
			return "", err
		}
		p.State = "answered"
		return text, progress.Publish(ctx, p)
	})
}

// server answers over HTTP.
type server struct {
	eng   *engine.Engine
	agent *workflow.Workflow[Question, string]
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /questions", s.start)
	mux.HandleFunc("GET /questions/{id}", s.show)
	mux.HandleFunc("DELETE /questions/{id}", s.stop)
	mux.HandleFunc("GET /questions/{id}/words", s.words)
	mux.HandleFunc("POST /questions/{id}/approval", s.approve)
	return http.MaxBytesHandler(mux, 64<<10)
}

func (s *server) start(w http.ResponseWriter, r *http.Request) {
	var q Question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Question == "" {
		refuse(w, http.StatusBadRequest, `send {"question": "..."}`)
		return
	}
	h, err := s.agent.Start(r.Context(), s.eng, q, engine.ExternalID(r.Header.Get("Idempotency-Key")))
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Location", "/questions/"+h.ID().String())
	reply(w, http.StatusCreated, map[string]any{"id": h.ID()})
}

func (s *server) show(w http.ResponseWriter, r *http.Request) {
	id, ok := questionID(w, r)
	if !ok {
		return
	}
	run, err := s.eng.Get(r.Context(), id)
	if err != nil {
		fail(w, err)
		return
	}
	p, _, err := progress.Get(r.Context(), s.eng, id)
	if err != nil {
		fail(w, err)
		return
	}
	out := map[string]any{"id": id, "status": run.Status.String(), "progress": p}
	if run.Status == store.Completed {
		if out["answer"], err = s.agent.Handle(s.eng, id).Result(r.Context()); err != nil {
			fail(w, err)
			return
		}
	}
	reply(w, http.StatusOK, out)
}

func (s *server) stop(w http.ResponseWriter, r *http.Request) {
	id, ok := questionID(w, r)
	if !ok {
		return
	}
	if err := s.eng.Cancel(r.Context(), id, "nobody wants to know any more"); err != nil && !errors.Is(err, store.ErrFinished) {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// words sends what the model writes as server-sent events. The id of an event is a cursor: a browser that
// reconnects, to whatever server, sends the last one and continues behind it.
func (s *server) words(w http.ResponseWriter, r *http.Request) {
	id, ok := questionID(w, r)
	if !ok {
		return
	}
	if _, err := s.eng.Get(r.Context(), id); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for item, err := range words.Read(r.Context(), s.eng, id, workflow.Cursor(r.Header.Get("Last-Event-ID"))) {
		if err != nil {
			if r.Context().Err() == nil {
				log.Print(err)
				_, _ = fmt.Fprint(w, "event: failed\ndata: connect again\n\n")
			}
			return
		}
		if item.Reset { // the call was made again: what it wrote before is void
			_, _ = fmt.Fprintf(w, "event: reset\ndata: %s\n\n", item.Step)
		}
		text, _ := json.Marshal(item.Value) // a string
		_, _ = fmt.Fprintf(w, "id: %s\ndata: %s\n\n", item.Cursor, text)
		_ = flush()
	}
	_, _ = fmt.Fprint(w, "event: end\ndata: \n\n")
}

func (s *server) approve(w http.ResponseWriter, r *http.Request) {
	id, ok := questionID(w, r)
	if !ok {
		return
	}
	var v Verdict
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		refuse(w, http.StatusBadRequest, `send {"approve": true or false, "by": "..."}`)
		return
	}
	var opts []workflow.SendOption
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		opts = append(opts, workflow.SendKey(key)) // who asks again gets the same answer
	} else if p, _, err := progress.Get(r.Context(), s.eng, id); err != nil {
		fail(w, err)
		return
	} else if p.State != "waiting" {
		refuse(w, http.StatusConflict, "no plan waits for a decision: the question is "+p.State)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	p, err := approval.Ask(ctx, workflow.ToRun(s.eng, id), v, opts...)
	var refused *workflow.AnswerError
	switch {
	case errors.As(err, &refused):
		refuse(w, http.StatusBadRequest, refused.Failure.Message)
	case errors.Is(err, store.ErrFinished), errors.Is(err, engine.ErrUnanswered):
		refuse(w, http.StatusConflict, "the question has been decided, or has ended")
	case err != nil:
		fail(w, err)
	default:
		reply(w, http.StatusOK, p)
	}
}

func questionID(w http.ResponseWriter, r *http.Request) (store.ID, bool) {
	id, err := store.ParseID(r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no question %q", r.PathValue("id")))
	}
	return id, err == nil
}

// fail answers an error of the engine.
func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, http.StatusNotFound, "there is no such question")
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge):
		refuse(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, store.ErrConflict):
		refuse(w, http.StatusConflict, "the Idempotency-Key was used for another question")
	default:
		log.Print(err)
		refuse(w, http.StatusServiceUnavailable, "try again")
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, why string) {
	reply(w, status, map[string]string{"error": why})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addr := flag.String("addr", "localhost:8080", "where to listen")
	db := flag.String("db", "sqlite:agent.db", "the database")
	url := flag.String("model", "", "the model's address; empty: a model of its own, which makes up its answers")
	flag.Parse()
	if err := run(ctx, os.Stdout, *addr, *db, *url); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, out io.Writer, addr, db, modelURL string) error {
	st, err := backends.Open(ctx, db)
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	if modelURL == "" {
		var end func()
		if modelURL, end, err = serveModel(); err != nil {
			return err
		}
		defer end()
	}
	flow := agent(client(modelURL))
	w := worker.New(eng, worker.Lease(5*time.Second)) // a server that crashes is stood in for after five seconds
	if err := w.Register(flow); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	web := &http.Server{
		Handler: (&server{eng, flow}).routes(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // open streams end with the server
	}
	_, _ = fmt.Fprintln(out, "listening on http://"+listener.Addr().String())
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
