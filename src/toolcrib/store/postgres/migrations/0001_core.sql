-- Who shares the store. A replica whose row has expired, or that has none, counts as gone.
CREATE TABLE replicas (
    replica_id text PRIMARY KEY,
    address    text,
    version    text NOT NULL,
    process    text NOT NULL,
    started_at double precision NOT NULL,
    expires_at double precision NOT NULL
) WITH (fillfactor = 50);

-- `number` names a session in other tables: shorter than its id, and never given a second time.
-- `born` is the week of its birth, counted from 1970: its records lie in that partition.
-- `replica_id` is the holder, NULL once it has let go; `taken_from` is the process of a holder that
-- had not let go when this one took over.
CREATE TABLE sessions (
    session_id text PRIMARY KEY,
    number     bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    born       integer NOT NULL,
    created_at double precision NOT NULL,
    owner      text,
    settings   bytea NOT NULL,
    head_seq   bigint NOT NULL DEFAULT 0,
    head_hash  bytea NOT NULL,
    fence      bigint NOT NULL,
    replica_id text,
    taken_from text
) WITH (fillfactor = 70);
CREATE INDEX sessions_by_time ON sessions (created_at, number);
CREATE INDEX sessions_by_owner ON sessions (owner, created_at, number);
CREATE INDEX sessions_by_replica ON sessions (replica_id) WHERE replica_id IS NOT NULL;

CREATE TABLE records (
    born           integer NOT NULL,
    session        bigint NOT NULL,
    seq            bigint NOT NULL,
    at             double precision NOT NULL,
    kind           text NOT NULL,
    call_id        text,
    payload_digest bytea NOT NULL,
    previous       bytea NOT NULL,
    hash           bytea NOT NULL,
    PRIMARY KEY (born, session, seq)
) PARTITION BY LIST (born);
CREATE INDEX ended_calls ON records (session, call_id) WHERE kind = 'tool.invoked';

CREATE TABLE payloads (
    born    integer NOT NULL,
    session bigint NOT NULL,
    seq     bigint NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (born, session, seq)
) PARTITION BY LIST (born);

-- Either `fact` or, for a call that holds secrets, `sealed`: the same, encrypted.
CREATE TABLE open_calls (
    opened  bigint GENERATED ALWAYS AS IDENTITY,
    session bigint NOT NULL,
    call_id text NOT NULL,
    fact    bytea,
    sealed  bytea,
    PRIMARY KEY (session, call_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- `sealed` holds edited arguments, encrypted: of the decision, or of the votes so far.
CREATE TABLE approvals (
    filed       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    approval_id text PRIMARY KEY,
    session     bigint NOT NULL,
    digest      text NOT NULL,
    state       text NOT NULL,
    request     bytea NOT NULL,
    deadline    double precision,
    decided     bytea,
    ballot      bytea,
    sealed      bytea
);
CREATE INDEX approvals_by_session ON approvals (session, state);
CREATE INDEX approvals_by_state ON approvals (state, filed);
CREATE INDEX approvals_by_deadline ON approvals (deadline)
    WHERE state = 'pending' AND deadline IS NOT NULL;

CREATE TABLE grants (
    made       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    grant_id   text PRIMARY KEY,
    tool_id    text NOT NULL,
    session_id text,
    fact       bytea NOT NULL,
    expires_at double precision
);
CREATE INDEX grants_by_tool ON grants (tool_id, made);
CREATE INDEX grants_by_session ON grants (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX grants_by_expiry ON grants (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE artifacts (
    session     bigint NOT NULL,
    artifact_id text NOT NULL,
    call_id     text NOT NULL,
    body        bytea NOT NULL,
    is_packed   boolean NOT NULL,
    PRIMARY KEY (session, artifact_id)
);

-- `holder` is the replica that does the work, NULL once there is an outcome or it has stopped.
CREATE TABLE keys (
    principal     text NOT NULL,
    operation     text NOT NULL,
    key           text NOT NULL,
    params_digest text NOT NULL,
    session_id    text NOT NULL,
    created_at    double precision NOT NULL,
    after_turn    bigint NOT NULL,
    outcome       bytea,
    holder        text,
    PRIMARY KEY (principal, operation, key)
);
CREATE INDEX keys_by_session ON keys (session_id);

-- Small values that replicas share. Either `body` or, for a secret, `sealed`.
CREATE TABLE shared_values (
    name       text COLLATE "C" PRIMARY KEY,
    body       bytea,
    sealed     bytea,
    version    bigint NOT NULL,
    expires_at double precision
);
CREATE INDEX shared_values_by_expiry ON shared_values (expires_at) WHERE expires_at IS NOT NULL;

-- Every lease has a larger fence than all leases before it, of whichever session. The fence of a
-- lease is greatest(sessions.fence + 1, nextval('fences')). A restore raises it.
CREATE SEQUENCE fences;

-- The time of the database, in seconds; the one time that replicas agree on.
CREATE FUNCTION toolcrib_now() RETURNS double precision LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT extract(epoch FROM clock_timestamp())::double precision';
