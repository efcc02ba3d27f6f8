package api

import (
	_ "embed" // the document
	"net/http"
	"reflect"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

//go:embed openapi.json
var document []byte

// OpenAPI returns the OpenAPI 3.1 document of the API.
func OpenAPI() []byte { return append([]byte(nil), document...) }

func metaOperations() []*operation {
	return []*operation{
		raw(http.MethodGet, "getOpenAPI", "/openapi.json", "", reflect.TypeFor[none](), noneType, nil, "application/json", "Get this document.", getOpenAPI),
		read("getInfo", "/v1/info", ReadInfo, "Get what the API and the backend are, and what the caller may do.", getInfo),
		read("listNamespaces", "/v1/namespaces", "", "List the namespaces that the caller may read.", listNamespaces),
		read("getHealth", "/v1/health", ReadInfo, "Ask the store, once, whether it answers.", getHealth),
		read("runDoctor", "/v1/doctor", RunDoctor, "Look for problems of the database, the workers and the runs. It looks every five seconds at most.", runDoctor),
	}
}

func getOpenAPI(c *call) error {
	c.began = true
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(document)
	return nil
}

func getInfo(c *call, _ *wire.In) (out wire.Info, err error) {
	now, err := c.eng.Store().Clock(c.ctx)
	if err != nil {
		return out, err
	}
	f := c.eng.Store().Features()
	out = wire.Info{Namespace: c.eng.Namespace(), Backend: f.Name, Database: f.Version, Actor: c.caller.Actor, Can: map[string]bool{}, Gaps: []wire.Gap{}, Now: asTime(now)}
	for _, a := range actions {
		out.Can[string(a)] = c.s.authorize(c.ctx, a, c.target()) == nil
	}
	for _, g := range f.Gaps {
		out.Gaps = append(out.Gaps, wire.Gap{Ability: string(g.Ability), Reason: g.Reason})
	}
	return out, nil
}

func listNamespaces(c *call, _ *wire.In) (out wire.Namespaces, err error) {
	out.Namespaces = []string{}
	for _, name := range c.s.names {
		if c.s.authorize(c.ctx, ReadRuns, Target{Namespace: name}) == nil {
			out.Namespaces = append(out.Namespaces, name)
		}
	}
	if len(out.Namespaces) == 0 {
		return out, c.allow(ReadRuns, c.target())
	}
	return out, nil
}

func getHealth(c *call, _ *wire.In) (out wire.Health, err error) {
	h, err := c.eng.Health(c.ctx)
	if err != nil {
		return out, err
	}
	return wire.Health{Backend: h.Backend, Latency: h.Latency.Seconds(), Skew: h.Skew.Seconds(), Online: h.Online, Draining: h.Draining}, nil
}

func runDoctor(c *call, _ *wire.In) (wire.Doctor, error) {
	return c.space.doctor.read(c, (*call).examine)
}

func (c *call) examine() (out wire.Doctor, err error) {
	list, err := c.eng.Doctor(c.ctx, nil)
	if err != nil {
		return out, err
	}
	worst := store.Fine
	out.Findings = each(list, func(f *store.Finding) wire.Finding {
		worst = max(worst, f.Level)
		return wire.Finding{Name: f.Name, Level: f.Level.String(), Seen: f.Seen, Advice: f.Advice}
	})
	out.Worst = worst.String()
	return out, nil
}
