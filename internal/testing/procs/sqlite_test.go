package procs

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// sqliteRules must hold for the tables when every run is final: each query returns the offending
// runs.
var sqliteRules = []struct{ says, query string }{
	{"a run is not completed", `SELECT id FROM runs WHERE status<>6 AND workflow<>'doomed'`},
	{"a run is not canceled", `SELECT id FROM runs WHERE status<>8 AND workflow='doomed'`},
	{"a final run is leased", `SELECT id FROM runs WHERE leased<>0`},
	{"a final run can become claimable", `SELECT id FROM runs WHERE visible_at IS NOT NULL`},
	{"a final run waits for something", `SELECT id FROM runs WHERE wakes<>0 AND status=6 OR pausing<>0`},
	{"a completed run counts crashes", `SELECT id FROM runs WHERE crashes<>0 AND status=6`},
	{"a completed run was never claimed or never committed", `SELECT id FROM runs WHERE status=6 AND (epoch<1 OR seq<1 OR worker IS NULL)`},
	{"a run's times are out of order", `SELECT id FROM runs WHERE status=6 AND started_at IS NULL OR finished_at IS NULL
		OR started_at<created_at OR finished_at<started_at OR status=6 AND due_at>finished_at`},
	{"two active runs have one external id", `SELECT min(id) FROM runs WHERE external_id IS NOT NULL AND status<6 GROUP BY namespace, external_id, suffix HAVING count(*)>1`},
	{"a step key is recorded twice", `SELECT run_id FROM steps GROUP BY run_id, branch, name, occurrence HAVING count(*)>1`},
	{"two steps have one position", `SELECT run_id FROM steps GROUP BY run_id, position HAVING count(*)>1`},
	{"two steps have one place in their branch", `SELECT run_id FROM steps GROUP BY run_id, branch, idx HAVING count(*)>1`},
	{"a branch has a gap", `SELECT run_id FROM steps GROUP BY run_id, branch HAVING min(idx)<>0 OR max(idx)<>count(*)-1`},
	{"a step of a completed run is not completed", `SELECT run_id FROM steps WHERE (status<>3 OR finished_at IS NULL) AND run_id IN (SELECT id FROM runs WHERE status=6)`},
	{"a step's times are out of order", `SELECT s.run_id FROM steps s JOIN runs r ON r.id=s.run_id
		WHERE s.finished_at<s.started_at OR s.started_at<r.started_at OR s.finished_at>r.finished_at OR s.finished_at<s.due_at`},
	{"a step's epoch is none that its run has had", `SELECT s.run_id FROM steps s JOIN runs r ON r.id=s.run_id WHERE s.epoch<1 OR s.epoch>r.epoch`},
	{"a later step was recorded under an earlier epoch", `SELECT a.run_id FROM steps a JOIN steps b ON a.run_id=b.run_id AND a.branch=b.branch WHERE a.idx<b.idx AND a.epoch>b.epoch`},
	{"a step has no run", `SELECT run_id FROM steps WHERE run_id NOT IN (SELECT id FROM runs)`},
	{"state has no run", `SELECT run_id FROM state WHERE run_id NOT IN (SELECT id FROM runs)`},
	{"a signal has no run", `SELECT run_id FROM signals WHERE run_id NOT IN (SELECT id FROM runs)`},
	{"a group has no run", `SELECT run_id FROM groups WHERE run_id NOT IN (SELECT id FROM runs)`},
	{"a large input has no run", `SELECT run_id FROM large_inputs WHERE run_id NOT IN (SELECT id FROM runs)`},
	{"a run's input is in no place or in two", `SELECT r.id FROM runs r LEFT JOIN large_inputs l ON l.run_id=r.id
		WHERE (r.parts & 16 <> 0)<>(l.run_id IS NOT NULL) OR (r.input IS NULL)<>(l.run_id IS NOT NULL)`},
	{"a run has steps that a claim would not bring", `SELECT id FROM runs WHERE parts & 1 = 0 AND id IN (SELECT run_id FROM steps)`},
}

func freshSQLite(t *testing.T, dir string, _ uint64) (string, *network) {
	url := "sqlite:" + filepath.Join(dir, "pawl.db")
	prepare(t, url)
	return url, nil
}

// prepare makes the schema and the program's own table, before the processes begin.
func prepare(t *testing.T, url string) {
	st, err := backends.Open(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	p, err := openProgram(url)
	require.NoError(t, err)
	defer p.db.Close()
	require.NoError(t, p.prepare(t.Context()))
}

// checkSQLite looks at the file's tables.
func checkSQLite(ctx context.Context, url string) error {
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		return err
	}
	defer db.Close()
	var c complaints
	each := func(query string, row func(scan func(...any) error) error) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
		}
		return rows.Err()
	}
	err = each(`PRAGMA integrity_check`, func(scan func(...any) error) error {
		var says string
		err := scan(&says)
		if says != "ok" {
			c.addf("integrity check: %s", says)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, rule := range sqliteRules {
		err := each(rule.query, func(scan func(...any) error) error {
			var id []byte
			err := scan(&id)
			c.addf("%s: run %s", rule.says, hex.EncodeToString(id))
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := checkSteps(&c, each, `coalesce(input, (SELECT data FROM large_inputs WHERE run_id=id))`); err != nil {
		return err
	}
	return c.err()
}

// checkSteps compares the steps of each run with its input, which the expression reads.
func checkSteps(c *complaints, each func(query string, row func(scan func(...any) error) error) error, inputOf string) error {
	steps := map[string]map[store.StepKey][]byte{} // outputs by run and key
	err := each(`SELECT run_id, branch, name, occurrence, output FROM steps`, func(scan func(...any) error) error {
		var id, output []byte
		var key store.StepKey
		err := scan(&id, &key.Branch, &key.Name, &key.Occurrence, &output)
		if steps[string(id)] == nil {
			steps[string(id)] = map[store.StepKey][]byte{}
		}
		steps[string(id)][key] = output
		return err
	})
	if err != nil {
		return err
	}
	return each(`SELECT id, workflow, output, `+inputOf+` FROM runs`, func(scan func(...any) error) error {
		var id, output, input []byte
		var workflow string
		var o order
		if err := scan(&id, &workflow, &output, &input); err != nil {
			return err
		}
		if err := json.Unmarshal(input, &o); err != nil {
			c.addf("input of run %s: %v", hex.EncodeToString(id), err)
			return nil
		}
		got, run := steps[string(id)], string(id)
		if len(id) == len(store.ID{}) {
			run = hex.EncodeToString(id)
		}
		said := fmt.Sprintf("%q", o.output())
		if o.canceled() {
			said = "" // and the steps are some of those that it asks for
			for key := range got {
				if !slices.ContainsFunc(o.steps(), func(w wanted) bool { return w.StepKey == key }) {
					c.addf("run %s: its input does not ask for step %s", run, key)
				}
			}
		}
		if workflow != o.Kind || string(output) != said {
			c.addf("run %s of workflow %s returned %s; its input asks for %s", run, workflow, output, o.output())
		}
		if o.canceled() {
			return nil
		}
		if want := o.steps(); len(got) != len(want) {
			c.addf("run %s (%s) has %d steps, expected %d", run, workflow, len(got), len(want))
		}
		for _, w := range o.steps() {
			if out, ok := got[w.StepKey]; !ok {
				c.addf("run %s: step %s is missing", run, w.StepKey)
			} else if w.output != "" && string(out) != w.output {
				c.addf("run %s: step %s returned %s, expected %s", run, w.StepKey, out, w.output)
			}
		}
		return nil
	})
}
