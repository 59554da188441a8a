/**
 * Rows and columns on a wide screen, one small card per row on a phone. The roles are spelled out because changing
 * the display of a table takes its meaning away from screen readers.
 */
import type { ReactNode } from "react";
import "./table.css";

export interface Column<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ReactNode;
  /** Shown without its title on a phone: names and actions explain themselves. */
  bare?: boolean;
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
}

export function Table<Row>({ label, columns, rows, rowKey }: TableProps<Row>) {
  return (
    <table className="table" role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <th key={column.key} role="columnheader" scope="col" className={`table__head--${column.key}`}>
              {column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={rowKey(row)} role="row">
            {columns.map((column) => (
              <td key={column.key} role="cell" className={`table__cell table__cell--${column.key}`}>
                {!column.bare && (
                  <span className="table__title" aria-hidden="true">
                    {column.title}
                  </span>
                )}
                <span className="table__value">{column.cell(row)}</span>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
