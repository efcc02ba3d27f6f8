package main

const turso = "backends/turso/"

// tursoPatches are planted in Turso's own code, and in the statements for many items that only
// Turso uses.
var tursoPatches = []Patch{
	{"limit-ends-of-known-runs-alone", "condition", sqliteCore + "commit.go", `permitsOf(list, isEnd)`, `permitsOf(list, (*commit).limited)`, "limit/ends-of-two-handles"},
	{"commit-many-ignores-the-epoch", "condition", sqliteCore + "commit.go", "AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "AND worker=j.value->>5 AND epoch>=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "commit/old-epoch-of-any-kind"},
	{"commit-many-ignores-the-worker", "condition", sqliteCore + "commit.go", "AND worker=j.value->>5 AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "AND epoch=j.value->>6 AND seq=(j.value->>1)-1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "commit/other-worker-of-any-kind"},
	{"commit-many-hides-a-pause", "condition", sqliteCore + "commit.go", `AND events=j.value->>7 AND pausing=0`, `AND events=j.value->>7`, "pause/running-at-next-transition"},
	{"commit-many-skips-numbers", "condition", sqliteCore + "commit.go", "AND seq=(j.value->>1)-1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "AND seq<j.value->>1 AND leased=1\n\t\tAND status={running} AND events=j.value->>7 AND pausing=0", "commit/gap-of-any-kind"},
	{"commit-many-keeps-crashes", "condition", sqliteCore + "commit.go", "stamp=j.value->>2, crashes=0, parts=parts | j.value->>3, events=events+(j.value->>11)\n\tFROM", "stamp=j.value->>2, parts=parts | j.value->>3, events=events+(j.value->>11)\n\tFROM", "claim/crashes-reset-by-commit"},
	{"commit-many-counts-no-writes", "condition", sqliteCore + "commit.go", "parts=parts | j.value->>3, events=events+(j.value->>11)\n\tFROM", "parts=parts | j.value->>3\n\tFROM", "state/by-commits-together"},
	{"commit-many-writes-for-all", "condition", sqliteCore + "state.go", "\n\t\tWHERE EXISTS (SELECT 1 FROM runs WHERE id=unhex(j.value->>0) AND stamp=j.value->>1)\n", "\n\t\tWHERE true\n", "state/by-commits-together"},
	{"end-many-counts-no-child", "condition", sqliteCore + "commit.go", "finalRest = sqlkit.Text(` AND grp IS NULL AND runs.parent IS NULL AND", "finalRest = sqlkit.Text(` AND", "children/last-one-wakes"},
	{"end-many-leaves-children", "condition", sqliteCore + "commit.go", "AND grp IS NULL AND runs.parent IS NULL AND parts & {partChildren}=0\n\tRETURNING", "AND grp IS NULL AND runs.parent IS NULL\n\tRETURNING", "children/follow-a-final-parent"},
	{"end-many-ends-some", "transaction", sqliteCore + "commit.go", `AND ?5=(SELECT count(*) FROM json_each(?1) k`, `AND ?5>=(SELECT count(*) FROM json_each(?1) k`, "children/ends-in-one-batch"},
	{"end-many-replaces-steps", "condition", sqliteCore + "commit.go", `WHERE steps.status<{stepFinal}`, `WHERE steps.status<9`, "steps/later-record-replaces"},
	{"count-many-is-one", "bound", sqliteCore + "children.go", `SET open=open-t.n, completed=completed+t.done`, `SET open=open-1, completed=completed+t.done`, "children/ends-in-one-batch"},
	{"count-many-loses-failures", "condition", sqliteCore + "children.go", `failed=failed+t.lost`, `failed=failed`, "children/ends-in-one-batch"},
	{"wake-many-wakes-nobody", "condition", sqliteCore + "children.go", `AND r.status>={final} AND r.parent IS NOT NULL)`, `AND r.status>=9 AND r.parent IS NOT NULL)`, "children/ends-in-one-batch"},
	{"create-many-eager-on-a-paused-queue", "condition", sqliteCore + "create.go", `OR queue='' AND workflow=j.value->>1)) FROM`, `OR queue='' AND workflow=j.value->>1) AND false) FROM`, "create/eager-on-paused-queue"},
	{"create-many-drops-signals", "transaction", sqliteCore + "create.go", ` && !signals(&p, open) && !keyed`, ` && !keyed`, "create/signal-makes-a-run"},
	{"create-many-forgets-the-priority", "condition", sqliteCore + "create.go", `?3, v->>1, v->>2, v->>3,`, `?3, v->>1, v->>2, 0*(v->>3),`, "claim/priority-first"},
	{"create-many-loses-large-inputs", "bound", sqliteCore + "create.go", `WHERE j.value->>17 IS NOT NULL ON CONFLICT`, `WHERE j.value->>17 IS NULL ON CONFLICT`, "payload/at-the-limit"},
	{"write-is-not-committed", "transaction", turso + "runner.go", `p.step(ok(p.steps-1), "COMMIT", false)`, `p.step(ok(p.steps-1), "ROLLBACK", false)`, "get/seen-by-every-handle"},
	{"ends-together-leave-children", "condition", sqliteCore + "commit.go", `AND grp IS NULL AND runs.parent IS NULL AND parts & {partChildren}=0`, `AND grp IS NULL AND runs.parent IS NULL`, "children/follow-parents-that-end-together"},
	{"ends-of-parents-together-leave-children", "condition", sqliteCore + "commit.go", "AND r.events=k.value->>7 AND r.parts & {partChildren}=0` + condition", "AND r.events=k.value->>7` + condition", "children/follow-parents-that-end-together"},
	{"keep-many-ends-what-runs-on", "condition", sqliteCore + "commit.go", `crashes=0, parts=parts | j.value->>3, events=events+(j.value->>11)
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?2`, `crashes=0, finished_at=visible_at, parts=parts | j.value->>3, events=events+(j.value->>11)
	FROM json_each(?1) j WHERE runs.id=unhex(j.value->>0) AND namespace=?2`, "commit/leaves-the-run-running"},

	// Calls in parts.
	{"part-without-its-record", "condition", turso + "limits.go", `if part[i].action != nil {`, `if part[i].action != nil && i > 0 {`, "audit/large-batch"},
	{"part-has-the-first-record", "condition", turso + "limits.go", `out[i].action = &record[i]`, `out[i].action = &record[i%controlItems]`, "audit/large-batch"},
}
