-- least: 1
-- What listings say about a session: the first words of its ledger, and counts. They change in the
-- row that every commit of the session changes anyway.
ALTER TABLE sessions
    ADD COLUMN first_prompt text,
    ADD COLUMN first_tool   text,
    ADD COLUMN prompts      bigint NOT NULL DEFAULT 0,
    ADD COLUMN calls        bigint NOT NULL DEFAULT 0,
    ADD COLUMN failures     bigint NOT NULL DEFAULT 0,
    ADD COLUMN nanos        bigint;
CREATE INDEX sessions_with_failures ON sessions (created_at, number) WHERE failures > 0;

-- The index of calls: one row for each call that has ended, waits or is in doubt, and for each
-- request to a model, named by its first record. `id` orders calls of one moment.
CREATE TABLE calls (
    id            bigint GENERATED ALWAYS AS IDENTITY,
    session       bigint NOT NULL,
    seq           bigint NOT NULL,
    last_seq      bigint NOT NULL,
    kind          smallint NOT NULL,
    at            double precision NOT NULL,
    status        smallint NOT NULL,
    call_id       text COLLATE "C",
    owner         text COLLATE "C",
    principal     text COLLATE "C",
    transport     text COLLATE "C",
    tool          text COLLATE "C",
    source        text COLLATE "C",
    model         text COLLATE "C",
    failure       smallint,
    decision      smallint,
    decided_by    smallint,
    approver      text COLLATE "C",
    duration      double precision NOT NULL,
    waited        double precision NOT NULL,
    parent        text COLLATE "C",
    turn          bigint NOT NULL,
    input_tokens  bigint,
    output_tokens bigint,
    nanos         bigint,
    prices        text COLLATE "C",
    PRIMARY KEY (session, seq)
) WITH (fillfactor = 90);
CREATE INDEX calls_by_time ON calls (at, id);
CREATE INDEX calls_by_session ON calls (session, at, id);
CREATE INDEX calls_by_tool ON calls (tool, at, id) WHERE tool IS NOT NULL;
CREATE INDEX calls_by_owner ON calls (owner, at, id) WHERE owner IS NOT NULL;
CREATE INDEX calls_by_principal ON calls (principal, at, id) WHERE principal IS NOT NULL;
CREATE INDEX calls_by_approver ON calls (approver, at, id) WHERE approver IS NOT NULL;
CREATE INDEX calls_by_status ON calls (status, at, id) WHERE status <> 0;
CREATE INDEX calls_by_cost ON calls (at, id) WHERE nanos IS NOT NULL;
CREATE INDEX calls_by_model ON calls (model, at, id) WHERE model IS NOT NULL;
CREATE INDEX calls_open ON calls (session, call_id) WHERE status IN (3, 4, 5, 6);
CREATE INDEX calls_by_parent ON calls (session, parent)
    WHERE parent IS NOT NULL AND input_tokens IS NOT NULL;

-- What the requests to models of a turn are for.
CREATE TABLE prompts (
    session   bigint NOT NULL,
    turn      bigint NOT NULL,
    principal text,
    transport text,
    provider  text NOT NULL,
    model     text NOT NULL,
    parent    text,
    PRIMARY KEY (session, turn)
);

-- What the inbox is searched by, taken out of the request. `groups` and `for_anyone` say which
-- approvers it is routed to.
ALTER TABLE approvals
    ADD COLUMN tool       text,
    ADD COLUMN principal  text,
    ADD COLUMN groups     text[] NOT NULL DEFAULT '{}',
    ADD COLUMN for_anyone boolean NOT NULL DEFAULT false,
    ADD COLUMN verdict    text;
CREATE INDEX approvals_in_order
    ON approvals (state, coalesce(deadline, 'Infinity'::double precision), filed);
CREATE INDEX approvals_in_order_of_all
    ON approvals (coalesce(deadline, 'Infinity'::double precision), filed);
CREATE INDEX approvals_by_tool ON approvals (tool, filed);

-- The version of the inbox is the sum. Many rows, so that replicas do not wait for one another; no
-- sequence, which would count a change before anybody can see it.
CREATE TABLE inbox_versions (
    shard   integer PRIMARY KEY,
    version bigint NOT NULL
) WITH (fillfactor = 20);
CREATE FUNCTION toolcrib_inbox_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO inbox_versions AS v VALUES (pg_backend_pid() % 64, 1)
    ON CONFLICT (shard) DO UPDATE SET version = v.version + 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER inbox_changed AFTER INSERT OR UPDATE OR DELETE ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_inbox_changed();

-- The metadata of a session as words are looked for in it; NULL for what PostgreSQL cannot read.
CREATE FUNCTION toolcrib_metadata(settings bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN nullif((convert_from(settings, 'UTF8')::json #> '{host,setup,metadata}')::text, 'null');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

-- Records that are looked for by their kind: `MARKED_KINDS` of record_marks.py.
CREATE INDEX marked_records ON records (session, kind, seq) WHERE kind IN (
    'container.expired', 'container.used', 'files.staged', 'history.compacted', 'model.responded',
    'prompt.answer_rejected', 'prompt.answered', 'prompt.started', 'prompt.stopped',
    'question.answered', 'question.asked', 'question.closed', 'session.payloads_deleted',
    'turn.started');
