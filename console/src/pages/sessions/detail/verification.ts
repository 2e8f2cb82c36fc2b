/** Reads a ledger page by page and checks it, without holding up the page that shows it. */

import { ChainCheck, type Fault, type Head, type StoredRecord } from "./chain";

export interface RecordPage {
  readonly records: readonly StoredRecord[];
  readonly last_seq: number;
  readonly head?: Head | null;
  readonly anchors?: AnchorFacts | null;
}

/** That heads are sent elsewhere while the server runs. */
export interface AnchorFacts {
  /** The fingerprint of the key that signs them. */
  readonly key: string | null;
  readonly every_seconds: number;
}

export interface Verification {
  readonly checked: number;
  /** How many records the server says there are. */
  readonly total: number;
  readonly isDone: boolean;
  readonly fault: Fault | null;
  readonly head: Head | null;
  readonly deleted: number;
  /** The head that was seen here before, and that the ledger still has. */
  readonly remembered: Head | null;
  /** Null when the server sends no anchors. */
  readonly anchors: AnchorFacts | null;
}

/** Heads that this browser has seen. Kept here, the server cannot rewrite them. */
export interface HeadMemory {
  recall(sessionId: string): Head | null;
  remember(sessionId: string, head: Head): void;
}

/** How many records are checked between two looks at what the person does. */
const BATCH = 100;

interface Steps {
  readonly sessionId: string;
  readonly read: (after: number) => Promise<RecordPage>;
  readonly memory: HeadMemory;
  readonly onProgress: (verification: Verification) => void;
  readonly pause: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** Check a whole ledger. The last verification is done, or has a fault; an aborted one is neither. */
export async function verifyLedger(steps: Steps): Promise<Verification> {
  const remembered = steps.memory.recall(steps.sessionId);
  const chain = new ChainCheck(remembered === null ? [] : [remembered]);
  let total = 0;
  let anchors: AnchorFacts | null = null;
  const now = (isDone: boolean): Verification => ({
    checked: chain.checked,
    total: Math.max(total, chain.checked),
    isDone,
    fault: chain.fault,
    head: chain.head,
    deleted: chain.deleted,
    remembered,
    anchors,
  });
  let after = 0;
  while (!steps.signal.aborted && chain.fault === null) {
    const page = await steps.read(after);
    anchors = page.anchors ?? null;
    if (page.head) {
      total = Math.max(total, page.head.seq);
      chain.expect(page.head);
    }
    if (page.records.length === 0) {
      chain.end();
      break;
    }
    for (let start = 0; start < page.records.length; start += BATCH) {
      await chain.take(page.records.slice(start, start + BATCH));
      steps.onProgress(now(false));
      await steps.pause();
      if (steps.signal.aborted) return now(false);
    }
    after = page.last_seq;
  }
  const result = now(!steps.signal.aborted);
  if (result.isDone && result.fault === null && result.head !== null) {
    steps.memory.remember(steps.sessionId, result.head);
  }
  return result;
}

const KEY = "toolcrib:heads";
const MOST_HEADS = 500;

/** Heads in the storage of the browser; none where it keeps nothing. */
export const browserHeads: HeadMemory = {
  recall(sessionId) {
    return readHeads().find(([id]) => id === sessionId)?.[1] ?? null;
  },
  remember(sessionId, head) {
    const others = readHeads().filter(([id]) => id !== sessionId);
    const kept = [[sessionId, head] as const, ...others].slice(0, MOST_HEADS);
    try {
      localStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // A browser that keeps nothing still verifies, without a head of before.
    }
  },
};

function readHeads(): readonly (readonly [string, Head])[] {
  try {
    const heads: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(heads) ? heads.filter(isKept) : [];
  } catch {
    return [];
  }
}

function isKept(entry: unknown): entry is [string, Head] {
  if (!Array.isArray(entry) || typeof entry[0] !== "string") return false;
  const head: unknown = entry[1];
  return (
    typeof head === "object" &&
    head !== null &&
    "seq" in head &&
    typeof head.seq === "number" &&
    "hash" in head &&
    typeof head.hash === "string"
  );
}
