package sqldtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/testserver"
)

// Reused are the databases of a test whose subtests have one each. To make a database, to migrate and to delete it takes longer
// than many a subtest, and a replica asks for a deleted one again and again. So a database is emptied after its subtest and used
// by another one. The database of a subtest that has failed is not used again.
type Reused struct {
	server *Server
	of     testing.TB
	keep   []string

	mu     sync.Mutex
	free   []string // names
	spoilt map[string]bool
}

// Reuse returns databases of the server, which last until the test ends. Rows in the tables that are
// named are not deleted: they are the migrations'.
func (s *Server) Reuse(t testing.TB, keep ...string) *Reused {
	return &Reused{server: s, of: t, keep: keep, spoilt: map[string]bool{}}
}

// Next returns the URL of a database that is empty, or not yet migrated. Its clients must be closed
// when the test ends.
func (r *Reused) Next(t testing.TB) string {
	t.Helper()
	r.mu.Lock()
	var name string
	if n := len(r.free); n > 0 {
		name, r.free = r.free[n-1], r.free[:n-1]
	}
	r.mu.Unlock()
	if name == "" {
		name = uniqueName()
		r.server.NamespaceNamed(r.of, name)
	}
	url := URL(name)
	t.Cleanup(func() {
		r.mu.Lock()
		spoilt := r.spoilt[url]
		r.mu.Unlock()
		if t.Failed() || spoilt || !r.server.running() {
			return
		}
		if err := r.empty(url); err != nil {
			t.Logf("the database is not used again: %v", err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.free = append(r.free, name)
	})
	return url
}

// Spoil keeps the database from being used again, because requests may reach it after the test's end.
func (r *Reused) Spoil(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoilt[url] = true
}

// empty deletes all rows. Triggers may add some to tables that were emptied before, so it looks again.
func (r *Reused) empty(url string) error {
	const tables = `SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'`
	names, err := r.server.ask(url, "execute", tables)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.keep, name) })
	if len(names) == 0 {
		return nil // it was not migrated
	}
	look := make([]string, len(names))
	for i, name := range names {
		look[i] = fmt.Sprintf("SELECT '%s' WHERE EXISTS (SELECT 1 FROM %[1]s)", name)
	}
	for range 3 {
		used, err := r.server.ask(url, "execute", strings.Join(look, " UNION ALL "))
		if err != nil || len(used) == 0 {
			return err
		}
		script := "BEGIN IMMEDIATE; "
		for _, name := range used {
			script += "DELETE FROM " + name + "; "
		}
		if _, err := r.server.ask(url, "sequence", script+"COMMIT"); err != nil {
			return err
		}
	}
	return errors.New("the database has rows again after each deletion of all")
}

// ask sends one request to a database and returns the first column of its answer.
func (s *Server) ask(url, kind, sql string) (column []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testserver.StartTimeout)
	defer cancel()
	type object = map[string]any
	request := object{"type": kind, "sql": sql}
	if kind == "execute" {
		request = object{"type": kind, "stmt": object{"sql": sql}}
	}
	body, err := json.Marshal(object{"baton": nil, "requests": []object{request, {"type": "close"}}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v3/pipeline", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Results []struct {
			Error    struct{ Message string }
			Response struct {
				Result struct{ Rows [][]struct{ Value string } }
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK || len(answer.Results) == 0 {
		return nil, fmt.Errorf("sqldtest: %s: %w", res.Status, err)
	}
	if said := answer.Results[0].Error.Message; said != "" {
		return nil, fmt.Errorf("sqldtest: %s", said)
	}
	for _, row := range answer.Results[0].Response.Result.Rows {
		column = append(column, row[0].Value)
	}
	return column, nil
}
