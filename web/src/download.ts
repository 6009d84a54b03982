// The numbers on screen as a file, in the rows of `stepscore metrics --json`.
import { h } from "./dom";

export type Row = Record<string, string | number | null>;

export function downloads(name: string, rows: () => Row[]): HTMLElement {
  return h(
    "span",
    { class: "downloads" },
    h("button", { type: "button", onclick: () => save(`${name}.csv`, "text/csv", csv(rows())) }, "CSV"),
    h("button", { type: "button", onclick: () => save(`${name}.json`, "application/json", json(rows())) }, "JSON"),
  );
}

export function csv(rows: Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    [columns, ...rows.map((row) => columns.map((column) => row[column]))]
      .map((cells) => cells.map(csvCell).join(","))
      .join("\r\n") + "\r\n"
  );
}

function csvCell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would take such a text for a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function json(rows: Row[]): string {
  return `${JSON.stringify(rows, null, 2)}\n`;
}

function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
