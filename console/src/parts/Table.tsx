import type { ReactNode } from "react";

import styles from "@/parts/Table.module.css";

export interface Column<Row> {
  id: string;
  label: string;
  cell: (row: Row) => ReactNode;
  align?: "start" | "end";
  /** What the head shows in place of the label, such as a link that orders by the column. */
  head?: ReactNode;
  sorted?: "ascending" | "descending" | undefined;
}

/** A table; below 640 pixels each row is a card with the labels of its columns. */
export function Table<Row>({
  caption,
  columns,
  rows,
  rowKey,
}: {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
}) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <caption className="sr-only">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                data-align={column.align ?? "start"}
                aria-sort={column.sorted}
              >
                {column.head ?? column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td key={column.id} data-label={column.label} data-align={column.align ?? "start"}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
