/** The check of a ledger in the browser: the same chain as toolcrib/ledger/record.py, over the bytes
 * that the server sends.
 */

/** A record as `records.list` gives it. */
export interface StoredRecord {
  readonly session_id: string;
  readonly seq: number;
  readonly kind: string;
  readonly at: number;
  readonly call_id: string | null;
  readonly payload: string | null;
  readonly payload_encoding: "utf-8" | "base64";
  readonly payload_digest: string;
  readonly previous: string;
  readonly hash: string;
}

/** The end of a ledger. */
export interface Head {
  readonly seq: number;
  readonly hash: string;
}

/** Why a ledger is not what was written. `seq` is the first record that is wrong. */
export interface Fault {
  readonly kind:
    | "missing" // A record is not there: another number stands in its place.
    | "foreign" // It is of another session.
    | "order" // It does not follow the one before it.
    | "record" // Its hash is not that of its fields.
    | "payload" // Its payload is not what its digest is of.
    | "no_payload" // Its payload is gone, and no record says that it was deleted.
    | "cut" // The ledger ends before a record that once existed.
    | "rewritten"; // It is not the record that a head was taken of.
  readonly seq: number;
}

export const GENESIS = "0".repeat(64);

const PAYLOADS_DELETED = "session.payloads_deleted";
const encoder = new TextEncoder();

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function payloadBytes(record: StoredRecord): Uint8Array<ArrayBuffer> {
  const payload = record.payload ?? "";
  if (record.payload_encoding === "utf-8") return encoder.encode(payload);
  return Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
}

/** The hash that a record must have. Numbers of a fixed size come first, two of which say how many
 * characters the kind and the session's id have.
 */
export async function linkOf(record: StoredRecord): Promise<string> {
  const call = record.call_id === null ? "" : `=${record.call_id}`;
  const text = encoder.encode(
    `${record.previous}${record.payload_digest}${record.kind}${record.session_id}${call}`,
  );
  const bytes = new Uint8Array(24 + text.length);
  const place = new DataView(bytes.buffer);
  place.setFloat64(0, record.at);
  place.setBigUint64(8, BigInt(record.seq));
  place.setUint32(16, characters(record.kind));
  place.setUint32(20, characters(record.session_id));
  bytes.set(text, 24);
  return sha256(bytes);
}

/** Characters as Python counts them, not the units of JavaScript. */
function characters(text: string): number {
  return Array.from(text).length;
}

interface Digests {
  readonly link: string;
  readonly payload: string | null;
}

async function digestsOf(record: StoredRecord): Promise<Digests> {
  const payload = record.payload === null ? null : sha256(payloadBytes(record));
  return { link: await linkOf(record), payload: await payload };
}

/** Checks a whole chain, page by page, against any number of heads. */
export class ChainCheck {
  /** How many records hold so far. */
  checked = 0;
  /** Payloads that are gone, and that a record says were deleted. */
  deleted = 0;
  /** The first thing that is wrong; nothing after it is looked at. */
  fault: Fault | null = null;
  private last: StoredRecord | null = null;
  private missing: number[] = [];
  private heads: Head[];

  constructor(heads: readonly Head[] = []) {
    this.heads = [...heads].sort((one, other) => one.seq - other.seq);
  }

  /** The end of what holds. */
  get head(): Head | null {
    return this.last === null ? null : { seq: this.last.seq, hash: this.last.hash };
  }

  /** Demand that the ledger has this head. It must not lie before the records that were taken. */
  expect(head: Head): void {
    if (head.seq === this.last?.seq) {
      this.note(head.hash === this.last.hash ? null : { kind: "rewritten", seq: head.seq });
    } else if (head.seq > (this.last?.seq ?? 0)) {
      this.heads = [...this.heads, head].sort((one, other) => one.seq - other.seq);
    }
  }

  /** Check the records that follow. The digests of a page are computed at once. */
  async take(records: readonly StoredRecord[]): Promise<void> {
    if (this.fault !== null) return;
    const digests = await Promise.all(records.map(digestsOf));
    for (const [index, record] of records.entries()) {
      const own = digests[index];
      this.note(own === undefined ? null : (this.linkFault(record, own) ?? this.headFault(record)));
      if (this.fault !== null) return;
      this.count(record);
    }
  }

  /** There are no more records. */
  end(): void {
    if (this.fault !== null) return;
    if (this.heads.length > 0) this.note({ kind: "cut", seq: (this.last?.seq ?? 0) + 1 });
    else if (this.missing[0] !== undefined) this.note({ kind: "no_payload", seq: this.missing[0] });
  }

  private note(fault: Fault | null): void {
    this.fault ??= fault;
  }

  private linkFault(record: StoredRecord, own: Digests): Fault | null {
    const last = this.last;
    const seq = (last?.seq ?? 0) + 1;
    if (record.seq !== seq) return { kind: "missing", seq };
    if (last !== null && record.session_id !== last.session_id) return { kind: "foreign", seq };
    if (record.previous !== (last?.hash ?? GENESIS)) return { kind: "order", seq };
    if (record.payload_digest.length !== GENESIS.length) return { kind: "record", seq };
    if (own.payload !== null && own.payload !== record.payload_digest)
      return { kind: "payload", seq };
    return own.link === record.hash ? null : { kind: "record", seq };
  }

  private headFault(record: StoredRecord): Fault | null {
    while (this.heads[0]?.seq === record.seq) {
      const head = this.heads.shift();
      if (head?.hash !== record.hash) return { kind: "rewritten", seq: record.seq };
    }
    return null;
  }

  private count(record: StoredRecord): void {
    this.last = record;
    this.checked += 1;
    if (record.payload === null) {
      this.missing.push(record.seq);
    } else if (record.kind === PAYLOADS_DELETED) {
      const end = deletionEnd(record);
      const rest = this.missing.filter((seq) => seq > end);
      this.deleted += this.missing.length - rest.length;
      this.missing = rest;
    }
  }
}

/** Up to which record a record says that payloads were deleted. */
function deletionEnd(record: StoredRecord): number {
  const before = record.seq - 1;
  try {
    const facts: unknown = JSON.parse(record.payload ?? "");
    const upTo =
      typeof facts === "object" && facts !== null && "up_to" in facts ? facts.up_to : null;
    return typeof upTo === "number" ? Math.min(upTo, before) : before;
  } catch {
    // Its digest held, so whoever wrote the ledger wrote this; it accounts for nothing.
    return 0;
  }
}
