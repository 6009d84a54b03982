// A subgoal success vector in a table cell: one bar per subgoal.
import type { Context } from "./app";
import type { Group, SubgoalTable } from "./contract";
import { h, s } from "./dom";
import { known, percent } from "./format";
import { packName, displayName } from "./names";
import { routeHash } from "./route";

const MAX_TASKS = 4;

export function vectorCell(context: Context, group: Group): HTMLElement {
  const { board } = context;
  const tables = board.subgoals.filter(
    (table) => table.policy === group.policy && (group.task === null || table.task === group.task),
  );
  const bySource = tables.filter((table) => table.source === "judge");
  const chosen = bySource.length ? bySource : tables;
  return h(
    "td",
    { class: "vectors", "data-label": "Subgoals" },
    chosen.slice(0, MAX_TASKS).map((table) =>
      h(
        "a",
        {
          href: routeHash("subgoals", [], { judge: board.id, task: packName(table.task) }),
          title: `${displayName(table.task)}, by ${table.source}\n${table.names
            .map((name, i) => `${name}: ${percent(table.reached[i][0])} % (n ${table.reached[i][3]})`)
            .join("\n")}`,
        },
        bars(table),
        h("span", { class: "vector-text" }, table.reached.map(([value]) => percent(value, 0)).join(" · ")),
      ),
    ),
    chosen.length > MAX_TASKS && h("span", { class: "muted" }, `+${chosen.length - MAX_TASKS} tasks`),
  );
}

function bars(table: SubgoalTable): SVGElement {
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
