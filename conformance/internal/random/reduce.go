package random

import (
	"reflect"
	"strings"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/store"
)

// reduceFor bounds how long a failing sequence is reduced.
const reduceFor = 20 * time.Second

// reduce looks for a smaller sequence that still distinguishes the backend from the model. It
// leaves out operations, and then parts of their params. It names leases by their standing, so that
// the claims and commits before them can be left out. rapid shrinks random draws: each operation
// takes dozens of them, and a later draw depends on earlier ones. Here the operations are fixed.
func (q *sequence) reduce() *sequence {
	r := reducer{best: q, until: time.Now().Add(reduceFor)}
	r.drop()
	for i := 0; i < len(r.best.ops); i++ {
		for n := 0; ; {
			ops, left := append([]drawn(nil), r.best.ops...), n
			p := reflect.New(reflect.TypeOf(ops[i].Params)).Elem()
			p.Set(reflect.ValueOf(rebase(ops[i].Params, r.best, r.best)))
			if !simplify(p, &left) {
				break
			}
			ops[i].Params = p.Interface()
			if !r.try(ops) {
				n++
			} else if i >= len(r.best.ops) {
				break
			}
		}
	}
	r.drop() // what only a part has needed
	return r.best
}

// drop leaves out operations.
func (r *reducer) drop() {
	for {
		size := len(r.best.ops)
		for n := size; n >= 1; n /= 2 {
			for i := 0; i+n <= len(r.best.ops); {
				if !r.try(append(append([]drawn(nil), r.best.ops[:i]...), r.best.ops[i+n:]...)) {
					i += n
				}
			}
		}
		if len(r.best.ops) == size {
			return
		}
	}
}

type reducer struct {
	best  *sequence
	until time.Time
}

// try keeps the operations if they still make the same kind of difference.
func (r *reducer) try(ops []drawn) bool {
	if time.Now().After(r.until) {
		return false
	}
	q := r.best.newSequence(nil)
	for _, op := range ops {
		op.Params = rebase(op.Params, r.best, q)
		if op.leases != nil {
			q.before = q.look()
			q.renumber(op.Params, rebased(op.leases, r.best, q))
			op.leases = q.standings(op.Params)
		}
		q.ops = append(q.ops, op)
		if p := reflect.ValueOf(op.Params).FieldByName("Now"); p.IsValid() {
			q.now = p.Interface().(time.Time)
		}
		_, _ = q.execute(op, true)
		if q.difference != "" {
			break
		}
	}
	if q.difference == "" {
		q.before = q.look()
		q.end()
	}
	same := q.difference != "" && q.kind == r.best.kind // not some other difference that shows meanwhile
	if same {
		r.best = q
	}
	return same
}

// standing describes a lease before an operation that names it. When earlier operations are left
// out, the lease is renamed by it: fewer claims change its epoch, fewer commits its numbers, and
// fewer events what its holder has seen.
type standing struct {
	behind  int64 // epochs that the run was given since
	applied int64 // Seq of the last commit applied under it
	events  int64 // of the run
}

// leasesIn lists the leases that params name, and the commits that name them, in place.
func leasesIn(params any) (leases []*store.Lease, commits []*store.Commit) {
	switch p := params.(type) {
	case store.CommitParams:
		for i := range p.Commits {
			leases, commits = append(leases, &p.Commits[i].Lease), append(commits, &p.Commits[i])
		}
	case store.ExtendParams:
		for i := range p.Leases {
			leases = append(leases, &p.Leases[i])
		}
	}
	return leases, commits
}

// standings returns the standings of the leases in the params of the next operation.
func (q *sequence) standings(params any) map[store.Lease]standing {
	leases, _ := leasesIn(params)
	if len(leases) == 0 {
		return nil
	}
	out := make(map[store.Lease]standing, len(leases))
	for _, l := range leases {
		if run, ok := q.before[l.Run]; ok {
			out[*l] = standing{behind: run.Epoch - l.Epoch, applied: q.applied[*l], events: run.Events}
		}
	}
	return out
}

// renumber renames the leases in the params of the next operation by their standings.
func (q *sequence) renumber(params any, stood map[store.Lease]standing) {
	leases, commits := leasesIn(params)
	was := make(map[*store.Lease]standing, len(leases))
	for _, l := range leases {
		run, exists := q.before[l.Run]
		if s, ok := stood[*l]; ok && exists {
			was[l] = s
			l.Epoch = run.Epoch - s.behind
		}
	}
	for _, c := range commits {
		if s, ok := was[&c.Lease]; ok {
			c.Seq = max(0, c.Seq+q.applied[c.Lease]-s.applied)
			c.Seen = max(0, c.Seen+q.before[c.Lease.Run].Events-s.events)
		}
	}
}

// rebased names the leases by the IDs of another sequence.
func rebased(leases map[store.Lease]standing, from, to *sequence) map[store.Lease]standing {
	out := make(map[store.Lease]standing, len(leases))
	for l, s := range leases {
		out[rebase(l, from, to).(store.Lease)] = s
	}
	return out
}

// count notes which commits the model has applied.
func (q *sequence) count(params, result any) {
	results, _ := result.([]store.CommitResult)
	_, commits := leasesIn(params)
	for i, res := range results {
		if res.Err == nil && !res.Repeated {
			q.applied[commits[i].Lease] = commits[i].Seq
		}
	}
}

// simplify applies the n-th simplification of a value, such as one element less or a cleared field.
// It counts n down, and reports whether there was such a simplification.
func simplify(v reflect.Value, n *int) bool {
	step := func(do func()) bool {
		if *n == 0 {
			do()
			return true
		}
		*n--
		return false
	}
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false // cleared as a whole
		}
		for i := range v.Len() {
			if step(func() { v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len()))) }) || simplify(v.Index(i), n) {
				return true
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return simplify(v.Elem(), n)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return false
		}
		for i := range v.NumField() {
			f := v.Field(i)
			if ops.SkipField(f) || v.Type().Field(i).Name == "Now" { // without it the clocks would differ
				continue
			}
			if step(f.SetZero) || simplify(f, n) {
				return true
			}
		}
	}
	return false
}

// rebase copies params of one sequence with the IDs and namespaces of another.
func rebase(v any, from, to *sequence) any {
	out := reflect.New(reflect.TypeOf(v)).Elem()
	rebaseInto(out, reflect.ValueOf(v), from, to)
	return out.Interface()
}

func rebaseInto(out, v reflect.Value, from, to *sequence) {
	out.Set(v)
	switch v.Kind() {
	case reflect.Array:
		if id, ok := v.Interface().(store.ID); ok && !id.IsZero() && from.names.IDs[id] != "" {
			out.Set(reflect.ValueOf(to.id(id[8], int(id[15])-1)))
		}
	case reflect.String:
		for _, ns := range randomNamespaces {
			if v.String() == from.ns(ns) {
				out.SetString(to.ns(ns))
			}
		}
		if prefix := from.ids[0].String()[:32]; strings.HasPrefix(v.String(), prefix) {
			out.SetString(to.ids[0].String()[:32] + v.String()[32:])
		}
	case reflect.Slice:
		if v.Len() == 0 || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			rebaseInto(out.Index(i), v.Index(i), from, to)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			rebaseInto(out.Elem(), v.Elem(), from, to)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			rebaseInto(out.Field(i), v.Field(i), from, to)
		}
	}
}
