package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// server is a PostgreSQL server, in which each measurement has a schema of its own.
type server struct {
	url  string
	made atomic.Int64
	stop func()
}

// startServer starts a throw-away server that waits for its disk, or takes the one
// of the URL.
func startServer(url string) (s *server, err error) {
	if url != "" {
		return &server{url: url, stop: func() {}}, nil
	}
	var h host
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	started := pgtest.Start(&h, pgtest.Durable(), pgtest.Setting("shared_buffers", "1GB"), pgtest.Setting("max_wal_size", "8GB"))
	return &server{url: started.URL(), stop: h.end}, nil
}

// host is what the test harness wants of a test.
type host struct {
	testing.TB // whatever it does not need
	atEnd      []func()
}

func (h *host) Helper()             {}
func (h *host) Failed() bool        { return false }
func (h *host) Fatal(args ...any)   { panic(fmt.Sprint(args...)) }
func (h *host) Skip(args ...any)    { panic(fmt.Sprint(args...)) }
func (h *host) Error(args ...any)   { fmt.Fprintln(os.Stderr, args...) }
func (h *host) Cleanup(done func()) { h.atEnd = append(h.atEnd, done) }
func (h *host) end() {
	for _, done := range h.atEnd {
		done()
	}
}

// exec runs SQL on a connection of its own.
func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// at is the server's URL with a parameter.
func (s *server) at(name, value string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		panic(err) // it was used before
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// schema names a schema that is not there yet; drop removes it.
func (s *server) schema() (name string, drop func()) {
	name = fmt.Sprintf("bench%d", s.made.Add(1))
	return name, func() {
		if err := s.exec(context.Background(), `DROP SCHEMA IF EXISTS `+name+` CASCADE`); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}

// database makes a further database in the server; drop removes it.
func (s *server) database(ctx context.Context) (*server, func(), error) {
	name := fmt.Sprintf("bench%d_%d", os.Getpid(), s.made.Add(1))
	if err := s.exec(ctx, `CREATE DATABASE `+name); err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, nil, err
	}
	u.Path = "/" + name
	return &server{url: u.String()}, func() {
		if err := s.exec(context.Background(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}, nil
}

// open opens a store in a schema.
func (s *server) open(ctx context.Context, schema string, conns int) (*postgres.Store, error) {
	return postgres.Open(ctx, s.at("pool_max_conns", fmt.Sprint(conns)), postgres.WithSchema(schema), postgres.WithLogger(quiet))
}

// in puts a schema's name into SQL that is written for the schema pawl.
func in(schema, sql string) string { return strings.ReplaceAll(sql, "pawl.", schema+".") }

// pool opens a plain pool.
func (s *server) pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	return pgxpool.New(ctx, s.at("pool_max_conns", fmt.Sprint(conns)))
}
