import { useCallback, useEffect, useRef, useState } from "react";

import { api, dataOf } from "@/api/client";

import { browserHeads, verifyLedger, type RecordPage, type Verification } from "./verification";

const PAGE = 500;

export interface VerificationState {
  readonly verification: Verification | null;
  readonly isRunning: boolean;
  readonly error: unknown;
  start(): void;
  stop(): void;
}

/** The check of a session's ledger in this browser, begun on request and stopped with the page. */
export function useVerification(sessionId: string): VerificationState {
  const [verification, setVerification] = useState<Verification | null>(null);
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  const stop = useCallback(() => {
    running.current?.abort();
    running.current = null;
    setRunning(false);
  }, []);
  useEffect(() => () => running.current?.abort(), [sessionId]);
  const start = useCallback(() => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const isCurrent = () => running.current === controller;
    setRunning(true);
    setError(null);
    setVerification(null);
    verifyLedger({
      sessionId,
      read: (after) => readRecords(sessionId, after, PAGE, controller.signal),
      memory: browserHeads,
      onProgress: (progress) => isCurrent() && setVerification(progress),
      pause: () => new Promise((resolve) => setTimeout(resolve)),
      signal: controller.signal,
    })
      .then((result) => isCurrent() && setVerification(result))
      .catch((failure: unknown) => isCurrent() && setError(failure))
      .finally(() => isCurrent() && setRunning(false));
  }, [sessionId]);
  return { verification, isRunning, error, start, stop };
}

/** A page of records after a number. */
export async function readRecords(
  sessionId: string,
  after: number,
  limit: number,
  signal?: AbortSignal,
): Promise<RecordPage> {
  const params = { path: { session_id: sessionId }, query: { after, limit } };
  return dataOf(await api.GET("/v1/sessions/{session_id}/records", { params, signal }));
}
