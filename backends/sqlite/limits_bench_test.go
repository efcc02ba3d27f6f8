package sqlite_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLimits claims and ends runs, a hundred at a time: under no limit, under one key with a
// concurrency of 1000, and under 10,000 keys with one of 3.
func BenchmarkLimits(b *testing.B) {
	for _, tt := range []struct {
		name string
		keys int
		rule store.LimitRule
	}{
		{"none", 0, store.LimitRule{}},
		{"one key", 1, store.LimitRule{Concurrency: 1000}},
		{"10000 keys", 10_000, store.LimitRule{Concurrency: 3}},
		{"10000 fair keys", 10_000, store.LimitRule{Concurrency: 3, Fair: true}},
		{"10000 keys with a rate", 10_000, store.LimitRule{Tokens: 1000, Per: time.Second}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			s := open(b, file(b))
			ctx := context.Background()
			if tt.keys > 0 {
				require.NoError(b, s.PutLimits(ctx, store.PutLimitsParams{Namespace: ns, Limits: []store.Limit{{Name: "l", Rule: tt.rule}}}))
			}
			began := cpu()
			runs := newRuns(b.N)
			for i := range runs {
				if tt.keys > 0 {
					runs[i].Under = []store.LimitUse{{Limit: "l", Key: fmt.Sprint(i % tt.keys)}}
				}
			}
			for i := 0; i < len(runs); i += 500 {
				create(b, s, runs[i:min(i+500, len(runs))]...)
			}
			b.ReportMetric(float64(cpu()-began)/1000/float64(b.N), "create-cpu-us/run")
			b.ResetTimer()
			began = cpu()
			var claims, commits time.Duration
			for done := 0; done < b.N; {
				at := cpu()
				got := claim(b, s, 100)
				claims += cpu() - at
				require.NotEmpty(b, got.Runs)
				list := make([]store.Commit, len(got.Runs))
				for i := range got.Runs {
					list[i] = store.Commit{Lease: got.Runs[i].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}
				}
				at = cpu()
				for _, r := range commit(b, s, list...) {
					require.NoError(b, r.Err)
				}
				commits += cpu() - at
				done += len(got.Runs)
			}
			b.ReportMetric(float64(cpu()-began)/1000/float64(b.N), "cpu-us/run")
			b.ReportMetric(float64(claims)/1000/float64(b.N), "claim-cpu-us/run")
			b.ReportMetric(float64(commits)/1000/float64(b.N), "end-cpu-us/run")
		})
	}
}

// BenchmarkFullKeys claims and ends the one run whose key has room, beside keys at their limit with ten
// runs each that wait (P18).
func BenchmarkFullKeys(b *testing.B) {
	for _, keys := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			path := file(b)
			s := open(b, path)
			ctx := context.Background()
			require.NoError(b, s.PutLimits(ctx, store.PutLimitsParams{Namespace: ns, Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 1}}}}))
			_, err := raw(b, path).Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1<?*11)
				INSERT INTO runs (id, namespace, workflow, queue, status, priority, visible_at, created_at, under, limited)
				SELECT randomblob(16), ?, ?, ?, 1, 0, i, 1, '[["l","' || (i % ?) || '",1]]', 1 FROM n`, keys, ns, flow, line, keys)
			require.NoError(b, err)
			began := time.Now()
			for held := 0; held < keys; {
				got := claim(b, s, 500)
				require.NotEmpty(b, got.Runs)
				held += len(got.Runs)
			}
			filled := time.Since(began)
			began = time.Now()
			require.Empty(b, claim(b, s, 10).Runs)
			b.Logf("%d keys: filled in %v, parked in %v", keys, filled, time.Since(began))
			b.ResetTimer()
			used := cpu()
			var slowest time.Duration
			for range b.N {
				run := newRuns(1)[0]
				run.Under = []store.LimitUse{{Limit: "l", Key: "free"}}
				create(b, s, run)
				at := time.Now()
				got := claim(b, s, 10)
				slowest = max(slowest, time.Since(at))
				require.Len(b, got.Runs, 1)
				commit(b, s, store.Commit{Lease: got.Runs[0].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}})
			}
			b.ReportMetric(float64(cpu()-used)/1000/float64(b.N), "cpu-us/run")
			b.ReportMetric(float64(slowest.Microseconds()), "slowest-us")
		})
	}
}
