CREATE SCHEMA pawl;
CREATE TABLE pawl.firings (
    namespace text NOT NULL COLLATE pg_catalog."C",
    schedule text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    fired_at bigint NOT NULL,
    run uuid
);
CREATE TABLE pawl.groups (
    run_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    total bigint DEFAULT 0 NOT NULL,
    open bigint DEFAULT 0 NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    canceled bigint DEFAULT 0 NOT NULL,
    armed bigint,
    wake_open bigint DEFAULT 0 NOT NULL,
    wake_failures bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE pawl.lanes (
    namespace text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL
);
CREATE TABLE pawl.locks (
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE pawl.migrations (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE pawl.paused (
    namespace text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL
);
CREATE TABLE pawl.runs (
    id uuid NOT NULL,
    visible_at bigint,
    due_at bigint,
    epoch bigint DEFAULT 0 NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    stamp bigint DEFAULT 0 NOT NULL,
    events bigint DEFAULT 0 NOT NULL,
    ordinal bigint DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    deadline bigint,
    attempt integer DEFAULT 1 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    status smallint NOT NULL,
    priority smallint NOT NULL,
    paused_from smallint DEFAULT 0 NOT NULL,
    wakes smallint DEFAULT 0 NOT NULL,
    parts smallint DEFAULT 0 NOT NULL,
    on_close smallint DEFAULT 0 NOT NULL,
    leased boolean DEFAULT false NOT NULL,
    pausing boolean DEFAULT false NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    external_id text COLLATE pg_catalog."C",
    suffix text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    parent uuid,
    grp text COLLATE pg_catalog."C",
    forked_from uuid,
    input bytea,
    meta bytea,
    output bytea,
    failure text
)
WITH (fillfactor='50', toast_tuple_target='512', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='5000', autovacuum_analyze_scale_factor='0.05', autovacuum_vacuum_cost_delay='1');
CREATE VIEW pawl.run_list AS
 SELECT runs.id,
    runs.namespace,
    runs.workflow,
    runs.queue,
    (ARRAY['pending'::text, 'running'::text, 'sleeping'::text, 'paused'::text, 'canceling'::text, 'completed'::text, 'failed'::text, 'canceled'::text])[runs.status] AS status,
    runs.priority,
    runs.external_id,
        CASE
            WHEN runs.leased THEN runs.worker
            ELSE NULL::text
        END AS worker,
    runs.attempt,
    runs.crashes,
    to_timestamp((((runs.visible_at)::numeric / '1000000'::numeric))::double precision) AS visible_at,
    to_timestamp((((runs.created_at)::numeric / '1000000'::numeric))::double precision) AS created_at,
    to_timestamp((((runs.finished_at)::numeric / '1000000'::numeric))::double precision) AS finished_at,
    runs.failure
   FROM pawl.runs;
CREATE TABLE pawl.schedules (
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL,
    input bytea,
    meta bytea,
    paused boolean NOT NULL,
    next_at bigint,
    last_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE pawl.signals (
    run_id uuid NOT NULL,
    id uuid NOT NULL,
    pos bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    payload bytea,
    sent_at bigint NOT NULL,
    consumed boolean DEFAULT false NOT NULL
);
ALTER TABLE pawl.signals ALTER COLUMN pos ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pawl.signals_pos_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE pawl.state (
    run_id uuid NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    value bytea,
    version bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE pawl.steps (
    run_id uuid NOT NULL,
    "position" bigint NOT NULL,
    epoch bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint,
    due_at bigint,
    occurrence integer NOT NULL,
    idx integer NOT NULL,
    attempt integer NOT NULL,
    kind smallint NOT NULL,
    status smallint NOT NULL,
    branch text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    output bytea,
    failure text
);
CREATE TABLE pawl.workers (
    namespace text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL,
    pid bigint NOT NULL,
    queues text NOT NULL,
    workflows text NOT NULL,
    labels text NOT NULL,
    slots bigint NOT NULL,
    limits text NOT NULL,
    status smallint NOT NULL,
    ttl bigint NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE pawl.workflows (
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    meta bytea,
    updated_at bigint NOT NULL
);
INSERT INTO pawl.groups VALUES ('01a204f1-1e5e-7000-9d8b-4f1c3a354944', 'items~1.1', 3, 3, 0, 0, 0, 1, 0, 1);
INSERT INTO pawl.lanes VALUES ('default', 'approval', 'approval', 0);
INSERT INTO pawl.lanes VALUES ('default', 'blocked', 'blocked', 0);
INSERT INTO pawl.lanes VALUES ('default', 'faulty', 'faulty', 0);
INSERT INTO pawl.lanes VALUES ('default', 'item', 'item', 0);
INSERT INTO pawl.lanes VALUES ('default', 'order', 'order', 0);
INSERT INTO pawl.lanes VALUES ('default', 'parent', 'parent', 0);
INSERT INTO pawl.migrations VALUES (1, '2026-11-22 20:27:19.764768+00');
INSERT INTO pawl.paused VALUES ('default', '', 'order', 1795379240702337);
INSERT INTO pawl.runs VALUES ('01a204f1-1d4d-7000-94bb-39932889cba8', NULL, 1795379240317615, 1, 2, 4525251046023674567, 1, 0, 1795379240317615, 1795379240345630, 1795379240424449, NULL, 1, 0, 0, 6, 0, 0, 0, 5, 0, false, false, 'default', 'approval', 'approval', 'old', 'completed', '', NULL, NULL, NULL, '\x22617070726f76656422', NULL, '\x22617070726f7665642061736b65642c20617070726f76656420627920616e6e652c20617070726f76656420646f6e6522', NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1dec-7000-92fd-a9a19beddce2', NULL, NULL, 1, 1, 0, 0, 0, 1795379240429659, 1795379240429659, 1795379240440767, NULL, 1, 0, 0, 7, 0, 0, 0, 1, 0, false, false, 'default', 'faulty', 'faulty', 'old', 'failed', '', NULL, NULL, NULL, '\x226661756c747922', NULL, NULL, '{"code":"error","message":"step fail: it is broken: faulty","type":"*errors.errorString","stack":"","details":null,"permanent":true}');
INSERT INTO pawl.runs VALUES ('01a204f1-1e03-7000-8479-34ffbc582aec', 1795379242537159, NULL, 1, 1, 0, 0, 0, 1795379240452404, 1795379240452404, NULL, NULL, 1, 0, 0, 2, 0, 0, 0, 1, 0, true, false, 'default', 'blocked', 'blocked', 'old', 'running', '', NULL, NULL, NULL, '\x2272756e6e696e6722', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e05-7000-b6e9-c9562a3cab81', 1795379242537159, 1795379240457924, 1, 1, 4562274250238545169, 1, 0, 1795379240457924, 1795379240468388, NULL, NULL, 1, 0, 0, 5, 0, 0, 0, 1, 0, true, false, 'default', 'blocked', 'blocked', 'old', 'canceling', '', NULL, NULL, NULL, '\x2263616e63656c696e6722', NULL, NULL, '{"code":"canceled","message":"not wanted","type":"","stack":"","details":null,"permanent":false}');
INSERT INTO pawl.runs VALUES ('01a204f1-1e55-7000-9cd1-be9056e2b067', 1795379250543717, NULL, 1, 1, 1088172176723671648, 1, 0, 1795379240535546, 1795379240535546, NULL, NULL, 1, 0, 0, 3, 0, 3, 0, 3, 0, false, false, 'default', 'order', 'order', 'old', 'sleeping', '', NULL, NULL, NULL, '\x22736c656570696e6722', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e5e-7000-9d8b-4f1c3a354944', NULL, NULL, 1, 1, 2527486836650961879, 0, 0, 1795379240544789, 1795379240544789, NULL, NULL, 1, 0, 0, 3, 0, 3, 4, 41, 0, false, false, 'default', 'parent', 'parent', 'old', 'parent', '', NULL, NULL, NULL, '\x5b2261222c2262222c2263225d', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e5e-8000-8cf0-26872d10474e', 1795379250627442, 1795379240563704, 1, 1, 3760899748674660074, 0, 3, 1795379240563704, 1795379240573676, NULL, NULL, 1, 0, 0, 3, 0, 3, 0, 1, 0, false, false, 'default', 'item', 'item', 'old', NULL, '', '01a204f1-1e5e-7000-9d8b-4f1c3a354944', 'items~1.1', NULL, '\x226322', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e5e-8000-9a67-5e01237f1675', 1795379250627446, 1795379240563704, 1, 1, 3760899748674660075, 0, 2, 1795379240563704, 1795379240573676, NULL, NULL, 1, 0, 0, 3, 0, 3, 0, 1, 0, false, false, 'default', 'item', 'item', 'old', NULL, '', '01a204f1-1e5e-7000-9d8b-4f1c3a354944', 'items~1.1', NULL, '\x226222', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e5e-8000-be0d-befb2ea0032a', 1795379250627434, 1795379240563704, 1, 1, 3760899748674660073, 0, 1, 1795379240563704, 1795379240573676, NULL, NULL, 1, 0, 0, 3, 0, 3, 0, 1, 0, false, false, 'default', 'item', 'item', 'old', NULL, '', '01a204f1-1e5e-7000-9d8b-4f1c3a354944', 'items~1.1', NULL, '\x226122', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e72-7000-8faa-e8f7e4ce9828', NULL, NULL, 1, 2, 2512336781097101224, 0, 0, 1795379240564842, 1795379240564842, NULL, NULL, 1, 0, 0, 3, 0, 3, 1, 1, 0, false, false, 'default', 'approval', 'approval', 'old', 'waiting', '', NULL, NULL, NULL, '\x2277616974696e6722', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1e7b-7000-8b6c-f2d35ca9397e', 1795379240700979, NULL, 1, 2, 703819513952798176, 1, 0, 1795379240572208, 1795379240572208, NULL, NULL, 1, 0, 0, 4, 0, 3, 1, 5, 0, false, false, 'default', 'approval', 'approval', 'old', 'paused', '', NULL, NULL, NULL, '\x2270617573656422', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1f00-7000-a5b9-8661e7239d3f', 1795379240705658, NULL, 0, 0, 0, 0, 0, 1795379240705658, NULL, NULL, NULL, 1, 0, 0, 1, 0, 0, 0, 0, 0, false, false, 'default', 'order', 'order', NULL, 'pending', '', NULL, NULL, NULL, '\x2270656e64696e6722', NULL, NULL, NULL);
INSERT INTO pawl.runs VALUES ('01a204f1-1f09-7000-b282-7d290045994b', NULL, NULL, 0, 0, 2165342226319581719, 0, 0, 1795379240714854, NULL, 1795379240733345, NULL, 1, 0, 0, 8, 0, 0, 0, 0, 0, false, false, 'default', 'order', 'order', NULL, 'canceled', '', NULL, NULL, NULL, '\x2263616e63656c656422', NULL, NULL, '{"code":"canceled","message":"not wanted either","type":"","stack":"","details":null,"permanent":false}');
INSERT INTO pawl.schedules VALUES ('default', 'nightly', 'order', 'order', '0 3 * * *', '\x227363686564756c656422', '\x7b2274696d655a6f6e65223a22555443222c2263617463685570223a226e6f6e65222c226d617843617463685570223a3130302c226f7665726c6170223a22616c6c6f77227d', false, 1795402800000000, NULL, 1795379240756125, 1795379240756125);
INSERT INTO pawl.signals OVERRIDING SYSTEM VALUE VALUES ('01a204f1-1d4d-7000-94bb-39932889cba8', '01a204f1-1d8c-7000-89cb-3ca07075a42f', 1, 'go', NULL, 1795379240338306, true);
INSERT INTO pawl.signals OVERRIDING SYSTEM VALUE VALUES ('01a204f1-1e7b-7000-8b6c-f2d35ca9397e', '01a204f1-1efc-7000-825e-5ef8c9784f36', 2, 'go', '\x226265727422', 1795379240700979, false);
INSERT INTO pawl.state VALUES ('01a204f1-1e55-7000-9cd1-be9056e2b067', 'count', '\x37', 1, 1795379240543743);
INSERT INTO pawl.steps VALUES ('01a204f1-1d4d-7000-94bb-39932889cba8', 1, 1, 1795379240416287, 1795379240416302, NULL, 1, 0, 1, 1, 3, '', 'asked', '\x22617070726f7665642061736b656422', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1d4d-7000-94bb-39932889cba8', 2, 1, 1795379240416300, 1795379240416302, NULL, 1, 1, 1, 3, 3, '', 'go', '\x22616e6e6522', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1d4d-7000-94bb-39932889cba8', 3, 1, 1795379240424429, 1795379240424449, NULL, 1, 2, 1, 1, 3, '', 'done', '\x22617070726f76656420646f6e6522', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1dec-7000-92fd-a9a19beddce2', 1, 1, 1795379240440686, 1795379240440767, NULL, 1, 0, 1, 1, 4, '', 'fail', NULL, '{"code":"error","message":"it is broken: faulty","type":"*errors.errorString","stack":"","details":null,"permanent":true}');
INSERT INTO pawl.steps VALUES ('01a204f1-1e03-7000-8479-34ffbc582aec', 1, 1, 1795379240455167, 1795379240455192, NULL, 1, 0, 1, 1, 3, '', 'begun', '\x2272756e6e696e6720626567756e22', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e05-7000-b6e9-c9562a3cab81', 1, 1, 1795379240482788, 1795379240482818, NULL, 1, 0, 1, 1, 3, '', 'begun', '\x2263616e63656c696e6720626567756e22', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e55-7000-9cd1-be9056e2b067', 1, 1, 1795379240543716, 1795379240543743, NULL, 1, 0, 1, 1, 3, '', 'charged', '\x22736c656570696e67206368617267656422', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e55-7000-9cd1-be9056e2b067', 2, 1, 1795379240543743, 1795379240543743, NULL, 1, 1, 1, 8, 3, '', 'set count', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e55-7000-9cd1-be9056e2b067', 3, 1, 1795379240543743, NULL, 1795379250543716, 1, 2, 1, 2, 2, '', 'cool', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-7000-9d8b-4f1c3a354944', 1, 1, 1795379240563704, NULL, NULL, 1, 0, 1, 5, 2, '', 'items', '\x7b22706172656e74223a2230316132303466312d316535652d373030302d396438622d346631633361333534393434222c22776f726b666c6f77223a226974656d222c2267726f7570223a226974656d737e312e31222c22746f74616c223a332c22737061776e6564223a332c22636f6d706c65746564223a302c226661696c6564223a302c2263616e63656c6564223a307d', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e72-7000-8faa-e8f7e4ce9828', 1, 1, 1795379240599607, 1795379240599617, NULL, 1, 0, 1, 1, 3, '', 'asked', '\x2277616974696e672061736b656422', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e72-7000-8faa-e8f7e4ce9828', 2, 1, 1795379240599617, NULL, NULL, 1, 1, 1, 3, 2, '', 'go', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e7b-7000-8b6c-f2d35ca9397e', 1, 1, 1795379240624012, 1795379240624022, NULL, 1, 0, 1, 1, 3, '', 'asked', '\x227061757365642061736b656422', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e7b-7000-8b6c-f2d35ca9397e', 2, 1, 1795379240624022, NULL, NULL, 1, 1, 1, 3, 2, '', 'go', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-8cf0-26872d10474e', 1, 1, 1795379240627421, 1795379240627449, NULL, 1, 0, 1, 1, 3, '', 'made', '\x2263206d61646522', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-8cf0-26872d10474e', 2, 1, 1795379240627449, NULL, 1795379250627442, 1, 1, 1, 2, 2, '', 'cool', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-9a67-5e01237f1675', 1, 1, 1795379240627440, 1795379240627449, NULL, 1, 0, 1, 1, 3, '', 'made', '\x2262206d61646522', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-9a67-5e01237f1675', 2, 1, 1795379240627449, NULL, 1795379250627446, 1, 1, 1, 2, 2, '', 'cool', NULL, NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-be0d-befb2ea0032a', 1, 1, 1795379240627412, 1795379240627449, NULL, 1, 0, 1, 1, 3, '', 'made', '\x2261206d61646522', NULL);
INSERT INTO pawl.steps VALUES ('01a204f1-1e5e-8000-be0d-befb2ea0032a', 2, 1, 1795379240627449, NULL, 1795379250627434, 1, 1, 1, 2, 2, '', 'cool', NULL, NULL);
INSERT INTO pawl.workers VALUES ('default', 'old', 'host.example', 20410, '["approval","blocked","faulty","item","order","parent"]', '["approval","blocked","faulty","item","order","parent"]', 'null', 100, 'null', 1, 4000000, 1795379240322891, 1795379240537159);
INSERT INTO pawl.workflows VALUES ('default', 'approval', 'approval', NULL, 1795379240271437);
INSERT INTO pawl.workflows VALUES ('default', 'blocked', 'blocked', NULL, 1795379240271437);
INSERT INTO pawl.workflows VALUES ('default', 'faulty', 'faulty', NULL, 1795379240271437);
INSERT INTO pawl.workflows VALUES ('default', 'item', 'item', NULL, 1795379240271437);
INSERT INTO pawl.workflows VALUES ('default', 'order', 'order', NULL, 1795379240271437);
INSERT INTO pawl.workflows VALUES ('default', 'parent', 'parent', NULL, 1795379240271437);
SELECT pg_catalog.setval('pawl.signals_pos_seq', 2, true);
ALTER TABLE ONLY pawl.firings
    ADD CONSTRAINT firings_pkey PRIMARY KEY (namespace, schedule, at);
ALTER TABLE ONLY pawl.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (run_id, name);
ALTER TABLE ONLY pawl.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (namespace, queue, workflow, priority);
ALTER TABLE ONLY pawl.locks
    ADD CONSTRAINT locks_pkey PRIMARY KEY (namespace, name);
ALTER TABLE ONLY pawl.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY pawl.paused
    ADD CONSTRAINT paused_pkey PRIMARY KEY (namespace, queue, workflow);
ALTER TABLE ONLY pawl.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pawl.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (namespace, name);
ALTER TABLE ONLY pawl.signals
    ADD CONSTRAINT signals_pkey PRIMARY KEY (run_id, id);
ALTER TABLE ONLY pawl.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (run_id, key);
ALTER TABLE ONLY pawl.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (run_id, branch, name, occurrence);
ALTER TABLE ONLY pawl.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (namespace, id);
ALTER TABLE ONLY pawl.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (namespace, name);
CREATE INDEX runs_claim ON pawl.runs USING btree (namespace, queue, workflow, priority, visible_at, id) WHERE ((visible_at IS NOT NULL) AND (status <> 4));
CREATE UNIQUE INDEX runs_external ON pawl.runs USING btree (namespace, external_id, suffix) WHERE ((external_id IS NOT NULL) AND (status < 6));
CREATE INDEX runs_external_past ON pawl.runs USING btree (namespace, external_id, suffix, created_at, id) WHERE ((external_id IS NOT NULL) AND (status >= 6));
CREATE INDEX runs_finished ON pawl.runs USING btree (namespace, finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX runs_following ON pawl.runs USING btree (uuid_send(parent)) WHERE ((parent IS NOT NULL) AND (on_close = 0) AND (status < 6));
CREATE INDEX runs_parent ON pawl.runs USING btree (parent, grp, ordinal) WHERE (parent IS NOT NULL);
CREATE INDEX schedules_due ON pawl.schedules USING btree (namespace, next_at) WHERE ((next_at IS NOT NULL) AND (NOT paused));
CREATE INDEX signals_unread ON pawl.signals USING btree (run_id, pos) WHERE (NOT consumed);
