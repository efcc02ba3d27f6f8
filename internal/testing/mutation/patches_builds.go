package main

// Faults in what the store keeps of builds: pins, the build that recorded a run's last step, the builds of
// workers; in the journal of actions, in the outbox, and in the oldest program version that a database accepts.

// buildPatches are planted in the code that PostgreSQL and SQLite share, and run on both.
var buildPatches = []Patch{
	{"claim-takes-no-pinned-run", "condition", sqlKit + "claim.go", `if p.Build != "" {`, `if p.Build == " " {`, "build/pinned-to-one"},
	{"claim-takes-pinned-runs-alone", "condition", sqlKit + "claim.go", `list = append(list, Lane{d, q, w, demand.Max, ""})`, `list = append(list, Lane{d, q, w, demand.Max, p.Build})`, "build/any-takes-unpinned"},
	{"give-back-forgets-crashes", "condition", sqlKit + "commit.go", `if t == nil || t.Kind != store.GiveBack {`, `if t == nil || t.Kind != 0 {`, "build/given-back-unchanged"},
	{"give-back-loses-the-reason", "condition", sqlKit + "commit.go", `p.Pin, p.Pinned = &c.Pin.Build, PinText(c.Pin)`, `p.Pin, p.Pinned = &c.Pin.Build, PinText(&store.Pin{Build: c.Pin.Build})`, "build/given-back-unchanged"},
	{"worker-keeps-its-first-build", "condition", sqlKit + "registry.go", `takes=excluded.takes, build=excluded.build,`, `takes=excluded.takes,`, "build/of-workers"},
	{"builds-of-workers-of-any-namespace", "name", sqlKit + "registry.go", `WHERE w.namespace=:namespace AND w.build>:after`, `WHERE w.namespace<>'' AND w.build>:after`, "build/listed"},
	{"builds-of-runs-pinned-in-any-namespace", "name", sqlKit + "registry.go", `WHERE r.namespace=:namespace AND r.pin>:after`, `WHERE r.namespace<>'' AND r.pin>:after`, "build/listed"},
	{"builds-count-workers-that-are-offline", "condition", sqlKit + "registry.go", `AND w.seen_at+w.ttl>:now AND coalesce(`, `AND coalesce(`, "build/listed"},
	{"builds-count-workers-that-do-not-answer", "condition", sqlKit + "registry.go", `AND coalesce(w.asked_at+w.answers>:now, true) GROUP BY`, `GROUP BY`, "build/listed"},
	{"builds-count-draining-workers-as-online", "condition", sqlKit + "registry.go", `FILTER (WHERE w.status={online})`, `FILTER (WHERE w.status>0)`, "build/listed"},
	{"builds-count-pins-of-final-runs", "condition", sqlKit + "registry.go", `AND r.pin<>'' AND r.status<{final} GROUP BY r.pin`, `AND r.pin<>'' GROUP BY r.pin`, "build/listed"},
	{"builds-look-at-one-run-more", "bound", sqlKit + "registry.go", `SELECT build FROM recent LIMIT :most)`, `SELECT build FROM recent LIMIT :most+1)`, "build/listed"},
	{"builds-are-never-capped", "bound", sqlKit + "registry.go", `SELECT count(*)>:most FROM recent`, `SELECT count(*)>:most+1000000 FROM recent`, "build/listed"},
	{"builds-begin-with-the-oldest-runs", "order", sqlKit + "registry.go", `" ORDER BY r.created_at DESC, r.id DESC LIMIT :most+1"`, `" ORDER BY r.created_at, r.id LIMIT :most+1"`, "build/listed"},
	{"builds-on-a-page-repeat", "bound", sqlKit + "registry.go", `FROM looked WHERE looked.build>:after GROUP BY`, `FROM looked WHERE looked.build>='' AND looked.build<>:after GROUP BY`, "build/listed"},
	{"lists-ignore-pinned", "condition", sqlKit + "select.go", `q.look("r.pin<>''")`, `q.look("r.pin>=''")`, "build/filtered"},
	{"lists-ignore-to-which-build", "condition", sqlKit + "select.go", `if len(f.PinnedTo) > 0 {`, `if len(f.PinnedTo) > 1 {`, "build/filtered"},
	{"ahead-of-an-unpinned-run-are-all-builds", "condition", sqlKit + "rank.go", `{"pins", Pins(pin)}, {"pinlist", JSON(Pins(pin))}`, `{"pins", Pins("v1")}, {"pinlist", JSON(Pins("v1"))}`, "build/ahead"},
	{"actions-of-every-actor", "condition", sqlKit + "list.go", `if p.Actor != "" {`, `if p.Actor == " " {`, "journal/record-and-list"},
	{"actions-of-one-moment-are-lost", "bound", sqlKit + "list.go", `" AND (r.at<" + t + " OR r.id<" + id + ")"`, `" AND (r.at<" + t + " OR r.id<" + id + " AND false)"`, "journal/pages"},
	{"changes-of-a-run-are-read-in-no-order", "condition", sqlKit + "outbox.go", `AND w.seq=(SELECT v.seq FROM`, `AND w.seq>=(SELECT v.seq FROM`, "outbox/in-order"},
	{"changes-are-tried-again-early", "bound", sqlKit + "outbox.go", `AND w.due_at<=:now`, `AND w.due_at<=:now+1`, "outbox/retry"},
	{"changes-that-are-due-are-next", "condition", sqlKit + "outbox.go", `AND w.due_at>:now), :now`, `), :now`, "outbox/fields"},
	{"subscriptions-have-a-higher-bound", "bound", sqlKit + "outbox.go", `<%d OR EXISTS`, `<=%d OR EXISTS`, "outbox/invalid"},
	{"changes-are-dropped-late", "bound", sqlKit + "outbox.go", `t.at<=:now-n.keep`, `t.at<:now-n.keep`, "outbox/dropped"},
}

// sqliteBuildPatches are planted in the statements that SQLite and Turso share.
var sqliteBuildPatches = []Patch{
	{"claim-ignores-pins", "condition", sqliteCore + "claim.go", "AND x.pin=level.pin AND x.priority=level.priority\n\t\t\tAND x.visible_at<=?3", "AND x.priority=level.priority\n\t\t\tAND x.visible_at<=?3", "cost/claim"},
	{"claim-waits-for-runs-pinned-elsewhere", "condition", sqliteCore + "claim.go", "AND x.pin=level.pin\n\t\tAND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0)), ` + soon", "AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0)), ` + soon", "build/beside-pinned"},
	{"claim-tells-of-runs-pinned-elsewhere", "condition", sqliteCore + "claim.go", "AND x.pin=level.pin\n\t\t\tAND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 AND x.stamp<>?4", "AND x.priority=level.priority AND x.visible_at IS NOT NULL AND x.status<>{paused} AND x.limited=0 AND x.stamp<>?4", "build/beside-pinned"},
	{"claim-keeps-the-build-of-an-earlier-lease", "condition", sqliteCore + "claim.go", `lease_build=nullif(?8, '')`, `lease_build=coalesce(lease_build, nullif(?8, ''))`, "build/recorded-by"},
	{"claim-records-for-the-lease-before", "condition", sqliteCore + "claim.go", `nullif(?8, ''), parts=parts & ~{partRecorded}`, `nullif(?8, '')`, "build/recorded-by"},
	{"give-back-does-not-pin", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, pin=?, pinned=? WHERE id=? AND`, `UPDATE runs SET told=NULL, pin=?, pinned=? WHERE id=? AND pin<>'' AND`, "build/given-back-unchanged"},
	{"give-back-keeps-the-first-build", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, pin=?, pinned=?`, `UPDATE runs SET pin=iif(pin='', ?, pin), pinned=?`, "build/pinned-again"},
	{"give-back-keeps-the-first-reason", "condition", sqliteCore + "commit.go", `UPDATE runs SET told=NULL, pin=?, pinned=?`, `UPDATE runs SET told=NULL, pin=?, pinned=coalesce(pinned, ?)`, "build/pinned-again"},
	{"continue-stays-pinned", "condition", sqliteCore + "commit.go", `generation=generation+1, pin='', pinned=NULL, build=NULL`, `generation=generation+1, build=NULL`, "build/new-generation"},
	{"continue-keeps-the-build", "condition", sqliteCore + "commit.go", `pin='', pinned=NULL, build=NULL`, `pin='', pinned=NULL`, "build/new-generation"},
	{"unpin-keeps-the-reason", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, pin='', pinned=NULL WHERE`, `UPDATE runs SET pin='' WHERE`, "build/unpin"},
	{"unpin-keeps-the-build", "condition", sqliteCore + "control.go", `UPDATE runs SET told=NULL, pin='', pinned=NULL WHERE`, `UPDATE runs SET pinned=NULL WHERE`, "build/unpin"},
	{"unpin-forgets-the-namespace", "name", sqliteCore + "control.go", `WHERE id=? AND namespace=? AND pin<>''`, `WHERE id=? AND ?<>'' AND pin<>''`, "build/unpin"},
	{"unpin-of-what-is-final", "condition", sqliteCore + "control.go", `AND pin<>'' AND status<{final} RETURNING queue`, `AND pin<>'' RETURNING queue`, "build/unpin"},
	{"unpin-of-what-is-not-pinned", "condition", sqliteCore + "control.go", `AND pin<>'' AND status<{final} RETURNING queue`, `AND status<{final} RETURNING queue`, "build/unpin"},
	{"unpin-tells-nobody", "hint", sqliteCore + "control.go", "*was = true\n\t\t\th.Queue(queue)", "*was = true", "hints/of-unpin"},
	{"restart-stays-pinned", "condition", sqliteCore + "control.go", `ordinal=0, pin='', pinned=NULL`, `ordinal=0`, "build/restarted"},
	{"fork-forgets-the-build", "condition", sqliteCore + "control.go", "?, id, ` + runBuild + `, input", "?, id, NULL, input", "build/recorded-by"},
	{"import-unpins", "condition", sqliteCore + "import.go", `r.PinnedTo(), text(`, `"", text(`, "build/imported"},
	{"import-forgets-the-build", "condition", sqliteCore + "import.go", `text(r.Build)`, `text("")`, "build/imported"},
	{"actions-recorded-again-change", "condition", sqlKit + "journal.go", `ON CONFLICT DO NOTHING`, `ON CONFLICT (id) DO UPDATE SET verb=excluded.verb`, "journal/repeat"},
	{"pausing-runs-are-not-resumed-in-the-journal", "condition", sqlKit + "journal.go", `{paused} OR r.pausing`, `{paused}`, "audit/effect"},
	{"cancels-of-canceling-runs-are-changes", "condition", sqlKit + "journal.go", `(r.status<>{canceling} OR :force)`, `(true OR :force)`, "audit/effect"},
	{"refused-unpins-are-recorded", "condition", sqlKit + "journal.go", "`r.pin<>'' AND r.status<{final}`", "`true`", "audit/items"},
	{"signals-sent-again-are-recorded", "condition", sqliteCore + "signals.go", "`WHERE changes()=1`", "`WHERE true`", "audit/effect"},
	{"actions-of-any-namespace-are-forgotten", "name", sqlKit + "journal.go", `FROM actions WHERE namespace=:namespace AND at<:now`, `FROM actions WHERE namespace>=substr(:namespace, 1, 1) AND at<:now`, "journal/forgets"},
	{"actions-are-forgotten-at-their-age", "bound", sqlKit + "journal.go", `AND at<:now-:keep ORDER BY at`, `AND at<=:now-:keep ORDER BY at`, "journal/forgets"},
}

var sqliteOnlyBuildPatches = []Patch{
	{"create-eager-without-a-build", "condition", sqliteCore + "create.go", `[]any{r.Worker, m.now, text(r.Build), namespace`, `[]any{r.Worker, m.now, text(""), namespace`, "build/eager-start"},
	{"open-by-an-older-program", "condition", sqliteCore + "schema.go", `if newest >= minimum {`, `if newest+1 >= minimum {`, "TestOpenRefuses"},
	{"open-asks-for-the-newest-program", "condition", sqliteCore + "schema.go", `SELECT max(minimum) FROM compatibility`, `SELECT max(version_id) FROM goose_db_version`, "TestNewerSchemaThatOlderProgramsMayUse"},
}

var tursoBuildPatches = []Patch{
	{"commit-with-a-pin-is-plain", "condition", sqlKit + "commit.go", `c.Crashes == 0 && c.Pin == nil &&`, `c.Crashes == 0 &&`, "build/pinned-by-a-commit"},
	{"create-many-eager-without-a-build", "condition", sqliteCore + "create.go", `CASE WHEN eager THEN v->>23 END`, `CASE WHEN eager THEN NULL END`, "build/eager-start"},
	{"open-by-an-older-program", "condition", sqliteCore + "schema.go", `if newest >= minimum {`, `if newest+1 >= minimum {`, "TestSchemaVersions"},
	{"open-asks-for-the-newest-program", "condition", sqliteCore + "schema.go", `SELECT max(minimum) FROM compatibility`, `SELECT max(version_id) FROM goose_db_version`, "TestSchemaVersions"},
}

var postgresBuildPatches = []Patch{
	{"commit-with-a-pin-is-plain", "condition", sqlKit + "commit.go", `c.Crashes == 0 && c.Pin == nil &&`, `c.Crashes == 0 &&`, "build/pinned-by-a-commit"},
	{"claim-ignores-pins", "condition", pg + "claim.go", `AND r.pin=lane.pin AND r.priority=lane.priority`, `AND r.priority=lane.priority`, "build/beside-pinned"},
	{"claim-keeps-the-build-of-an-earlier-lease", "condition", pg + "claim.go", `lease_build=nullif($13::text, '')`, `lease_build=coalesce(r.lease_build, nullif($13::text, ''))`, "build/recorded-by"},
	{"claim-records-for-the-lease-before", "condition", pg + "claim.go", `nullif($13::text, ''), parts=r.parts & ~{partRecorded}::smallint`, `nullif($13::text, '')`, "build/recorded-by"},
	{"give-back-does-not-pin", "condition", pg + "commit.go", `pinned=$4::text WHERE id=$1::uuid AND stamp=$2::bigint`, `pinned=$4::text WHERE id=$1::uuid AND stamp=$2::bigint AND pin<>''`, "build/given-back-unchanged"},
	{"give-back-by-anyone", "condition", pg + "commit.go", `pinned=$4::text WHERE id=$1::uuid AND stamp=$2::bigint`, `pinned=$4::text WHERE id=$1::uuid AND $2::bigint IS NOT NULL`, "build/given-back-by-its-holder"},
	{"give-back-keeps-the-first-build", "condition", pg + "commit.go", `SET pin=$3::text, pinned=$4::text`, `SET pin=CASE pin WHEN '' THEN $3::text ELSE pin END, pinned=$4::text`, "build/pinned-again"},
	{"give-back-keeps-the-first-reason", "condition", pg + "commit.go", `SET pin=$3::text, pinned=$4::text`, `SET pin=$3::text, pinned=coalesce(pinned, $4::text)`, "build/pinned-again"},
	{"continue-stays-pinned", "condition", pg + "commit.go", `generation=generation+1, pin='', pinned=NULL, build=NULL`, `generation=generation+1, build=NULL`, "build/new-generation"},
	{"continue-keeps-the-build", "condition", pg + "commit.go", `pin='', pinned=NULL, build=NULL`, `pin='', pinned=NULL`, "build/new-generation"},
	{"unpin-keeps-the-reason", "condition", pg + "control.go", `UPDATE pawl.runs SET pin='', pinned=NULL`, `UPDATE pawl.runs SET pin=''`, "build/unpin"},
	{"unpin-forgets-the-namespace", "name", pg + "control.go", `WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND pin<>''`, `WHERE id=ANY($1::uuid[]) AND $2::text<>'' AND pin<>''`, "build/unpin"},
	{"unpin-of-what-is-final", "condition", pg + "control.go", `AND pin<>'' AND status<{final} AND`, `AND pin<>'' AND`, "build/unpin"},
	{"unpin-of-what-is-not-pinned", "condition", pg + "control.go", `AND pin<>'' AND status<{final} AND`, `AND status<{final} AND`, "build/unpin"},
	{"unpin-tells-nobody", "hint", pg + "control.go", "unpinned[id] = true\n\t\th.Queue(queue)", "unpinned[id] = true", "hints/of-unpin"},
	{"restart-stays-pinned", "condition", pg + "control.go", `ordinal=0, pin='', pinned=NULL`, `ordinal=0`, "build/restarted"},
	{"fork-forgets-the-build", "condition", pg + "control.go", "r.id, ` + sqlkit.RunBuild + `, r.input", "r.id, NULL, r.input", "build/recorded-by"},
	{"create-eager-without-a-build", "condition", pg + "create.go", `nullif(coalesce(t.build, $29::text), '') END`, `nullif(coalesce(t.build, $29::text), t.build) END`, "build/eager-start"},
	{"create-eager-with-the-first-build", "condition", pg + "create.go", `nullif(coalesce(t.build, $29::text), '') END`, `nullif(coalesce($28::text, t.build), '') END`, "build/eager-start"},
	{"import-unpins", "condition", pg + "import.go", `r.PinnedTo(), text(`, `"", text(`, "build/imported"},
	{"import-forgets-the-build", "condition", pg + "import.go", `text(r.Build)`, `text("")`, "build/imported"},
	{"builds-of-pending-runs-alone", "condition", sqlKit + "registry.go", `if !s.Final() {`, `if s == store.Pending {`, "build/listed"},
	{"actions-recorded-again-change", "condition", sqlKit + "journal.go", `ON CONFLICT DO NOTHING`, `ON CONFLICT (id) DO UPDATE SET verb=excluded.verb`, "journal/repeat"},
	{"actions-of-any-namespace-are-forgotten", "name", sqlKit + "journal.go", `WHERE a.namespace=:namespace AND a.at<`, `WHERE :namespace<>'' AND a.at<`, "journal/forgets"},
	{"actions-are-forgotten-at-their-age", "bound", sqlKit + "journal.go", "a.at<:now-:keep", "a.at<=:now-:keep", "journal/forgets"},
	{"attempts-are-counted-again", "condition", sqlKit + "outbox.go", `d.seq=t.seq AND d.attempts<t.attempt`, `d.seq=t.seq AND d.attempts<=t.attempt`, "outbox/settled-again"},
	{"open-by-an-older-program", "condition", pg + "migrate.go", `case newest < minimum:`, `case newest+1 < minimum:`, "TestSchemaNewerThanTheProgram"},
	{"open-asks-for-the-newest-program", "condition", pg + "migrate.go", `SELECT max(minimum) FROM pawl.compatibility`, `SELECT max(version) FROM pawl.migrations`, "TestSchemaNewerThanTheProgram"},
	{"work-of-a-build-is-told-to-any", "hint", pg + "staff.go", `strings.Join(append(taken, build), "\x00")`, `strings.Join(taken, "\x00")`, "TestWorkOfTwoBuildsIsToldToAll"},
}
