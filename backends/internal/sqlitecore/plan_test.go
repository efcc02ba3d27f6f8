package sqlitecore

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

// migrated returns an empty database with the newest schema.
func migrated(t *testing.T) *sqlx.DB {
	t.Helper()
	db := sqlx.MustOpen("sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.SQLite(), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.Up(context.Background())
	require.NoError(t, err)
	return db
}

// TestPlans checks that the statements of the hot path use their indexes (P18): they scan no table,
// whatever it contains.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := migrated(t)
	statements := sqlkit.Queries(sqlkit.SQLite)
	maps.Copy(statements, map[string]string{
		"claimRuns": claimRuns, "claimNext": claimNext, "claimPeek": claimPeek,
		"claimedAgain": claimedAgain, "claimedSought": sought(claimedAgain, time.Minute), "claimedBareAgain": claimedBareAgain, "claimedParts": claimedParts, "claimedInputs": claimedInputs, "claimedAnySteps": claimedAnySteps, "claimBare": claimBare,
		"getBounded":    getBounded,
		"claimedGroups": claimedGroups, "steps/tally": claimedSteps.tally, "steps/all": claimedSteps.all, "steps/fit": claimedSteps.fit,
		"state/tally": claimedState.tally, "state/all": claimedState.all, "state/fit": claimedState.fit,
		"signals/tally": claimedSignals.tally, "signals/all": claimedSignals.all, "signals/fit": claimedSignals.fit,
		"extendLease": extendLease, "commitKeep": commitKeep, "commitFinal": commitFinal, "commitYield": commitYield, "commitContinue": commitContinue,
		"putStep": putStep, "putStepNow": putStepNow, "consume": consume, "countSpawned": countSpawned, "armGroup": armGroup, "metAlready": metAlready,
		"forgetSteps": forgetSteps, "forgetFailed": forgetFailed, "forgetChildren": forgetChildren,
		"countFinal": countFinal, "wakeAwaiting": wakeAwaiting, "takeLease": takeLease, "cancelTree": cancelTree, "closeTree": closeTree, "countCanceled": countCanceled, "countLeft": countLeft,
		"keepMany": keepMany, "finalMany": finalMany.quiet, "finalManyLimited": finalMany.limited, "finalManyTold": finalMany.told, "endMany": endMany.quiet, "endManyLimited": endMany.limited, "endManyTold": endMany.told, "endPermits": endPermits, "countMany": countMany, "wakeMany": wakeMany, "putSteps": putSteps, "createMany": createMany, "largeInputs": largeInputs,
		"createRun": createRun, "spawnRun": spawnRun, "findHolder": findHolder, "findPast": findPast, "listChildren": listChildren,
		"signalRun": signalRun, "signalExt": signalExt, "eventRun": eventRun, "eventExt": eventExt, "fateByExtID": fateByExtID,
		"startRun": startRun, "startSignal": startSignal, "startEvent": startEvent, "startFate": startFate,
		"writeState": writeState, "stateEvent": stateEvent, "fireSchedule": fireSchedule,
		"planFlows": planFlows, "planFlowsBare": planFlowsBare, "planParks": planParks, "planFree": planFree, "planFreeBare": planFreeBare, "planFresh": planFresh, "planFreshBare": planFreshBare, "planFlow": planFlow, "planFlowed": planFlowed, "planFlowPark": planFlowPark, "freshFlows": freshFlows, "freshNone": freshNone, "planGuard": planGuard, "planTake": planTake + claimColumns,
		"planKeys": planKeys, "planGone": planGone, "planHeads": planHeads, "planClocks": planClocks, "planTurns": planTurns, "planStates": planStates, "planAwake": planAwake, "planEmpty": planEmpty, "planParked": planParked, "planWake": planWake,
		"planFreed": planFreed, "planTold": planTold, "planForget": planForget, "planForgetFair": planForgetFair, "commitUnder": commitUnder, "freeStep": freeStep,
		"plainKeep": plainKeep, "plainFinal": plainFinal, "plainLimited": plainLimited, "plainTold": plainTold, "passTake": passTake, "passEnd": passEnd, "passFlow": passFlow, "passLast": passLast, "passedBefore": passedBefore,
		"onceTake": onceTake, "onceBare": onceBare, "onceAgain": onceAgain, "onceAgainBare": onceAgainBare, "onceSome": onceSome, "oncePlan": oncePlan, "onceKeys": onceKeys, "onceGone": onceGone, "onceHeads": onceHeads, "onceNext": onceNext, "onceRest": onceRest,
		"purge": `DELETE FROM runs WHERE id` + purged,
	})
	for name, sql := range statements {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, db, sql)
			for _, line := range plan {
				// These may be scanned: lists of the statement itself.
				for _, table := range []string{"runs", "steps", "signals", "groups", "state", "large_inputs", "r", "s", "x", "c", "g", "o", "p", "l", "f", "k", "limit_keys", "limit_flows", "limit_parks", "limits"} {
					require.False(t, line == "SCAN "+table || strings.HasPrefix(line, "SCAN "+table+" ") && !strings.Contains(line, "VIRTUAL TABLE"), "%s\n%s", line, strings.Join(plan, "\n"))
				}
			}
		})
	}

	t.Run("a plan seeks flows in the index of their state", func(t *testing.T) {
		for _, line := range explain(t, db, planFlows) {
			require.NotContains(t, line, "limit_flows_flow")
		}
	})

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

// TestStatementsAreShort checks that libSQL's server stores the statements of claims, so that they are sent once on each
// stream. It stores no text of 5,000 bytes or more.
func TestStatementsAreShort(t *testing.T) {
	t.Parallel()
	c := New(nil, Config{ServerNow: "CAST(round(unixepoch('subsec')*1000)*1000 AS INTEGER)"})
	for _, sql := range []string{c.take, c.bare, c.peek, c.next, planFlows, planFlowsBare, planParks, planFree, planFresh, planFreshBare, c.nextOnce} {
		require.Less(t, len(sql), 5000, sql)
	}
}

// TestStatementsTell checks that the triggers of limits and of changes fire for each statement that changes runs, except for
// those that say why they need not.
func TestStatementsTell(t *testing.T) {
	t.Parallel()
	told := []string{
		commitFinal, commitYield, commitUnder, commitContinue, metAlready, pinRun, freeStep, plainTold, finalMany.told, endMany.told, takeLease, pauseRun, resumeRun,
		unpinRun, restartRun, replaceRun, wakeAwaiting, wakeMany, cancelTree, closeTree, eventRun, eventExt, startEvent, stateEvent,
	}
	untold := []string{plainFinal, finalMany.quiet, endMany.quiet}
	untoldStep := []string{plainLimited, finalMany.limited, endMany.limited} // endPermits follows
	// planTake, onceTake, passTake and passEnd have their own statements for permits and flows.
	other := []string{claimRuns, claimBare, extendLease, plainKeep, keepMany, commitKeep, setTags, forgetChildren, planTake, planFlowed, freshNone, passTake, passEnd, onceTake, onceBare}
	for _, sql := range told {
		require.Contains(t, sql, "told=NULL")
	}
	for _, sql := range untold {
		require.NotContains(t, sql, "told=NULL")
		require.Contains(t, sql, " AND under IS NULL AND step_under IS NULL AND NOT EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=")
	}
	for _, sql := range untoldStep {
		require.NotContains(t, sql, "told=NULL")
		require.Contains(t, sql, " AND step_under IS NULL AND NOT EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=")
	}
	const update = "UPDATE runs SET "
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, part := range strings.Split(string(src), update) {
			if i == 0 || strings.HasSuffix(file, "_test.go") {
				continue
			}
			begin := part[:min(len(part), 30)]
			if end := strings.IndexAny(begin, "{\"`"); end >= 0 {
				begin = begin[:end]
			}
			known := func(sql string) bool { return strings.Contains(sql, update+begin) }
			require.True(t, slices.ContainsFunc(slices.Concat(told, untold, untoldStep, other), known), "%s: does %q set told? Add the statement to a list", file, update+begin)
		}
	}
}

// TestListPlans checks that lists and counts use the index that has their runs in their order.
func TestListPlans(t *testing.T) {
	t.Parallel()
	migrated := migrated(t)
	const (
		active   = "r USING INDEX runs_active (namespace=?"
		ended    = "r USING INDEX runs_ended (namespace=? AND status=?"
		finished = "r USING INDEX runs_finished (namespace=?"
		failed   = "r USING INDEX runs_failed (namespace=? AND status=?"
		pinned   = "r USING INDEX runs_pinned (namespace=? AND pin=?"
	)
	hour := time.Unix(3600, 0)
	failure := store.RunFilter{Statuses: []store.Status{store.Failed}, FinishedAfter: hour, FailureCode: "c", FailureText: "t", FailedStep: "s", MinAttempt: 2}
	for _, tt := range []struct {
		name    string
		byEnd   bool
		f       store.RunFilter
		indexes []string
	}{
		{"all", false, store.RunFilter{}, []string{active, ended, ended, ended}},
		{"unfinished", false, store.RunFilter{Statuses: []store.Status{store.Pending, store.Running}}, []string{active}},
		{"failed", false, store.RunFilter{Statuses: []store.Status{store.Failed}}, []string{ended}},
		{"of a workflow since", false, store.RunFilter{Workflow: "w", CreatedAfter: hour}, []string{
			active + " AND created_at", ended + " AND created_at", ended + " AND created_at", ended + " AND created_at"}},
		{"pinned", false, store.RunFilter{PinnedTo: []string{"a"}}, []string{pinned, ended, ended, ended}},
		{"unfinished pinned since", false, store.RunFilter{PinnedTo: []string{"b", "a", "b"}, Pinned: true, Statuses: []store.Status{store.Pending, store.Running}, CreatedAfter: hour}, []string{
			pinned + " AND created_at", pinned + " AND created_at"}},
		{"pinned to many", false, store.RunFilter{PinnedTo: make([]string, store.FewBuilds+1), Statuses: []store.Status{store.Pending}}, []string{active}},
		{"pinned by end", true, store.RunFilter{PinnedTo: []string{"a"}}, []string{finished}},
		{"by end", true, store.RunFilter{}, []string{finished}},
		{"completed by end", true, store.RunFilter{Statuses: []store.Status{store.Completed}}, []string{finished}},
		{"canceled by end", true, store.RunFilter{Statuses: []store.Status{store.Canceled}}, []string{failed}},
		{"failed since, by end", true, failure, []string{failed + " AND finished_at"}},
		{"children", false, store.RunFilter{Parent: store.NewID(), Statuses: []store.Status{store.Failed}, FinishedAfter: hour}, []string{"r USING INDEX runs_parent (parent=?"}},
		{"of an external id", false, store.RunFilter{ExternalID: "e", Statuses: []store.Status{store.Failed}, FinishedAfter: hour}, []string{
			"r USING INDEX runs_external (namespace=? AND external_id=?", "r USING INDEX runs_external_past (namespace=? AND external_id=?"}},
		{"of a prefix", true, store.RunFilter{IDPrefix: "0123456789"}, []string{"r USING INDEX sqlite_autoindex_runs_1 (id>? AND id<?"}},
	} {
		for _, oldest := range []bool{false, true} {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/oldest first %v/with a cursor %v", tt.name, oldest, behind), func(t *testing.T) {
					p := store.ListParams{Namespace: "n", Filter: tt.f, ByEnd: tt.byEnd, OldestFirst: oldest}
					if behind {
						p.Cursor = p.CursorBehind(&store.Run{ID: store.NewID(), CreatedAt: hour, FinishedAt: hour})
					}
					sql, _, err := sqlkit.ListRuns(db{&Core{}}, p, 100)
					require.NoError(t, err)
					searches(t, migrated, sql, tt.indexes, tt.f.Few())
				})
			}
		}
	}
	for _, tt := range []struct {
		name    string
		f       store.RunFilter
		indexes []string
	}{
		{"all", store.RunFilter{}, []string{active, ended, ended, ended}},
		{"unfinished", store.RunFilter{Statuses: []store.Status{store.Pending, store.Running}}, []string{active}},
		{"of a queue", store.RunFilter{Queue: "q", Statuses: []store.Status{store.Failed}}, []string{ended}},
		{"pinned", store.RunFilter{PinnedTo: []string{"a", "b"}}, []string{pinned, pinned, ended, ended, ended}},
		{"ended since", store.RunFilter{FinishedAfter: hour}, []string{finished + " AND finished_at", failed + " AND finished_at", failed + " AND finished_at"}},
		{"failed since", failure, []string{failed + " AND finished_at"}},
	} {
		t.Run("count/"+tt.name, func(t *testing.T) {
			sql, _, _, err := sqlkit.CountRuns(db{&Core{}}, store.CountParams{Namespace: "n", Filter: tt.f, ByFailure: true})
			require.NoError(t, err)
			searches(t, migrated, sql, tt.indexes, true) // it sorts its groups
		})
	}
}

// searches checks which indexes a statement uses to read runs, and that it sorts none of them.
func searches(t *testing.T, db *sqlx.DB, sql string, indexes []string, sorts bool) {
	t.Helper()
	var found []string
	plan := explain(t, db, sql)
	for _, line := range plan {
		if _, index, ok := strings.Cut(line, "SEARCH "); ok && strings.HasPrefix(index, "r ") {
			found = append(found, index)
		}
		require.NotRegexp(t, "SCAN r ", line)
	}
	require.Len(t, found, len(indexes), "%s", strings.Join(plan, "\n"))
	for i := range indexes {
		require.True(t, strings.HasPrefix(found[i], indexes[i]), "%s\nexpected %s in\n%s", found[i], indexes[i], strings.Join(plan, "\n"))
	}
	if !sorts {
		require.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE", "the index gives the order")
	}
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
