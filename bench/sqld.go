package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// startSqld starts a throw-away libSQL server.
func startSqld() (s *sqldtest.Server, stop func(), err error) {
	var h host
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	s = sqldtest.Start(&h)
	return s, h.end, nil
}

// distant is a connection to a server far away: an answer comes later by the time of a trip there and back.
type distant struct {
	net.Conn
	trip  time.Duration
	asked atomic.Bool
}

func (f *distant) Write(p []byte) (int, error) {
	f.asked.Store(true)
	return f.Conn.Write(p)
}

func (f *distant) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.asked.Swap(false) {
		time.Sleep(f.trip)
	}
	return n, err
}

// sqldSite is on the server, with a namespace for each measurement. Pawl is a trip away from it.
func sqldSite(srv *sqldtest.Server, trip time.Duration) site {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := srv.Dial(ctx, network, addr)
		if err != nil || trip == 0 {
			return c, err
		}
		return &distant{Conn: c, trip: trip}, nil
	}
	return site{
		place: func() (string, func(), error) {
			var h host
			return srv.Namespace(&h), h.end, nil
		},
		where: func(place string) string { return place + " " + srv.Addr() },
		limit: func(ctx context.Context, place string) (handwritten, error) {
			l, err := openSqldLimit(ctx, srv, place)
			return inTurn{l}, err
		},
		raw: func(ctx context.Context, place, sql string) error {
			l := &sqldLimit{url: place + "/v2/pipeline", client: &http.Client{Transport: &http.Transport{DialContext: srv.Dial}}}
			defer l.close()
			_, err := l.tx(ctx, sqldStmt{SQL: sql})
			return err
		},
		store: func(ctx context.Context, place string) (store.Store, error) {
			return turso.Open(ctx, place, turso.WithDialer(dial), turso.WithLogger(quiet))
		},
	}
}

// openSqld opens a namespace of a server by its address, in another process.
func openSqld(ctx context.Context, place, addr string) (store.Store, error) {
	return turso.Open(ctx, place, turso.WithLogger(quiet), turso.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}))
}

// sqldLimit is the hand-written loop on libSQL: the statements of the one on SQLite, each
// batch a transaction in one round trip.
type sqldLimit struct {
	url    string
	client *http.Client
	inputs string
}

func openSqldLimit(ctx context.Context, srv *sqldtest.Server, place string) (*sqldLimit, error) {
	l := &sqldLimit{url: place + "/v2/pipeline", client: &http.Client{Transport: &http.Transport{DialContext: srv.Dial}}, inputs: limitInputs()}
	var stmts []sqldStmt
	for _, sql := range strings.Split(limitSchema, ";\n") {
		stmts = append(stmts, sqldStmt{SQL: strings.TrimSuffix(strings.TrimSpace(sql), ";")})
	}
	_, err := l.tx(ctx, stmts...)
	return l, err
}

func (l *sqldLimit) close() { l.client.CloseIdleConnections() }

// sqldStmt and sqldValue are as the Hrana protocol has them.
type sqldStmt struct {
	SQL      string      `json:"sql"`
	Args     []sqldValue `json:"args,omitempty"`
	WantRows bool        `json:"want_rows"`
}

type sqldValue struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func args(list ...any) (out []sqldValue) {
	for _, v := range list {
		kind := "text"
		if _, ok := v.(int64); ok {
			kind = "integer"
		}
		out = append(out, sqldValue{kind, fmt.Sprint(v)})
	}
	return out
}

// tx does statements in a transaction and returns the rows of the last one.
func (l *sqldLimit) tx(ctx context.Context, stmts ...sqldStmt) (rows [][]sqldValue, err error) {
	type condition struct {
		Type string `json:"type"`
		Step int    `json:"step"`
	}
	type step struct {
		Condition *condition `json:"condition,omitempty"`
		Stmt      sqldStmt   `json:"stmt"`
	}
	var steps []step
	for i, s := range append(append([]sqldStmt{{SQL: "BEGIN IMMEDIATE"}}, stmts...), sqldStmt{SQL: "COMMIT"}) {
		st := step{Stmt: s}
		if i > 0 {
			st.Condition = &condition{"ok", i - 1}
		}
		steps = append(steps, st)
	}
	type request struct {
		Type  string `json:"type"`
		Batch any    `json:"batch,omitempty"`
	}
	body, err := json.Marshal(struct {
		Requests []request `json:"requests"`
	}{[]request{{"batch", struct {
		Steps []step `json:"steps"`
	}{steps}}, {Type: "close"}}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := l.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Results []struct {
			Response struct {
				Result struct {
					StepResults []*struct {
						Rows [][]sqldValue `json:"rows"`
					} `json:"step_results"`
				} `json:"result"`
			} `json:"response"`
		} `json:"results"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Results) == 0 {
		return nil, errors.Join(fmt.Errorf("sqld answers %s: %s", res.Status, data), err)
	}
	done := answer.Results[0].Response.Result.StepResults
	if len(done) != len(steps) || done[len(steps)-1] == nil { // the transaction was not committed
		return nil, fmt.Errorf("sqld refuses a transaction: %s", data)
	}
	return done[len(steps)-2].Rows, nil
}

func (l *sqldLimit) start(ctx context.Context) error {
	now := time.Now().UnixMicro()
	_, err := l.tx(ctx, sqldStmt{SQL: limitInsert, Args: args(now, now, l.inputs)})
	return err
}

func (l *sqldLimit) one(ctx context.Context) error {
	now := time.Now().UnixMicro()
	_, err := l.tx(ctx, sqldStmt{SQL: limitInsert, Args: args(now, now, "[7]")})
	return err
}

// work takes a batch and completes it.
func (l *sqldLimit) work(ctx context.Context, steps []string) error {
	now := time.Now()
	rows, err := l.tx(ctx, sqldStmt{SQL: limitClaim, WantRows: true,
		Args: args(limitWorker, now.Add(30*time.Second).UnixMicro(), "bench", "bench", now.UnixMicro())})
	if err != nil {
		return err
	}
	var list []string
	for _, r := range rows {
		list = append(list, fmt.Sprintf("[%s,%s,%q]", r[0].Value, r[1].Value, r[2].Value))
	}
	runs := "[" + strings.Join(list, ",") + "]"
	for i := range max(1, len(steps)) {
		now := time.Now().UnixMicro()
		var stmts []sqldStmt
		if i < len(steps) {
			stmts = append(stmts, sqldStmt{SQL: limitStep, Args: args(steps[i], now, runs, limitWorker)})
		}
		if i >= len(steps)-1 {
			stmts = append(stmts, sqldStmt{SQL: limitFinal, Args: args(now, runs, limitWorker)})
		}
		if _, err := l.tx(ctx, stmts...); err != nil {
			return err
		}
	}
	return nil
}
