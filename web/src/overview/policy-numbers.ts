// The main metrics of each policy in one table.
import type { Context } from "../app";
import { h } from "../dom";
import { estimateCell } from "../estimate";
import { count } from "../format";
import { metricName } from "../metric-name";
import { displayName } from "../names";
import { routeHash } from "../route";

const METRICS = ["success_label", "success_judge", "MP", "PPL", "CRA", "STR", "duration_s"];

export function policyNumbers({ data, board }: Context): HTMLElement {
  const metrics = METRICS.flatMap((name) => data.metric(name) ?? []).filter(({ name }) =>
    board.overall.some((group) => group.cells[name]),
  );
  return h(
    "div",
    {},
    h(
      "div",
      { class: "scroll", tabindex: 0 },
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Policy"),
            h("th", { scope: "col", class: "num" }, "Episodes"),
            metrics.map(({ label, better, summary }) =>
              h("th", { scope: "col", class: "num", title: summary }, metricName(label, better)),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          board.overall.map((group) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, displayName(group.policy)),
              h("td", { class: "num" }, count(group.episodes)),
              metrics.map((metric) =>
                estimateCell(data, metric.label, group.cells[metric.name], metric, null, { rowN: group.episodes }),
              ),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "more" },
      "Percent, 95 % intervals below. ",
      h("a", { href: routeHash("leaderboard", [], { judge: board.id }) }, "Leaderboard"),
      " · ",
      h("a", { href: routeHash("process", [], { judge: board.id }) }, "Process"),
      " · ",
      h("a", { href: routeHash("explorer", [], { judge: board.id }) }, "Episodes"),
    ),
  );
}
