// A success vector in a table cell: one bar a subgoal.
import type { Context } from "./app";
import type { Group, StepTable } from "./contract";
import { h, s } from "./dom";
import { known, percent } from "./format";
import { packName, shown } from "./names";
import { routeHash } from "./route";

const SHOWN = 4;

export function vectorCell(context: Context, group: Group): HTMLElement {
  const { board } = context;
  const tables = board.steps.filter(
    (table) => table.policy === group.policy && (group.task === null || table.task === group.task),
  );
  const bySource = tables.filter((table) => table.source === "judge");
  const chosen = bySource.length ? bySource : tables;
  return h(
    "td",
    { class: "vectors", "data-label": "Subgoals" },
    chosen.slice(0, SHOWN).map((table) =>
      h(
        "a",
        {
          href: routeHash("subgoals", [], { judge: board.id, task: packName(table.task) }),
          title: `${shown(table.task)}, by ${table.source}\n${table.names
            .map((name, i) => `${name}: ${percent(table.reached[i][0])} % (n ${table.reached[i][3]})`)
            .join("\n")}`,
          "aria-label": `Subgoals of ${shown(table.task)}: ${table.reached.map(([value]) => `${percent(value, 0)} %`).join(", ")}`,
        },
        bars(table),
        h("span", { class: "vector-text" }, table.reached.map(([value]) => percent(value, 0)).join(" · ")),
      ),
    ),
    chosen.length > SHOWN && h("span", { class: "muted" }, `+${chosen.length - SHOWN} tasks`),
  );
}

function bars(table: StepTable): SVGElement {
  const width = 9;
  return s(
    "svg",
    { width: table.names.length * width, height: 20, class: "bars", "aria-hidden": "true" },
    table.reached
      .map(([value], i) => [
        s("rect", { x: i * width + 1, y: 0, width: width - 2, height: 20, class: "bar-room" }),
        known(value) &&
          s("rect", {
            x: i * width + 1,
            y: 20 - 20 * value,
            width: width - 2,
            height: 20 * value,
            class: "bar",
          }),
      ])
      .flat(),
  );
}
