// The share of episodes that reach each subgoal of a task: a row a policy, a column a subgoal, darker where more do.
import type { Context } from "./app";
import type { SubgoalTable } from "./contract";
import { h } from "./dom";
import { estimateCell } from "./estimate";
import { count, known } from "./format";
import { metricName } from "./metric-name";
import { displayName, distinct } from "./names";

const SOURCES = { judge: "By the judge", label: "By label" } as const;

/** Tables of one task; those by judge and those by label are never in one row. */
export function subgoalMatrix(
  context: Context,
  tables: SubgoalTable[],
  href: (table: SubgoalTable, row: number) => string,
): HTMLElement {
  const [{ names, criteria }] = tables;
  const sources = distinct(tables.map(({ source }) => source));
  return h(
    "div",
    { class: "scroll", tabindex: 0 },
    h(
      "table",
      { class: "numbers matrix" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Policy"),
          h("th", { scope: "col", class: "num" }, "n"),
          names.map((name, i) => h("th", { scope: "col", class: "num", title: criteria[i] || name }, name)),
        ),
      ),
      sources.map((source) =>
        h(
          "tbody",
          { "data-source": source },
          h(
            "tr",
            { class: "group" },
            h(
              "th",
              { scope: "rowgroup", colspan: names.length + 2 },
              metricName(`${SOURCES[source]}, percent that reach it`, "higher"),
            ),
          ),
          tables.filter((table) => table.source === source).map((table) => matrixRow(context, table, href)),
        ),
      ),
    ),
  );
}

function matrixRow(
  { data }: Context,
  table: SubgoalTable,
  href: (table: SubgoalTable, row: number) => string,
): HTMLElement {
  const policy = displayName(table.policy);
  const n = episodesOf(table);
  return h(
    "tr",
    { "data-policy": policy },
    h("th", { scope: "row" }, policy),
    h("td", { class: "num" }, count(n)),
    table.reached.map((estimate, i) => {
      const label = `${policy}, ${table.names[i]}`;
      const cell = estimateCell(data, label, estimate, { percent: true }, href(table, i), { rowN: n, digits: 0 });
      if (known(estimate[0])) cell.style.setProperty("--strength", `${Math.round(45 * estimate[0])}%`);
      return cell;
    }),
  );
}

/** Episodes with a known verdict on some subgoal. */
export function episodesOf(table: SubgoalTable): number {
  return Math.max(...table.reached.map(([, , , n]) => n));
}
