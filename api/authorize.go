package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// Action is something that a caller wants to do. Its name begins with what it is done to.
type Action string

// The actions.
const (
	ReadInfo        Action = "info.read"     // what the API and the backend are, and whether the store answers
	ReadRuns        Action = "runs.read"     // runs, steps, explanations, counts, without payloads
	ReadPayloads    Action = "payloads.read" // inputs, outputs, signals' payloads, values of flow state
	StartRuns       Action = "runs.start"
	CancelRuns      Action = "runs.cancel"
	PauseRuns       Action = "runs.pause" // and resume
	RestartRuns     Action = "runs.restart"
	ForkRuns        Action = "runs.fork"
	UnpinRuns       Action = "runs.unpin"
	SignalRuns      Action = "runs.signal"
	ChangeState     Action = "runs.state" // set and delete flow state
	ExportRuns      Action = "runs.export"
	ImportRuns      Action = "runs.import"
	PurgeRuns       Action = "runs.purge"
	ReadSchedules   Action = "schedules.read"
	WriteSchedules  Action = "schedules.write" // put and delete
	PauseSchedules  Action = "schedules.pause" // and resume
	TriggerSchedule Action = "schedules.trigger"
	ReadQueues      Action = "queues.read"
	PauseQueues     Action = "queues.pause" // and resume
	ReadWorkflows   Action = "workflows.read"
	PauseWorkflows  Action = "workflows.pause" // and resume
	ReadWorkers     Action = "workers.read"
	RemoveWorkers   Action = "workers.remove"
	ReadBuilds      Action = "builds.read"
	ReadLimits      Action = "limits.read"
	ChangeLimits    Action = "limits.change"   // set and unset what they allow, and weights
	ReadWebhooks    Action = "webhooks.read"   // outgoing webhooks, and what waits for them
	DeleteWebhooks  Action = "webhooks.delete" // with what waits
	RunDoctor       Action = "doctor.read"
	ReadActions     Action = "actions.read" // who did what
	ReadMetrics     Action = "metrics.read"
)

var actions = []Action{ReadInfo, ReadRuns, ReadPayloads, StartRuns, CancelRuns, PauseRuns, RestartRuns, ForkRuns, UnpinRuns, SignalRuns, ChangeState, ExportRuns, ImportRuns,
	PurgeRuns, ReadSchedules, WriteSchedules, PauseSchedules, TriggerSchedule, ReadQueues, PauseQueues, ReadWorkflows, PauseWorkflows, ReadWorkers, RemoveWorkers, ReadBuilds,
	ReadLimits, ChangeLimits, ReadWebhooks, DeleteWebhooks, RunDoctor, ReadActions, ReadMetrics}

// Actions lists all actions.
func Actions() []Action { return slices.Clone(actions) }

// Reads reports whether the action changes nothing.
func (a Action) Reads() bool { return strings.HasSuffix(string(a), ".read") || a == ExportRuns }

// Target is what an action is done to. Fields that the request does not name are empty.
type Target struct {
	Namespace string
	Run       store.ID // zero: none, or several
	Workflow  string   // of a start, of a schedule that is put, or the workflow itself
	Queue     string
	Schedule  string
	Worker    string
	Limit     string
	Webhook   string
}

// Caller is who has sent a request, as far as the API knows.
type Caller struct {
	// Remote is the address that the request came from: that of a proxy, if there is one.
	Remote netip.Addr
	// Local says that the request came from this machine: from a loopback address, to a listener
	// on a loopback address, with a loopback address or "localhost" as its Host (a page of another
	// site, whose name was made to point here, has another), and without the headers
	// that a proxy adds (Forwarded, X-Forwarded-For, X-Forwarded-Host, X-Real-Ip). A request that comes from
	// a program without a network counts like one that came from the address it states.
	Local bool
	// Actor is recorded in the journal: see [Actor].
	Actor string
}

type callerKey struct{}

// CallerOf returns the caller of the request that is being served. It is for functions
// given to [Authorize].
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// LocalOnly is the authorization of an API without [Authorize]: it allows everything to callers on the
// same machine, as [Caller] defines them, and nothing to others.
func LocalOnly(ctx context.Context, a Action, _ Target) error {
	if c, ok := CallerOf(ctx); ok && c.Local {
		return nil
	}
	return fmt.Errorf("%s is refused: without api.Authorize, the API serves only callers on the same machine", a)
}

func callerOf(r *http.Request) Caller {
	var c Caller
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Remote = ap.Addr().Unmap().WithZone("")
	}
	c.Local = c.Remote.IsLoopback() && loopbackHost(r.Host) && loopbackListener(r) && !proxied(r)
	return c
}

// loopbackListener reports whether the connection reached a loopback address. A request that a
// program made without a network has no such address.
func loopbackListener(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err != nil && addr.Network() == "unix" || err == nil && ap.Addr().Unmap().IsLoopback()
}

func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func proxied(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}
