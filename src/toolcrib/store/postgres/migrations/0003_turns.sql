-- least: 1
-- Prompts that were accepted. `place` is their order; a session has at most one that runs or waits,
-- and begins the next when that has ended. `pending` are the approvals that a turn waits for.
-- `due_at` is when somebody should take the turn up: NULL for one that stands behind another, runs,
-- or waits without a deadline. Whatever makes a turn due writes it, so that looking for turns costs
-- the same however many wait. `fence` is that of the lease it runs under, NULL when nobody runs it.
CREATE TABLE turns (
    turn_id      text PRIMARY KEY,
    place        bigint GENERATED ALWAYS AS IDENTITY,
    session_id   text NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    state        text NOT NULL,
    request      bytea NOT NULL,
    outcome      bytea,
    pending      text[] NOT NULL DEFAULT '{}',
    wake_at      double precision,
    due_at       double precision,
    fence        bigint,
    gives_way    boolean NOT NULL DEFAULT false,
    is_kept      boolean NOT NULL DEFAULT false,
    cancelled_by text,
    attempts     integer NOT NULL DEFAULT 0,
    created_at   double precision NOT NULL,
    changed_at   double precision NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX turns_by_session ON turns (session_id, place);
CREATE UNIQUE INDEX turns_under_way ON turns (session_id) WHERE state IN ('running', 'waiting');
CREATE INDEX turns_due ON turns (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX turns_running ON turns (session_id) WHERE state = 'running';
CREATE INDEX turns_waiting ON turns (session_id) WHERE state = 'waiting';
CREATE INDEX turns_over ON turns (changed_at) WHERE state = 'ended' AND NOT is_kept;
