import { describe, expect, it } from "vitest";

import { ChainCheck, type Fault, type StoredRecord } from "./chain";
import { verifyLedger, type HeadMemory, type Verification } from "./verification";
import recorded from "./recorded/records.json";

/** A ledger that the server wrote, as `records.list` gave it. */
const WRITTEN = recorded as readonly StoredRecord[];

async function faultOf(
  records: readonly StoredRecord[],
  ...heads: StoredRecord[]
): Promise<Fault | null> {
  const chain = new ChainCheck(heads.map(({ seq, hash }) => ({ seq, hash })));
  await chain.take(records);
  chain.end();
  return chain.fault;
}

function at(index: number): StoredRecord {
  const record = WRITTEN[index];
  if (record === undefined) throw new Error(`no record ${index}`);
  return record;
}

function changed(index: number, change: Partial<StoredRecord>): readonly StoredRecord[] {
  return WRITTEN.map((record, place) => (place === index ? { ...record, ...change } : record));
}

describe("ChainCheck", () => {
  it("takes what the server wrote", async () => {
    const chain = new ChainCheck();
    await chain.take(WRITTEN);
    chain.end();
    expect(chain.fault).toBeNull();
    expect(chain.checked).toBe(WRITTEN.length);
    expect(chain.head).toEqual({ seq: WRITTEN.length, hash: at(WRITTEN.length - 1).hash });
  });

  it("finds every field that was changed", async () => {
    const call = WRITTEN.findIndex((record) => record.call_id !== null);
    const seq = call + 1;
    expect(call).toBeGreaterThan(0);
    expect(await faultOf(changed(call, { kind: "tool.progress" }))).toEqual({
      kind: "record",
      seq,
    });
    expect(await faultOf(changed(call, { at: at(call).at + 0.001 }))).toEqual({
      kind: "record",
      seq,
    });
    expect(await faultOf(changed(call, { call_id: "call_x" }))).toEqual({ kind: "record", seq });
    expect(await faultOf(changed(call, { call_id: null }))).toEqual({ kind: "record", seq });
    expect(await faultOf(changed(call, { payload: "{}" }))).toEqual({ kind: "payload", seq });
    expect(await faultOf(changed(call, { payload_digest: "ab" }))).toEqual({ kind: "record", seq });
    expect(await faultOf(changed(call, { hash: at(0).hash }))).toEqual({ kind: "record", seq });
    expect(await faultOf(changed(call, { previous: at(0).previous }))).toEqual({
      kind: "order",
      seq,
    });
    expect(await faultOf(changed(call, { session_id: "another" }))).toEqual({
      kind: "foreign",
      seq,
    });
  });

  it("finds records that were taken away, put in or put elsewhere", async () => {
    expect(await faultOf(WRITTEN.toSpliced(2, 1))).toEqual({ kind: "missing", seq: 3 });
    expect(await faultOf(WRITTEN.toSpliced(2, 0, at(2)))).toEqual({ kind: "missing", seq: 4 });
    expect(await faultOf(WRITTEN.toSpliced(1, 2, at(2), at(1)))).toEqual({
      kind: "missing",
      seq: 2,
    });
  });

  it("finds a cut end and a rewritten record by a head of before", async () => {
    const last = at(WRITTEN.length - 1);
    expect(await faultOf(WRITTEN, last, at(1))).toBeNull();
    expect(await faultOf(WRITTEN.slice(0, -1), last)).toEqual({ kind: "cut", seq: last.seq });
    expect(await faultOf(WRITTEN, { ...at(1), hash: "0".repeat(64) })).toEqual({
      kind: "rewritten",
      seq: 2,
    });
    expect(await faultOf([], last)).toEqual({ kind: "cut", seq: 1 });
  });

  it("takes a missing payload only where a record accounts for it", async () => {
    expect(await faultOf(changed(1, { payload: null }))).toEqual({ kind: "no_payload", seq: 2 });
  });

  it("counts characters as Python does, in an id outside of the first plane", async () => {
    const record: StoredRecord = {
      session_id: "ses_👍é",
      seq: 1,
      kind: "session.opened",
      at: 1.5,
      call_id: "call_é👍",
      payload: "{}",
      payload_encoding: "utf-8",
      payload_digest: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
      previous: "0".repeat(64),
      hash: "089b8caafdafc11460aa604f59db30a8443b51272956eeae24a512d0c4305b8b",
    };
    expect(await faultOf([record])).toBeNull();
  });
});

class Memory implements HeadMemory {
  constructor(public head: { seq: number; hash: string } | null = null) {}
  recall = () => this.head;
  remember = (_: string, head: { seq: number; hash: string }) => {
    this.head = head;
  };
}

async function verify(
  records: readonly StoredRecord[],
  memory = new Memory(),
  size = 4,
): Promise<{ result: Verification; steps: number }> {
  let steps = 0;
  const last = records.at(-1);
  const result = await verifyLedger({
    sessionId: "s",
    read: (after) => {
      const page = records.filter((record) => record.seq > after).slice(0, size);
      return Promise.resolve({
        records: page,
        last_seq: page.at(-1)?.seq ?? after,
        head: last === undefined ? null : { seq: last.seq, hash: last.hash },
      });
    },
    memory,
    onProgress: () => (steps += 1),
    pause: () => Promise.resolve(),
    signal: new AbortController().signal,
  });
  return { result, steps };
}

describe("verifyLedger", () => {
  it("reads page by page, and remembers the head", async () => {
    const memory = new Memory();
    const { result, steps } = await verify(WRITTEN, memory);
    expect(result).toMatchObject({ isDone: true, fault: null, checked: WRITTEN.length });
    expect(steps).toBe(Math.ceil(WRITTEN.length / 4));
    expect(memory.head).toEqual(result.head);
  });

  it("finds a ledger that was shortened since it was seen here", async () => {
    const memory = new Memory();
    await verify(WRITTEN, memory);
    const { result } = await verify(WRITTEN.slice(0, -2), memory);
    expect(result.fault).toEqual({ kind: "cut", seq: WRITTEN.length - 1 });
    expect(memory.head?.seq).toBe(WRITTEN.length);
  });

  it("finds a server that keeps back the end that it names", async () => {
    const result = await verifyLedger({
      sessionId: "s",
      read: () => Promise.resolve({ records: [], last_seq: 0, head: at(3) }),
      memory: new Memory(),
      onProgress: () => undefined,
      pause: () => Promise.resolve(),
      signal: new AbortController().signal,
    });
    expect(result.fault).toEqual({ kind: "cut", seq: 1 });
  });

  it("stops where the chain breaks, and remembers nothing", async () => {
    const memory = new Memory();
    const { result } = await verify(changed(5, { payload: "{}" }), memory);
    expect(result).toMatchObject({ fault: { kind: "payload", seq: 6 }, checked: 5 });
    expect(memory.head).toBeNull();
  });
});
