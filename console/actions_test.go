package console_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/browsertest"
	"github.com/pawlhq/pawl/store"
)

// hand is a viewer who acts through the browser.
type hand struct {
	*browsertest.Page
	*scene
	at string
}

// act goes to a page, follows a button, and confirms.
func (h hand) act(path, button string) {
	h.t.Helper()
	require.Equal(h.t, http.StatusOK, h.Go(h.at+path))
	require.Equal(h.t, http.StatusOK, h.FollowText(button))
	require.Contains(h.t, h.Text("main"), "What will happen", "every action asks first")
	require.Equal(h.t, http.StatusOK, h.Follow("main form button"), button)
}

func (h hand) run(what string) store.Run {
	h.t.Helper()
	id, err := store.ParseID(h.ids[what])
	require.NoError(h.t, err)
	run, err := h.eng.Get(h.ctx, id)
	require.NoError(h.t, err)
	return run
}

func handle(t *testing.T) hand {
	t.Helper()
	s := open(t, sqliteFile(t)).fill()
	return hand{browsertest.Open(t), s, s.serve(nil)}
}

func TestActionsOnARun(t *testing.T) {
	t.Parallel()
	h := handle(t)
	page := func(what string) string { return "runs/" + h.ids[what] }

	h.act(page("refund-7"), "Pause")
	require.Equal(t, store.Paused, h.run("refund-7").Status)
	require.Contains(t, h.Text("main"), "The run is paused until it is resumed")
	h.act(page("refund-7"), "Resume")
	require.Equal(t, store.Sleeping, h.run("refund-7").Status)

	h.Go(h.at + page("refund-7"))
	h.FollowText("Send a signal")
	require.Equal(t, "approved", browsertest.Eval[string](h.Page, `document.getElementById("x-name").value`), "the signal that it waits for is proposed")
	h.Fill("#x-payload", `{"broken"`)
	require.Equal(t, http.StatusBadRequest, h.Follow("main form button"))
	require.Contains(t, h.Text("main"), "It was not done")
	require.Equal(t, `{"broken"`, browsertest.Eval[string](h.Page, `document.getElementById("x-payload").value`), "what was typed is not lost")
	h.Fill("#x-payload", `"yes"`)
	require.Equal(t, http.StatusOK, h.Follow("main form button"))
	h.work("v2", approve)
	require.Equal(t, store.Completed, h.run("refund-7").Status)
	require.Equal(t, `"yes"`, string(h.run("refund-7").Output))

	h.act(page("charge-9"), "Restart")
	require.Equal(t, store.Pending, h.run("charge-9").Status)

	h.Go(h.at + page("order-41"))
	h.FollowText("Fork")
	choice := browsertest.Eval[string](h.Page, `[...document.querySelectorAll("#x-position option")].find(o => o.text.includes("charge")).value`)
	h.Fill("#x-position", choice)
	h.Follow("main form button")
	require.Contains(t, h.Text("main"), "This is the new run")
	require.Contains(t, h.Text("main"), "Forked from")

	h.act(page("account-8"), "Unpin")
	require.Nil(t, h.run("account-8").Pin)

	h.Go(h.at + page("import-1"))
	h.FollowText("Cancel")
	h.Fill("#x-reason", "nobody needs it")
	h.Follow("main form button")
	run := h.run("import-1")
	require.Equal(t, store.Canceled, run.Status)
	require.Equal(t, "nobody needs it", run.Failure.Message)

	h.Go(h.at + "journal")
	for _, verb := range []string{"pause", "resume", "restart", "fork", "unpin", "cancel"} {
		require.Contains(t, h.Text("main"), verb)
	}
}

func TestCancelByForce(t *testing.T) {
	t.Parallel()
	h := handle(t)
	h.act("runs/"+h.ids["account-8"], "Cancel by force")
	require.Equal(t, store.Canceled, h.run("account-8").Status)
}

func TestActionsOnManyRuns(t *testing.T) {
	t.Parallel()
	h := handle(t)
	h.act("runs?workflow=send-mail&status=active", "Pause all")
	require.Contains(t, h.Text("main"), "2 runs were done")
	require.Equal(t, store.Paused, h.run("mail-3").Status)
	require.Equal(t, store.Paused, h.run("mail-4").Status)
	h.act("runs?workflow=send-mail&status=paused", "Resume all")
	require.Equal(t, store.Pending, h.run("mail-4").Status)

	h.Go(h.at + "runs?queue=send-mail&status=active")
	h.FollowText("Cancel all")
	require.Contains(t, h.Text("main"), "2 runs are changed, at most")
	require.Contains(t, h.Text("main"), "mail-3")
	h.Follow("main form button")
	require.Equal(t, store.Canceled, h.run("mail-3").Status)
	require.Equal(t, store.Sleeping, h.run("refund-7").Status, "other runs are not changed")

	h.act("runs?code=card-declined&status=failed", "Restart all")
	require.Equal(t, store.Pending, h.run("charge-9").Status)

	require.Equal(t, http.StatusBadRequest, h.Go(h.at+"do?action=runs-cancel"), "an action on everything is not offered")
}

func TestActionsOnWork(t *testing.T) {
	t.Parallel()
	h := handle(t)
	paused := func() (names []string) {
		list, err := h.eng.Paused(h.ctx)
		require.NoError(t, err)
		for _, p := range list {
			names = append(names, p.Queue+p.Workflow)
		}
		return names
	}
	h.act("", "Resume queue send-mail")
	require.Empty(t, paused())
	h.act("", "Pause queue charge-card")
	require.Equal(t, []string{"charge-card"}, paused())
	h.act("", "Resume queue charge-card")
	h.act("workflow?name=fulfil-order", "Pause")
	require.Equal(t, []string{"fulfil-order"}, paused())
	require.Contains(t, h.Text("main"), "The workflow has been paused since")
	h.act("workflow?name=fulfil-order", "Resume")
	require.Empty(t, paused())

	schedule := func(name string) engine.Schedule {
		v, err := h.eng.Schedule(h.ctx, name)
		require.NoError(t, err)
		return v
	}
	h.act("schedule?name=nightly-report", "Pause")
	require.True(t, schedule("nightly-report").Paused)
	h.act("schedule?name=nightly-report", "Resume")
	require.False(t, schedule("nightly-report").Paused)
	h.act("schedule?name=hourly-sync", "Start a run now")
	require.Contains(t, h.Text("main"), "The schedule has started this run")
	h.act("schedule?name=hourly-sync", "Delete")
	_, err := h.eng.Schedule(h.ctx, "hourly-sync")
	require.ErrorIs(t, err, store.ErrNotFound)

	h.act("workers", "Remove eu-west-1c-9")
	workers, err := h.eng.WorkersNow(h.ctx)
	require.NoError(t, err)
	require.Len(t, workers, 2)
}

func TestActionsOnLimits(t *testing.T) {
	t.Parallel()
	h := handle(t)
	limit := func() store.Limit {
		limits, err := h.eng.Limits(h.ctx, "partner")
		require.NoError(t, err)
		require.Len(t, limits, 1)
		return limits[0]
	}
	require.Equal(t, http.StatusOK, h.Go(h.at+"limit?name=partner"))
	require.Equal(t, http.StatusOK, h.FollowText("Set what it allows"))
	h.Fill("#x-concurrency", "2")
	h.Fill("#x-tokens", "10")
	require.Equal(t, http.StatusBadRequest, h.Follow("main form button"), "a rate without its time")
	require.Contains(t, h.Text("main"), "It was not done")
	h.Fill("#x-per", "1m")
	require.Equal(t, http.StatusOK, h.Follow("main form button"))
	require.Contains(t, h.Text("main"), "2 at a time, 10 per 1m0s")
	require.Equal(t, &store.LimitRule{Concurrency: 2, Tokens: 10, Per: time.Minute}, limit().Set)

	require.Equal(t, http.StatusOK, h.FollowText("Set a key's share"))
	h.Fill("#x-key", "acme")
	h.Fill("#x-weight", "7")
	require.Equal(t, http.StatusOK, h.Follow("main form button"))
	keys, err := h.eng.LimitKeys(h.ctx, "partner", "", 1)
	require.NoError(t, err)
	require.EqualValues(t, 7, keys.Keys[0].Weight)

	h.act("limit?name=partner", "Let the code's rule count")
	require.Contains(t, h.Text("main"), "no limit")
	limits, err := h.eng.Limits(h.ctx, "partner")
	require.NoError(t, err)
	require.Empty(t, limits, "no code has registered it")
}

func TestDeleteAWebhook(t *testing.T) {
	t.Parallel()
	h := handle(t)
	require.Equal(t, http.StatusOK, h.Go(h.at+"webhooks"))
	require.Equal(t, http.StatusOK, h.Follow(`a[href*="webhook-delete"][href*="audit"]`))
	require.Contains(t, h.Text("main"), "never delivered")
	require.Equal(t, http.StatusOK, h.Follow("main form button"))
	require.Contains(t, h.Text("main"), "The subscription was deleted")
	require.NotContains(t, h.Text("main"), "audit")
	list, err := h.eng.Subscriptions(h.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	h.Go(h.at + "journal")
	require.Contains(t, h.Text("main"), "webhook audit")
}

// TestKeyboard cancels a run without a mouse, and the first key press offers to skip the menu.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	h := handle(t)
	h.Go(h.at + "runs/" + h.ids["refund-7"])
	h.Press(browsertest.Tab)
	require.Equal(t, "Skip to the content", h.Focused())
	h.Press(browsertest.Enter)
	require.Equal(t, "main", browsertest.Eval[string](h.Page, "document.activeElement.id"))
	h.tabTo("Cancel")
	h.Press(browsertest.Enter)
	h.WaitText("What will happen")
	h.tabTo("reason")
	h.Press("typed")
	h.tabTo("Cancel")
	h.Press(browsertest.Enter)
	h.WaitText("typed")
	run := h.run("refund-7")
	require.Equal(t, "typed", run.Failure.Message)
}

// tabTo presses the tab key until an element has the focus.
func (h hand) tabTo(name string) {
	h.t.Helper()
	for range 60 {
		h.Press(browsertest.Tab)
		if h.Focused() == name {
			return
		}
	}
	h.t.Fatalf("the tab key does not reach %q", name)
}

// TestWithoutScripts reads and acts while scripts are off.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t)).fill()
	at := s.serve(nil)
	get := func(path string) string { return read(t, at+path) }
	contains(t, get(""), "Needs attention", "send-mail", `<time datetime="`)
	contains(t, get("runs/"+s.ids["refund-7"]), "waits for signal", "What helps", "Send a signal")
	p := browsertest.Open(t)
	p.Scripts(false)
	h := hand{p, s, at}
	p.Go(at + "runs/" + s.ids["refund-7"])
	p.Follow(`a[href*="run-pause"]`)
	p.Follow("main form button")
	require.Equal(t, store.Paused, h.run("refund-7").Status)
}

// TestPagesUpdateThemselves changes runs while a viewer looks.
func TestPagesUpdateThemselves(t *testing.T) {
	t.Parallel()
	h := handle(t)
	h.Go(h.at + "runs/" + h.ids["refund-7"])
	h.WaitFor(`document.documentElement.classList.contains("live-on")`)
	h.ClickText("Records of the steps")
	id, err := store.ParseID(h.ids["refund-7"])
	require.NoError(t, err)
	require.NoError(t, h.eng.Pause(h.ctx, id))
	h.WaitText("The run is paused until it is resumed")
	require.True(t, browsertest.Eval[bool](h.Page, `document.querySelector("#records").closest("details").open`), "what the viewer has opened stays open")

	h.Click("#live")
	require.Equal(t, "Paused", h.Text("#live .text"))
	require.NoError(t, h.eng.Resume(h.ctx, id))
	h.Click("#live")
	h.WaitText("waits for signal")

	h.Go(h.at + "runs?queue=send-mail")
	h.Fill("#f-error", "half typed")
	h.WaitFor(`document.documentElement.classList.contains("live-on")`)
	start(h.scene, "mail-99", mail, Order{Number: 99}, engine.Delay(time.Hour))
	h.WaitText("mail-99")
	require.Equal(t, "half typed", browsertest.Eval[string](h.Page, `document.getElementById("f-error").value`))
}
