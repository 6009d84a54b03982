// Policies by metric, each number with its interval and n, each cell a link to its episodes.
import type { Context, View } from "../app";
import { baselineNote } from "../baseline-note";
import { CONDITIONS, conditionOf } from "../conditions";
import type { Group, MetricInfo } from "../contract";
import { choice, fill, h, searchBox, segmented } from "../dom";
import { downloads } from "../download";
import { estimateCell } from "../estimate";
import { count, scopeText } from "../format";
import { RESAMPLES } from "../interval";
import { directionText, metricName } from "../metric-name";
import { distinct, packName, displayName } from "../names";
import { rankText, rankTitle } from "../rank";
import { replaceRoute, routeHash } from "../route";
import { fileRows, linesOf, readState, type State } from "../standings";
import { vectorCell } from "../vector";

export function leaderboard(context: Context): View {
  const { data, board, route } = context;
  const state = readState(route.options);
  const controls = h("div", { class: "controls" });
  const body = h("div", {});

  function set(change: Partial<State>): void {
    Object.assign(state, change);
    replaceRoute(
      routeHash("leaderboard", [], {
        ...(board.id === data.firstBoard().id ? {} : { judge: board.id }),
        ...state,
      }),
    );
    if (!("text" in change)) drawControls();
    drawTable();
  }

  function drawControls(): void {
    const tasks = distinct(board.by_task.map((group) => group.task));
    const policies = distinct(board.overall.map((group) => group.policy));
    fill(
      controls,
      choice(
        "Task",
        [
          ["", "All tasks pooled"],
          ["*", "Each task"],
          ...tasks.map((t): [string, string] => [packName(t), displayName(t)]),
        ],
        state.task,
        (task) => set({ task }),
      ),
      choice(
        "Policy",
        [["", "All"], ...policies.map((p): [string, string] => [packName(p), displayName(p)])],
        state.policy,
        (policy) => set({ policy }),
      ),
      choice(
        "Success",
        CONDITIONS.map(({ key, text }): [string, string] => [key, text]),
        state.success,
        (success) => set({ success }),
      ),
      searchBox("policy or task", state.text, (text) => set({ text })),
      segmented(
        "Columns",
        [
          ["", "Main"],
          ["all", "All"],
        ],
        state.columns,
        (columns) => set({ columns }),
      ),
      downloads("leaderboard", () => fileRows(context, state)),
    );
  }

  function drawTable(): void {
    fill(body, table(context, state, set));
  }

  drawControls();
  drawTable();
  return {
    element: h(
      "div",
      { class: "stack" },
      h("h1", {}, "Leaderboard"),
      h(
        "p",
        { class: "muted" },
        `Judged by ${board.label}, protocol `,
        h("code", {}, board.protocol),
        `, OPD revision ${data.page.revision}. Values in percent, except correlations; 95 % intervals below; ↑ more, ↓ less is better; ranks with “=” are tied: their intervals overlap. n is stated where it is not that of the row.${scopeText(board)}`,
      ),
      baselineNote(board),
      controls,
      body,
    ),
  };
}

function table(context: Context, state: State, set: (change: Partial<State>) => void): HTMLElement {
  const { data } = context;
  const { metrics, lines, sorted } = linesOf(context, state);
  const descending = sorted && (sorted.better !== "lower") !== (state.order === "reversed");
  const head = (metric: MetricInfo): HTMLElement => {
    const here = metric === sorted;
    return h(
      "th",
      {
        scope: "col",
        class: here ? "num sorted" : "num",
        "data-metric": metric.name,
        "aria-sort": here ? (descending ? "descending" : "ascending") : "none",
      },
      h(
        "button",
        {
          type: "button",
          title: `${metric.summary}. ${directionText(metric.better)}`,
          onclick: () => set(here ? { order: state.order ? "" : "reversed" } : { sort: metric.name, order: "" }),
        },
        metricName(metric.label, metric.better),
        h("span", { class: "sort-mark", "aria-hidden": "true" }, here ? (descending ? " ▾" : " ▴") : ""),
      ),
    );
  };
  const perTask = state.task === "*";
  return h(
    "div",
    {},
    state.success !== "" &&
      state.task !== "" &&
      h(
        "p",
        { class: "muted" },
        `Computed on this page, means with a bootstrap of ${count(RESAMPLES)} resamples; with more: stepscore metrics RUN --show conditioned --by task,policy`,
      ),
    h(
      "div",
      { class: "scroll", tabindex: 0 },
      h(
        "table",
        { class: "numbers board" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "num" }, "Rank"),
            h("th", { scope: "col" }, "Policy"),
            perTask && h("th", { scope: "col" }, "Task"),
            h("th", { scope: "col", class: "num" }, "Episodes"),
            metrics.map(head),
            context.board.subgoals.length > 0 && h("th", { scope: "col" }, "Subgoals"),
          ),
        ),
        h(
          "tbody",
          {},
          lines.map((line) =>
            h(
              "tr",
              { "data-policy": displayName(line.group.policy), "data-task": line.group.task },
              h("td", { class: "num rank", title: rankTitle(line.rank) }, rankText(line.rank)),
              h("th", { scope: "row" }, displayName(line.group.policy)),
              perTask && h("td", {}, displayName(line.group.task)),
              h(
                "td",
                { class: "num" },
                h("a", { href: episodesHref(context, state, line.group, "") }, count(line.group.episodes)),
              ),
              metrics.map((metric, i) =>
                estimateCell(
                  data,
                  `${metric.label}, ${displayName(line.group.policy)}`,
                  line.cells[i],
                  metric,
                  episodesHref(context, state, line.group, metric.name),
                  { marked: metric === sorted, rowN: line.group.episodes },
                ),
              ),
              context.board.subgoals.length > 0 && vectorCell(context, line.group),
            ),
          ),
        ),
      ),
    ),
    !lines.length && h("p", { class: "empty" }, "No policy matches these filters."),
  );
}

/** The explorer with the episodes of a group, sorted by the metric. */
function episodesHref({ board }: Context, state: State, group: Group, metric: string): string {
  const condition = conditionOf(state.success);
  return routeHash("explorer", [], {
    judge: board.id,
    policy: packName(group.policy),
    ...(state.task ? { task: packName(group.task) } : {}),
    ...(condition ? { success: condition } : {}),
    ...(metric ? { sort: metric } : {}),
  });
}
