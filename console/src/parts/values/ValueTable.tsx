import { messages } from "@/messages";
import { Text } from "@/parts/untrusted";

import { Cut } from "./Cut";
import styles from "./values.module.css";
import type { Json, JsonObject } from "./view";

const MOST_ROWS = 50;
const MOST_CHARACTERS = 300;

interface ValueTableProps {
  readonly columns: readonly string[];
  readonly rows: readonly JsonObject[];
  readonly label?: string;
}

/** A list of objects as a table. */
export function ValueTable({ columns, rows, label = messages.values.table }: ValueTableProps) {
  return (
    <Cut
      items={rows}
      most={MOST_ROWS}
      unit="rows"
      render={(shown) => (
        <div className={styles.scroll} tabIndex={0} role="group" aria-label={label}>
          <table className={styles.table}>
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column} scope="col">
                    <Text text={column} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((row, index) => (
                <tr key={index}>
                  {columns.map((column) => (
                    <td key={column}>
                      <Text text={cellText(row[column])} most={MOST_CHARACTERS} lines />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    />
  );
}

function cellText(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
