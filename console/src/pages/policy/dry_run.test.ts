import { describe, expect, it } from "vitest";

import { joined, NOTHING, type Preview } from "@/pages/policy/dry_run";

function page(facts: Partial<Preview>): Preview {
  return {
    looked_at: 0,
    changed: 0,
    unchanged: 0,
    unknown: 0,
    not_judged: 0,
    changes: [],
    doubts: [],
    calls: [],
    notes: [],
    cursor: null,
    ...facts,
  };
}

describe("the pages of a dry run", () => {
  it("add up, by tool and by reason", () => {
    const first = page({
      looked_at: 3,
      changed: 2,
      unknown: 1,
      changes: [{ tool: "pay", before: "allow", after: "ask", calls: 2 }],
      doubts: [{ doubt: "redacted", calls: 1 }],
      cursor: "more",
    });
    const second = page({
      looked_at: 2,
      changed: 2,
      changes: [
        { tool: "pay", before: "allow", after: "ask", calls: 1 },
        { tool: "pay", before: "ask", after: "deny", calls: 1 },
      ],
    });

    const run = joined(joined(NOTHING, first), second);

    expect(run).toMatchObject({ looked_at: 5, changed: 4, unknown: 1, cursor: null });
    expect(run.changes.map((change) => [change.after, change.calls])).toEqual([
      ["ask", 3],
      ["deny", 1],
    ]);
    expect(run.doubts).toEqual([{ doubt: "redacted", calls: 1 }]);
  });
});
