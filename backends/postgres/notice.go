package postgres

import (
	"encoding/base64"
	"encoding/json"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// maxNotice is the largest message, in bytes. The server accepts fewer than 8000.
const maxNotice = 7900

// notice is the JSON form of hints of one kind and namespace.
type notice struct {
	From      string         `json:"f"`
	Kind      store.HintKind `json:"k"`
	Namespace string         `json:"n,omitempty"`
	Queues    []string       `json:"q,omitempty"`
	Runs      string         `json:"r,omitempty"` // ids, in base64
}

// encode packs hints into messages.
func encode(from string, hints []store.Hint) []string {
	type group struct {
		kind      store.HintKind
		namespace string
	}
	const perNotice = 300 // ids, 22 bytes each
	queues, runs := map[group]map[string]bool{}, map[group][]byte{}
	var out []string
	put := func(n notice) {
		n.From = from
		if text := sqlkit.JSON(n); len(text) <= maxNotice {
			out = append(out, text)
		} else {
			out = append(out, sqlkit.JSON(notice{From: from, Kind: store.HintRescan}))
		}
	}
	streams := map[store.ID]bool{}
	for _, h := range hints {
		g := group{h.Kind, h.Namespace}
		switch h.Kind {
		case store.HintQueue:
			if queues[g] == nil {
				queues[g] = map[string]bool{}
			}
			if !queues[g][h.Queue] {
				queues[g][h.Queue] = true
			}
		case store.HintEvent, store.HintFinal, store.HintState, store.HintAnswer, store.HintStream:
			if h.Kind == store.HintStream { // a run may append often between two messages
				if streams[h.Run] {
					continue
				}
				streams[h.Run] = true
			}
			if runs[g] = append(runs[g], h.Run[:]...); len(runs[g]) >= perNotice*len(h.Run) {
				put(notice{Kind: g.kind, Namespace: g.namespace, Runs: base64.RawStdEncoding.EncodeToString(runs[g])})
				delete(runs, g)
			}
		default:
			return []string{sqlkit.JSON(notice{From: from, Kind: store.HintRescan})}
		}
	}
	for g, names := range queues {
		n, size := notice{Kind: g.kind, Namespace: g.namespace}, 0
		for q := range names {
			if size += 6*len(q) + 3; size > maxNotice-2000 { // JSON may encode a byte as six
				put(n)
				n.Queues, size = nil, 6*len(q)+3
			}
			n.Queues = append(n.Queues, q)
		}
		put(n)
	}
	for g, ids := range runs {
		put(notice{Kind: g.kind, Namespace: g.namespace, Runs: base64.RawStdEncoding.EncodeToString(ids)})
	}
	return out
}

// decode unpacks a message. It ignores this process's own messages and returns "look again" for
// messages that it does not understand.
func decode(self, text string) []store.Hint {
	var n notice
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return []store.Hint{{Kind: store.HintRescan}}
	}
	if n.From == self {
		return nil
	}
	var out []store.Hint
	for _, q := range n.Queues {
		out = append(out, store.Hint{Kind: n.Kind, Namespace: n.Namespace, Queue: q})
	}
	ids, _ := base64.RawStdEncoding.DecodeString(n.Runs)
	for ; len(ids) >= len(store.ID{}); ids = ids[len(store.ID{}):] {
		out = append(out, store.Hint{Kind: n.Kind, Namespace: n.Namespace, Run: store.ID(ids[:len(store.ID{})])})
	}
	if n.Kind == store.HintRescan {
		out = append(out, store.Hint{Kind: store.HintRescan})
	}
	return out
}
