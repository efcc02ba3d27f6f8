package sqlitecore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

// TestPlans holds the statements of the hot path to their indexes (P18): no
// table is scanned, whatever it contains.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := sqlx.MustOpen("sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.SQLite(), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.Up(context.Background())
	require.NoError(t, err)

	for name, sql := range map[string]string{
		"claimRuns": claimRuns, "claimNext": claimNext, "claimPeek": claimPeek,
		"claimedAgain": claimedAgain, "claimedSought": sought(claimedAgain, time.Minute), "claimedBareAgain": claimedBareAgain, "claimedParts": claimedParts, "claimedInputs": claimedInputs, "claimedAnySteps": claimedAnySteps, "claimBare": claimBare,
		"inboxSignals": inboxSignals, "inboxState": inboxState, "inboxGroups": inboxGroups, "inboxGroup": inboxGroup, "someState": someState,
		"pageOfSteps": pageOfSteps, "getBounded": getBounded,
		"claimedGroups": claimedGroups, "steps/tally": claimedSteps.tally, "steps/all": claimedSteps.all, "steps/fit": claimedSteps.fit,
		"state/tally": claimedState.tally, "state/all": claimedState.all, "state/fit": claimedState.fit,
		"signals/tally": claimedSignals.tally, "signals/all": claimedSignals.all, "signals/fit": claimedSignals.fit,
		"extendLease": extendLease, "commitKeep": commitKeep, "commitFinal": commitFinal, "commitYield": commitYield, "commitContinue": commitContinue,
		"putStep": putStep, "putStepNow": putStepNow, "consume": consume, "countSpawned": countSpawned, "armGroup": armGroup, "metAlready": metAlready,
		"forgetSteps": forgetSteps, "forgetFailed": forgetFailed, "forgetChildren": forgetChildren,
		"countFinal": countFinal, "wakeAwaiting": wakeAwaiting, "takeLease": takeLease, "cancelTree": cancelTree, "closeTree": closeTree, "countTree": countTree,
		"keepMany": keepMany, "finalMany": finalMany, "endMany": endMany, "countMany": countMany, "wakeMany": wakeMany, "putSteps": putSteps, "createMany": createMany, "largeInputs": largeInputs,
		"createRun": createRun, "spawnRun": spawnRun, "findHolder": findHolder, "findPast": findPast, "listChildren": listChildren,
		"signalRun": signalRun, "signalExt": signalExt, "eventRun": eventRun, "eventExt": eventExt, "fateByExtID": fateByExtID,
		"writeState": writeState, "stateEvent": stateEvent, "fireSchedule": fireSchedule,
		"listByEnd": listSQL(t, store.ListParams{ByEnd: true}), "listByEndOldest": listSQL(t, store.ListParams{ByEnd: true, OldestFirst: true}),
		"listFailedSince": listSQL(t, store.ListParams{ByEnd: true, Filter: store.RunFilter{
			Statuses: []store.Status{store.Failed}, FinishedAfter: time.Unix(1, 0), FailureCode: "c", FailureText: "t", FailedStep: "s", MinAttempt: 2,
		}}),
		"countEndedSince": countSQL(t, store.CountParams{ByFailure: true, Filter: store.RunFilter{FinishedAfter: time.Unix(1, 0)}}),
		"purge":           `DELETE FROM runs WHERE id` + purged,
	} {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, db, sql)
			if strings.HasPrefix(name, "list") && name != "listChildren" {
				require.Contains(t, strings.Join(plan, "\n"), "runs_finished (namespace=? AND finished_at", "the index bounds what is read")
				require.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE", "the index gives the order")
			}
			for _, line := range plan {
				// What may be scanned: lists of the statement itself.
				for _, table := range []string{"runs", "steps", "signals", "groups", "state", "large_inputs", "r", "s", "x", "c", "g", "o", "p", "l", "f"} {
					require.False(t, line == "SCAN "+table || strings.HasPrefix(line, "SCAN "+table+" "), "%s\n%s", line, strings.Join(plan, "\n"))
				}
			}
		})
	}

	t.Run("the peek reads the index alone", func(t *testing.T) {
		n := 0
		for _, line := range explain(t, db, claimPeek) {
			if strings.Contains(line, "runs_claim") {
				require.Contains(t, line, "USING COVERING INDEX")
				n++
			}
		}
		require.NotZero(t, n)
	})
}

// listSQL is the statement of a listing, with a cursor. It is sorted by its index.
func listSQL(t *testing.T, p store.ListParams) string {
	t.Helper()
	p.Namespace = "n"
	p.Cursor = p.CursorBehind(&store.Run{ID: store.NewID(), FinishedAt: time.Unix(2, 0)})
	sql, _, err := listRuns(p, 100)
	require.NoError(t, err)
	return sql
}

func countSQL(t *testing.T, p store.CountParams) string {
	t.Helper()
	p.Namespace = "n"
	sql, _, _, err := countRuns(p)
	require.NoError(t, err)
	return sql
}

func explain(t *testing.T, db *sqlx.DB, query string) []string {
	t.Helper()
	args := make([]any, max(strings.Count(query, "?"), 30))
	for i := range args {
		args[i] = int64(i)
	}
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var line string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &line))
		plan = append(plan, line)
	}
	require.NoError(t, rows.Err())
	if testing.Verbose() {
		fmt.Println(strings.Join(plan, "\n"))
	}
	return plan
}
