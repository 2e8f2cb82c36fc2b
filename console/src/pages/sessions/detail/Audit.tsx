import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ShieldCheck, ShieldX } from "lucide-react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { CopyButton } from "@/parts/CopyButton";
import { duration } from "@/parts/format";
import { ErrorState, LoadingState } from "@/parts/State";
import { Code } from "@/parts/values";

import type { StoredRecord } from "./chain";
import styles from "./detail.module.css";
import { FactList } from "./FactList";
import { readRecords, useVerification } from "./useVerification";
import type { Verification } from "./verification";

const words = messages.detail;

interface AuditProps {
  readonly sessionId: string;
  readonly seq: number;
}

/** The record of an event, and the check of the whole ledger in this browser. */
export function Audit({ sessionId, seq }: AuditProps) {
  return (
    <div className={styles.stack}>
      <LedgerCheck sessionId={sessionId} />
      <RecordFacts sessionId={sessionId} seq={seq} />
    </div>
  );
}

function LedgerCheck({ sessionId }: { sessionId: string }) {
  const { verification, isRunning, error, start, stop } = useVerification(sessionId);
  if (!window.isSecureContext) return <p className={styles.quiet}>{words.insecure}</p>;
  const isDone = verification !== null && !isRunning && verification.isDone;
  return (
    <section className={styles.stack} aria-label={words.verify}>
      <p className={styles.quiet}>{words.verifyHint}</p>
      <div className={styles.row}>
        {isRunning ? (
          <Button onClick={stop}>{words.stop}</Button>
        ) : (
          <Button onClick={start}>{isDone ? words.verifyAgain : words.verify}</Button>
        )}
      </div>
      {isRunning && verification !== null ? <Progress verification={verification} /> : null}
      <div aria-live="polite">
        {isDone ? <Verdict sessionId={sessionId} verification={verification} /> : null}
      </div>
      {error !== null && !isRunning ? <ErrorState error={error} onRetry={start} /> : null}
    </section>
  );
}

function Progress({ verification }: { verification: Verification }) {
  const text = words.verifying(verification.checked, verification.total);
  return (
    <div className={styles.stack}>
      <progress
        className={styles.progress}
        aria-label={words.verify}
        max={Math.max(verification.total, 1)}
        value={verification.checked}
      />
      <span className={styles.quiet}>{text}</span>
    </div>
  );
}

function Verdict({ sessionId, verification }: { sessionId: string; verification: Verification }) {
  const { fault, head } = verification;
  if (fault !== null) {
    return (
      <div className={styles.broken} data-verdict="broken">
        <p className={styles.verdict}>
          <ShieldX aria-hidden size={18} /> {words.broken(fault.seq)}
        </p>
        <p>
          {words.faults[fault.kind]} {words.held(verification.checked)}
        </p>
        <Link to="/sessions/$sessionId" params={{ sessionId }} search={{ event: fault.seq }}>
          {words.goToRecord(fault.seq)}
        </Link>
      </div>
    );
  }
  if (head === null) return <p className={styles.quiet}>{words.emptyLedger}</p>;
  return (
    <div className={styles.whole} data-verdict="whole">
      <p className={styles.verdict}>
        <ShieldCheck aria-hidden size={18} /> {words.verified(verification.checked)}
      </p>
      <p>
        {words.headHash} <code className={styles.hash}>{head.hash}</code>
      </p>
      {verification.deleted > 0 ? <p>{words.deletedPayloads(verification.deleted)}</p> : null}
      <p className={styles.quiet}>
        {verification.remembered === null
          ? words.notRemembered
          : words.remembered(verification.remembered.seq)}
      </p>
      <p className={styles.quiet}>
        {verification.anchors === null
          ? words.noAnchors
          : words.anchors(
              verification.anchors.key ?? words.unsigned,
              duration(verification.anchors.every_seconds),
            )}
      </p>
      <p className={styles.quiet}>{words.unchecked}</p>
      <CopyButton text={`${sessionId} ${head.seq} ${head.hash}`} label={words.copyHead} />
    </div>
  );
}

function RecordFacts({ sessionId, seq }: AuditProps) {
  const query = useQuery({
    queryKey: ["record", sessionId, seq],
    queryFn: ({ signal }) => readRecords(sessionId, seq - 1, 1, signal),
  });
  if (query.isPending) return <LoadingState />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const record = query.data.records.find((each) => each.seq === seq);
  return record === undefined ? (
    <p className={styles.quiet}>{words.faults.missing}</p>
  ) : (
    <OneRecord record={record} />
  );
}

function OneRecord({ record }: { record: StoredRecord }) {
  const names = words.recordFacts;
  return (
    <section className={styles.stack} aria-label={words.record}>
      <FactList
        facts={[
          [names.seq, String(record.seq)],
          [
            names.hash,
            <code key="hash" className={styles.hash}>
              {record.hash}
            </code>,
          ],
          [
            names.previous,
            <code key="previous" className={styles.hash}>
              {record.previous}
            </code>,
          ],
          [
            names.payloadDigest,
            <code key="digest" className={styles.hash}>
              {record.payload_digest}
            </code>,
          ],
        ]}
      />
      <h3 className={styles.heading}>{names.payload}</h3>
      {record.payload === null ? (
        <p className={styles.quiet}>{words.payloadDeleted}</p>
      ) : (
        <Code text={record.payload} label={names.payload} wraps />
      )}
    </section>
  );
}
