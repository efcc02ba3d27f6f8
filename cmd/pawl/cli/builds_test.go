package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

// deploy is a namespace in the middle of deploys.
type deploy struct {
	*shell
	st store.Store
}

func newDeploy(t *testing.T, db string) *deploy {
	s := migrated(t, db)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return &deploy{s, st}
}

// pinned makes a run that a build has given back to another; an empty step: its workflow asked to stay.
func (d *deploy) pinned(workflow, build, step string) string {
	id := store.NewID()
	res, err := d.st.Create(d.t.Context(), store.CreateParams{Namespace: "default", Runs: []store.NewRun{{
		ID: id, Workflow: workflow, Queue: workflow, Worker: "gone", LeaseFor: time.Hour, Build: build}}})
	require.NoError(d.t, err)
	pin := &store.Pin{Build: build}
	if step != "" {
		pin = &store.Pin{Build: build, By: "v2", Step: step, Expected: `function "check"`, Found: `function "charge"`}
	}
	done, err := d.st.Commit(d.t.Context(), store.CommitParams{Namespace: "default", Commits: []store.Commit{{
		Lease: res[0].Lease, Seq: 1, Pin: pin, Transition: &store.Transition{Kind: store.GiveBack}}}})
	require.NoError(d.t, err)
	require.NoError(d.t, done[0].Err)
	return id.String()
}

// worker registers a worker for two workflows.
func (d *deploy) worker(id, build string, status store.WorkerStatus) {
	require.NoError(d.t, d.st.PutWorker(d.t.Context(), store.PutWorkerParams{Namespace: "default", Worker: store.Worker{
		ID: id, Build: build, Status: status, TTL: time.Hour, Queues: []string{"order", "mail"}, Workflows: []string{"order", "mail"}, Slots: 1}}))
}

func (d *deploy) listed(args ...string) (ids []string) {
	d.t.Helper()
	var out struct{ Runs []struct{ ID string } }
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"runs", "list", "--json"}, args...)...)), &out))
	for _, r := range out.Runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestStrandedRuns: every command that tells of builds and stranded runs, on each database.
func TestStrandedRuns(t *testing.T) {
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			d := newDeploy(t, db(t))
			require.Empty(t, d.listed("--stranded"))
			require.Contains(t, d.run("builds").err, "has no builds yet")
			d.worker("old", "v1", store.Online)
			d.worker("new", "v2", store.Online)
			order, mail := d.pinned("order", "v1", "charge"), d.pinned("mail", "v1", "")
			require.Empty(t, d.listed("--stranded"), "v1 has a worker")
			require.ElementsMatch(t, []string{order, mail}, d.listed("--build", "v1"))
			code, found := diagnose(t, d.shell)
			require.Equal(t, exitOK, code)
			require.Equal(t, "ok", found["builds"].Level)
			r := d.run("runs", "cancel", "--stranded", "--yes")
			require.Equal(t, exitOK, r.code)
			require.Contains(t, r.err, "Nothing was changed", "no run is stranded, and not all")

			d.worker("old", "v1", store.Draining)
			lost := d.pinned("order", "v0", "charge")
			require.ElementsMatch(t, []string{order, mail, lost}, d.listed("--stranded"))
			require.ElementsMatch(t, []string{order, lost}, d.listed("--stranded", "--workflow", "order"))
			require.ElementsMatch(t, []string{lost}, d.listed("--stranded", "--build", "v0"))
			require.Contains(t, d.must("runs", "list", "--stranded"), "pinned to v0; due")
			code, found = diagnose(t, d.shell)
			require.Equal(t, exitFailed, code)
			found.only(t, "fault", "builds", `build "v0" (1 run), build "v1" (2 runs)`, "pawl runs list --stranded", "pawl runs unpin --stranded", "pawl runs explain")
			show := d.must("runs", "show", order)
			require.Contains(t, show, `build v1, given back by build v2 at step charge: expected function "check", found function "charge"`)
			require.Contains(t, d.must("runs", "explain", order), `no worker of that build is online`)

			require.Contains(t, d.must("runs", "unpin", order), order+"  pending")
			r = d.run("runs", "unpin", order)
			require.Equal(t, exitConflict, r.code)
			require.Contains(t, r.err, order)
			require.Contains(t, r.err, "not pinned to a build")
			require.Equal(t, exitUsage, d.run("runs", "unpin", "--stranded").code, "it asks first")
			require.Contains(t, d.must("runs", "unpin", "--stranded", "--yes", "--build", "v1"), "1 run unpinned")
			require.Contains(t, d.must("runs", "unpin", "--stranded", "--yes"), "1 run unpinned")
			require.Contains(t, d.run("runs", "unpin", "--all", "--yes").err, "Nothing was changed")
			require.Empty(t, d.listed("--stranded"))
		})
	}
}

func TestBuilds(t *testing.T) {
	d := newDeploy(t, file(t))
	d.worker("a", "v3", store.Online)
	d.worker("b", "v2", store.Online)
	d.worker("c", "v2", store.Draining)
	d.worker("d", "v1", store.Online)
	d.pinned("order", "v1", "charge")
	d.pinned("order", "v0", "")
	d.pinned("order", "v0", "")
	var out struct{ Builds []buildLine }
	require.NoError(t, json.Unmarshal([]byte(d.must("builds", "--json")), &out))
	require.Equal(t, []buildLine{
		{Build: "v0", Pinned: 2, Stranded: true, Reason: "2 runs are stranded"},
		{Build: "v1", Online: 1, Pinned: 1, Reason: "1 run is pinned to it"},
		{Build: "v2", Online: 1, Draining: 1, MayStop: true, Reason: "no run is pinned to it"},
		{Build: "v3", Online: 1, MayStop: true, Reason: "no run is pinned to it"},
	}, out.Builds)
	table := d.must("builds")
	for _, say := range []string{"MAY STOP", "2 runs are stranded", "no run is pinned to it"} {
		require.Contains(t, table, say)
	}
	last := buildLines([]store.Build{{Name: "v1", Workers: 1, Online: 1, Runs: 5}, {Name: "v0", Runs: 1}})
	require.Equal(t, "no other build has an online worker", last[0].Reason)
	require.False(t, last[0].MayStop)
	require.True(t, last[1].MayStop)
}

// TestUnknownBuild: a build that there is not is an error that names those that there are.
func TestUnknownBuild(t *testing.T) {
	d := newDeploy(t, file(t))
	r := d.run("runs", "list", "--build", "v7")
	require.Equal(t, exitNotFound, r.code)
	require.Contains(t, r.err, "no build is known")
	d.worker("a", "v1", store.Online)
	d.worker("b", "v2", store.Online)
	for _, args := range []string{"runs list --build v7", "runs count --build v1,v7", "runs unpin --build v7 --yes", "runs cancel --build v7 --yes", "runs list --stranded --build v7"} {
		r := d.run(strings.Fields(args)...)
		require.Equal(t, exitNotFound, r.code, args)
		require.Contains(t, r.err, `build "v7" in namespace "default"`, args)
		require.Contains(t, r.err, `the known builds are "v1", "v2"`, args)
	}
	r = d.run("runs", "list", "--stranded", "--status", "failed")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "--status")
}
