PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-11-22 20:27:11');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-11-22 20:27:11');
CREATE TABLE runs (
    id          BLOB    NOT NULL PRIMARY KEY,
    namespace   TEXT    NOT NULL,
    workflow    TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    status      INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    visible_at  INTEGER,                      -- when it may be claimed; kept while paused; NULL: never, or by an event
    due_at      INTEGER,                      -- visible_at as the present claim found it
    paused_from INTEGER NOT NULL DEFAULT 0,   -- status before the pause
    epoch       INTEGER NOT NULL DEFAULT 0,
    seq         INTEGER NOT NULL DEFAULT 0,   -- last commit applied under this epoch
    stamp       INTEGER NOT NULL DEFAULT 0,   -- marks the write that changed the row last, for later statements of that write
    worker      TEXT,                         -- who holds the lease, or held the last one
    leased      INTEGER NOT NULL DEFAULT 0,
    attempt     INTEGER NOT NULL DEFAULT 1,
    crashes     INTEGER NOT NULL DEFAULT 0,
    generation  INTEGER NOT NULL DEFAULT 0,
    events      INTEGER NOT NULL DEFAULT 0,
    pausing     INTEGER NOT NULL DEFAULT 0,
    wakes       INTEGER NOT NULL DEFAULT 0,   -- of a sleep: 1 signal, 2 state, 4 children
    parts       INTEGER NOT NULL DEFAULT 0,   -- may have: 1 steps, 2 state, 4 signals, 8 groups, 16 large input, 32 children
    external_id TEXT,
    suffix      TEXT    NOT NULL DEFAULT '',
    parent      BLOB,
    grp         TEXT,                         -- the parent's group that counts this child
    ordinal     INTEGER NOT NULL DEFAULT 0,
    on_close    INTEGER NOT NULL DEFAULT 0,   -- when the parent is final: 0 cancel, 1 abandon
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    deadline    INTEGER,
    forked_from BLOB,
    input       BLOB,                         -- small ones; others are in large_inputs
    meta        BLOB,
    output      BLOB,
    failure     TEXT                          -- JSON
) STRICT, WITHOUT ROWID;
INSERT INTO runs VALUES(X'01a204f0fa837000bf32cffb5cc3f28d','default','approval','approval',6,0,NULL,1795379231363656,0,1,3,1835102928789264718,'old',0,1,0,0,1,0,0,5,'completed','',NULL,NULL,0,0,1795379231363656,1795379231367894,1795379231405634,NULL,NULL,X'22617070726f76656422',NULL,X'22617070726f7665642061736b65642c20617070726f76656420627920616e6e652c20617070726f76656420646f6e6522',NULL);
INSERT INTO runs VALUES(X'01a204f0faae7000979008145006b951','default','faulty','faulty',7,0,NULL,NULL,0,1,1,837715956155812321,'old',0,1,0,0,0,0,0,1,'failed','',NULL,NULL,0,0,1795379231406164,1795379231406164,1795379231406766,NULL,NULL,X'226661756c747922',NULL,NULL,'{"code":"error","message":"step fail: it is broken: faulty","type":"*errors.errorString","stack":"","details":null,"permanent":true}');
INSERT INTO runs VALUES(X'01a204f0faaf7000940e8169de747c5f','default','blocked','blocked',2,0,1795379233450679,NULL,0,1,1,4351853676727555177,'old',1,1,0,0,0,0,0,1,'running','',NULL,NULL,0,0,1795379231407247,1795379231407247,NULL,NULL,NULL,X'2272756e6e696e6722',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0fab5700087f176096a7e8cb3','default','blocked','blocked',5,0,1795379233450679,NULL,0,1,1,3184753713384648421,'old',1,1,0,0,1,0,0,1,'canceling','',NULL,NULL,0,0,1795379231413239,1795379231413239,NULL,NULL,NULL,X'2263616e63656c696e6722',NULL,NULL,'{"code":"canceled","message":"not wanted","type":"","stack":"","details":null,"permanent":false}');
INSERT INTO runs VALUES(X'01a204f0fada7000a568136b5cee83e2','default','order','order',3,0,1795379241469003,NULL,3,1,1,1627092266759148994,'old',0,1,0,0,1,0,0,3,'sleeping','',NULL,NULL,0,0,1795379231451571,1795379231451571,NULL,NULL,NULL,X'22736c656570696e6722',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0faec700097145fb9c5ea46f0','default','parent','parent',3,0,NULL,NULL,3,1,1,1589202548645955578,'old',0,1,0,0,0,0,4,41,'parent','',NULL,NULL,0,0,1795379231468306,1795379231468306,NULL,NULL,NULL,X'5b2261222c2262222c2263225d',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0faec800091a9a35e0be3e78e','default','item','item',3,0,1795379241546208,1795379231492061,3,1,1,3347926031775348425,'old',0,1,0,0,0,0,0,1,NULL,'',X'01a204f0faec700097145fb9c5ea46f0','items~1.1',1,0,1795379231492061,1795379231513044,NULL,NULL,NULL,X'226122',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0faec8000b4f8969ee633b70b','default','item','item',3,0,1795379241546238,1795379231492061,3,1,1,3347926031775348426,'old',0,1,0,0,0,0,0,1,NULL,'',X'01a204f0faec700097145fb9c5ea46f0','items~1.1',2,0,1795379231492061,1795379231513044,NULL,NULL,NULL,X'226222',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0faec8000b6ac0887419f1125','default','item','item',3,0,1795379241546225,1795379231492061,3,1,1,3347926031775348424,'old',0,1,0,0,0,0,0,1,NULL,'',X'01a204f0faec700097145fb9c5ea46f0','items~1.1',3,0,1795379231492061,1795379231513044,NULL,NULL,NULL,X'226322',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0faf7700099108ae7eb4e065a','default','approval','approval',3,0,NULL,NULL,3,1,2,2436204768094000786,'old',0,1,0,0,0,0,1,1,'waiting','',NULL,NULL,0,0,1795379231480512,1795379231480512,NULL,NULL,NULL,X'2277616974696e6722',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0fb0d7000820a855fddeb75fb','default','approval','approval',4,0,1795379231654045,NULL,3,1,2,535117528711785281,'old',0,1,0,0,1,0,1,5,'paused','',NULL,NULL,0,0,1795379231501725,1795379231501725,NULL,NULL,NULL,X'2270617573656422',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0fbb370009a4d718d5f9688d3','default','order','order',1,0,1795379231667931,NULL,0,0,0,0,NULL,0,1,0,0,0,0,0,0,'pending','',NULL,NULL,0,0,1795379231667931,NULL,NULL,NULL,NULL,X'2270656e64696e6722',NULL,NULL,NULL);
INSERT INTO runs VALUES(X'01a204f0fbb97000af7896acd6c285ec','default','order','order',8,0,NULL,NULL,0,0,0,4301741125447633223,NULL,0,1,0,0,0,0,0,0,'canceled','',NULL,NULL,0,0,1795379231673131,NULL,1795379231679641,NULL,NULL,X'2263616e63656c656422',NULL,NULL,'{"code":"canceled","message":"not wanted either","type":"","stack":"","details":null,"permanent":false}');
CREATE TABLE large_inputs (
    run_id BLOB NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;
CREATE TABLE steps (
    run_id      BLOB    NOT NULL,
    branch      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    occurrence  INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    output      BLOB,
    failure     TEXT,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    due_at      INTEGER,
    PRIMARY KEY (run_id, branch, name, occurrence)
) STRICT, WITHOUT ROWID;
INSERT INTO steps VALUES(X'01a204f0fa837000bf32cffb5cc3f28d','','asked',1,1,3,1,0,1,1,X'22617070726f7665642061736b656422',NULL,1795379231402886,1795379231402898,NULL);
INSERT INTO steps VALUES(X'01a204f0fa837000bf32cffb5cc3f28d','','done',1,1,3,3,2,1,1,X'22617070726f76656420646f6e6522',NULL,1795379231405624,1795379231405634,NULL);
INSERT INTO steps VALUES(X'01a204f0fa837000bf32cffb5cc3f28d','','go',1,3,3,2,1,1,1,X'22616e6e6522',NULL,1795379231392550,1795379231405094,NULL);
INSERT INTO steps VALUES(X'01a204f0faae7000979008145006b951','','fail',1,1,4,1,0,1,1,NULL,'{"code":"error","message":"it is broken: faulty","type":"*errors.errorString","stack":"","details":null,"permanent":true}',1795379231406742,1795379231406766,NULL);
INSERT INTO steps VALUES(X'01a204f0faaf7000940e8169de747c5f','','begun',1,1,3,1,0,1,1,X'2272756e6e696e6720626567756e22',NULL,1795379231413521,1795379231413554,NULL);
INSERT INTO steps VALUES(X'01a204f0fab5700087f176096a7e8cb3','','begun',1,1,3,1,0,1,1,X'2263616e63656c696e6720626567756e22',NULL,1795379231422940,1795379231422966,NULL);
INSERT INTO steps VALUES(X'01a204f0fada7000a568136b5cee83e2','','charged',1,1,3,1,0,1,1,X'22736c656570696e67206368617267656422',NULL,1795379231468995,1795379231469021,NULL);
INSERT INTO steps VALUES(X'01a204f0fada7000a568136b5cee83e2','','cool',1,2,2,3,2,1,1,NULL,NULL,1795379231469021,NULL,1795379241469002);
INSERT INTO steps VALUES(X'01a204f0fada7000a568136b5cee83e2','','set count',1,8,3,2,1,1,1,NULL,NULL,1795379231469021,1795379231469021,NULL);
INSERT INTO steps VALUES(X'01a204f0faec700097145fb9c5ea46f0','','items',1,5,2,1,0,1,1,X'7b22706172656e74223a2230316132303466302d666165632d373030302d393731342d356662396335656134366630222c22776f726b666c6f77223a226974656d222c2267726f7570223a226974656d737e312e31222c22746f74616c223a332c22737061776e6564223a332c22636f6d706c65746564223a302c226661696c6564223a302c2263616e63656c6564223a307d',NULL,1795379231492061,NULL,NULL);
INSERT INTO steps VALUES(X'01a204f0faec800091a9a35e0be3e78e','','cool',1,2,2,2,1,1,1,NULL,NULL,1795379231546242,NULL,1795379241546207);
INSERT INTO steps VALUES(X'01a204f0faec800091a9a35e0be3e78e','','made',1,1,3,1,0,1,1,X'2261206d61646522',NULL,1795379231546231,1795379231546242,NULL);
INSERT INTO steps VALUES(X'01a204f0faec8000b4f8969ee633b70b','','cool',1,2,2,2,1,1,1,NULL,NULL,1795379231546242,NULL,1795379241546238);
INSERT INTO steps VALUES(X'01a204f0faec8000b4f8969ee633b70b','','made',1,1,3,1,0,1,1,X'2262206d61646522',NULL,1795379231546232,1795379231546242,NULL);
INSERT INTO steps VALUES(X'01a204f0faec8000b6ac0887419f1125','','cool',1,2,2,2,1,1,1,NULL,NULL,1795379231546242,NULL,1795379241546224);
INSERT INTO steps VALUES(X'01a204f0faec8000b6ac0887419f1125','','made',1,1,3,1,0,1,1,X'2263206d61646522',NULL,1795379231546210,1795379231546242,NULL);
INSERT INTO steps VALUES(X'01a204f0faf7700099108ae7eb4e065a','','asked',1,1,3,1,0,1,1,X'2277616974696e672061736b656422',NULL,1795379231512974,1795379231512988,NULL);
INSERT INTO steps VALUES(X'01a204f0faf7700099108ae7eb4e065a','','go',1,3,2,2,1,1,1,NULL,NULL,1795379231512988,NULL,NULL);
INSERT INTO steps VALUES(X'01a204f0fb0d7000820a855fddeb75fb','','asked',1,1,3,1,0,1,1,X'227061757365642061736b656422',NULL,1795379231546221,1795379231546242,NULL);
INSERT INTO steps VALUES(X'01a204f0fb0d7000820a855fddeb75fb','','go',1,3,2,2,1,1,1,NULL,NULL,1795379231546242,NULL,NULL);
CREATE TABLE state (
    run_id     BLOB    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, key)
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES(X'01a204f0fada7000a568136b5cee83e2','count',X'37',1,1795379231469021);
CREATE TABLE groups (
    run_id        BLOB    NOT NULL,
    name          TEXT    NOT NULL,
    total         INTEGER NOT NULL DEFAULT 0,
    open          INTEGER NOT NULL DEFAULT 0,
    completed     INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    canceled      INTEGER NOT NULL DEFAULT 0,
    armed         INTEGER,                    -- epoch of the parent's sleep that awaits this group
    wake_open     INTEGER NOT NULL DEFAULT 0,
    wake_failures INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES(X'01a204f0faec700097145fb9c5ea46f0','items~1.1',3,3,0,0,0,1,0,1);
CREATE TABLE signals (
    run_id   BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    pos      INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    payload  BLOB,
    sent_at  INTEGER NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO signals VALUES(X'01a204f0fa837000bf32cffb5cc3f28d',X'01a204f0fa937000abf32775a57b66cb',1,'go',NULL,1795379231379656,1);
INSERT INTO signals VALUES(X'01a204f0fb0d7000820a855fddeb75fb',X'01a204f0fba670008046bc7b52652d6b',1,'go',X'226265727422',1795379231654045,0);
CREATE TABLE workers (
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    queues     TEXT    NOT NULL,              -- JSON
    workflows  TEXT    NOT NULL,              -- JSON
    labels     TEXT    NOT NULL,              -- JSON
    slots      INTEGER NOT NULL,
    limits     TEXT    NOT NULL,              -- JSON
    status     INTEGER NOT NULL,              -- 1 online, 2 draining
    ttl        INTEGER NOT NULL,              -- microseconds
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
INSERT INTO workers VALUES('default','old','host.example',20085,'["approval","blocked","faulty","item","order","parent"]','["approval","blocked","faulty","item","order","parent"]','null',100,'null',1,4000000,1795379231364557,1795379231450679);
CREATE TABLE workflows (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    meta       BLOB,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO workflows VALUES('default','approval','approval',NULL,1795379231363179);
INSERT INTO workflows VALUES('default','blocked','blocked',NULL,1795379231363179);
INSERT INTO workflows VALUES('default','faulty','faulty',NULL,1795379231363179);
INSERT INTO workflows VALUES('default','item','item',NULL,1795379231363179);
INSERT INTO workflows VALUES('default','order','order',NULL,1795379231363179);
INSERT INTO workflows VALUES('default','parent','parent',NULL,1795379231363179);
CREATE TABLE paused (
    namespace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    workflow  TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (namespace, queue, workflow)
) STRICT, WITHOUT ROWID;
INSERT INTO paused VALUES('default','','order',1795379231663950);
CREATE TABLE locks (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    owner     TEXT    NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE schedules (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    spec       TEXT    NOT NULL,
    input      BLOB,
    meta       BLOB,
    paused     INTEGER NOT NULL,
    next_at    INTEGER,
    last_at    INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO schedules VALUES('default','nightly','order','order','0 3 * * *',X'227363686564756c656422',X'7b2274696d655a6f6e65223a22555443222c2263617463685570223a226e6f6e65222c226d617843617463685570223a3130302c226f7665726c6170223a22616c6c6f77227d',0,1795402800000000,NULL,1795379231694733,1795379231694733);
CREATE TABLE firings (
    namespace TEXT    NOT NULL,
    schedule  TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    fired_at  INTEGER NOT NULL,
    run       BLOB,                           -- NULL: skipped
    PRIMARY KEY (namespace, schedule, at)
) STRICT, WITHOUT ROWID;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',2);
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, priority, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4;
CREATE UNIQUE INDEX runs_external ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status < 6;
CREATE INDEX runs_external_past ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status >= 6;
CREATE INDEX runs_parent ON runs (parent, grp, ordinal) WHERE parent IS NOT NULL;
CREATE INDEX runs_open_children ON runs (parent) WHERE parent IS NOT NULL AND status < 6;
CREATE INDEX runs_finished ON runs (namespace, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX signals_unread ON signals (run_id, pos) WHERE consumed = 0;
CREATE INDEX schedules_due ON schedules (namespace, next_at) WHERE next_at IS NOT NULL AND paused = 0;
CREATE VIEW run_list AS
SELECT lower(hex(id)) AS id, namespace, workflow, queue,
       CASE status WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'sleeping' WHEN 4 THEN 'paused'
                   WHEN 5 THEN 'canceling' WHEN 6 THEN 'completed' WHEN 7 THEN 'failed' ELSE 'canceled' END AS status,
       priority, external_id, iif(leased, worker, NULL) AS worker, attempt, crashes,
       datetime(visible_at / 1000000, 'unixepoch') AS visible_at,
       datetime(created_at / 1000000, 'unixepoch') AS created_at,
       datetime(finished_at / 1000000, 'unixepoch') AS finished_at,
       failure ->> 'message' AS failure
FROM runs;
COMMIT;
