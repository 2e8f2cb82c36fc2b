import { messages } from "@/messages";
import { money } from "@/parts/format";
import { Table } from "@/parts/Table";
import { Text } from "@/parts/untrusted";

import { factsIn, numberIn, textIn } from "./call";
import styles from "./detail.module.css";
import { FactList } from "./FactList";

const words = messages.detail;
const NANO = 1_000_000_000;

interface Part {
  readonly key: string;
  readonly what: string;
  readonly of: string;
  readonly quantity: number | null;
  readonly dollars: number | null;
  readonly source: string | null;
  readonly asOf: string | null;
}

/** The parts of a cost. What has no known price has none; it is never nothing. */
function partsOf(cost: Record<string, unknown> | null): readonly Part[] {
  const parts = cost?.["parts"];
  if (!Array.isArray(parts)) return [];
  return parts.map((each: unknown, index) => {
    const part = factsIn({ part: each }, "part");
    const nanos = numberIn(part, "nanos");
    return {
      key: String(index),
      what: textIn(part, "what") ?? "",
      of: textIn(part, "of") ?? "",
      quantity: numberIn(part, "quantity"),
      dollars: nanos === null ? null : nanos / NANO,
      source: textIn(part, "source"),
      asOf: textIn(part, "as_of"),
    };
  });
}

/** What an event cost, part by part, with the table and the day of each price. */
export function Cost({ data }: { data: Readonly<Record<string, unknown>> }) {
  const parts = partsOf(factsIn(data, "cost"));
  const usage = factsIn(data, "usage");
  const isLocal = (data["origin"] ?? "local") === "local" && usage === null;
  return (
    <div className={styles.stack}>
      {parts.length === 0 ? (
        <p>{isLocal ? words.noCost : words.unknownCost}</p>
      ) : (
        <Parts parts={parts} />
      )}
      {usage === null ? null : <Usage usage={usage} />}
    </div>
  );
}

function Parts({ parts }: { parts: readonly Part[] }) {
  const known = parts.filter((part) => part.dollars !== null);
  const sum = known.reduce((dollars, part) => dollars + (part.dollars ?? 0), 0);
  const names = words.costParts;
  return (
    <>
      <p>
        {words.total}: <strong>{money(known.length === 0 ? null : sum)}</strong>{" "}
        {known.length > 0 && known.length < parts.length ? words.partlyUnknown : null}
      </p>
      <Table
        caption={words.costTable}
        rows={[...parts]}
        rowKey={(part) => part.key}
        columns={[
          { id: "what", label: names.what, cell: (part) => <Text text={part.what} /> },
          { id: "of", label: names.of, cell: (part) => <Text text={part.of} /> },
          {
            id: "quantity",
            label: names.quantity,
            align: "end",
            cell: (part) => part.quantity?.toLocaleString("en") ?? messages.parts.unknown,
          },
          { id: "amount", label: names.amount, align: "end", cell: (part) => money(part.dollars) },
          {
            id: "source",
            label: names.source,
            cell: (part) => <Text text={part.source ?? messages.parts.unknown} />,
          },
          {
            id: "asOf",
            label: names.asOf,
            cell: (part) => <Text text={part.asOf ?? messages.parts.unknown} />,
          },
        ]}
      />
    </>
  );
}

function Usage({ usage }: { usage: Record<string, unknown> }) {
  const facts = Object.keys(usage).map((name): [string, string] => {
    const count = numberIn(usage, name);
    const label = words.tokenNames[name] ?? name;
    return [label, count === null ? messages.parts.unknown : count.toLocaleString("en")];
  });
  return (
    <section aria-label={words.tokens}>
      <h3 className={styles.heading}>{words.tokens}</h3>
      <FactList facts={facts} />
    </section>
  );
}
