// Which subgoal fails: per task the success vector, conditional success and where episodes fail first.
import "../styles/subgoals.css";
import type { Context, View } from "../app";
import type { Est, MetricInfo, SubgoalTable } from "../contract";
import { choice, fill, h } from "../dom";
import { dotRows, legend } from "../dots";
import { percent, scopeText } from "../format";
import { metricName } from "../metric-name";
import { colourVariable, distinct, packName, displayName, unpackName } from "../names";
import { replaceRoute, routeHash } from "../route";
import { episodesOf, subgoalMatrix } from "../subgoal-matrix";

type Part = "reached" | "given_previous" | "fails_first";

const PARTS: { part: Part; title: string; text: string; answer: string; better: MetricInfo["better"] }[] = [
  {
    part: "reached",
    title: "Reached",
    text: "share of episodes that reached the subgoal",
    answer: "yes",
    better: "higher",
  },
  {
    part: "given_previous",
    title: "Reached, given the previous one",
    text: "share of the episodes that reached the previous subgoal",
    answer: "yes",
    better: "higher",
  },
  {
    part: "fails_first",
    title: "First failure",
    text: "share of episodes whose first failure is this subgoal",
    answer: "first",
    better: "lower",
  },
];

export function subgoals(context: Context): View {
  const { board, route } = context;
  const tasks = distinct(board.subgoals.map((table) => table.task));
  const body = h("div", { class: "stack" });
  function draw(wanted: string): void {
    const only = unpackName(wanted);
    const shown = only === undefined ? tasks : tasks.filter((task) => task === only);
    fill(
      body,
      shown.map((task) => taskRow(context, task, shown.length === 1)),
    );
  }
  if (!tasks.length) {
    return {
      element: h(
        "div",
        { class: "stack" },
        h("h1", {}, "Subgoals"),
        h(
          "p",
          { class: "empty" },
          `${board.label} gives no verdicts on subgoals, and no subgoal is labelled. A judge that gives them: stepscore judge SOURCE --judge stepeval`,
        ),
      ),
    };
  }
  draw(route.options.task ?? "");
  return {
    element: h(
      "div",
      { class: "stack" },
      h("h1", {}, "Subgoals"),
      h(
        "p",
        { class: "muted" },
        `Verdicts by ${board.label} and labels, apart from each other. Percent, 95 % intervals below; a number leads to its episodes.${scopeText(board)}`,
      ),
      tasks.length > 1 &&
        h(
          "div",
          { class: "controls" },
          choice(
            "Task",
            [["", "All tasks"], ...tasks.map((task): [string, string] => [packName(task), displayName(task)])],
            route.options.task ?? "",
            (task) => {
              replaceRoute(routeHash("subgoals", [], { judge: route.options.judge ?? "", task }));
              draw(task);
            },
          ),
        ),
      body,
    ),
  };
}

function taskRow(context: Context, task: string | null, alone: boolean): HTMLElement {
  const tables = context.board.subgoals.filter((table) => table.task === task);
  const sources = distinct(tables.map((table) => table.source));
  return h(
    "section",
    { class: "task", "data-task": displayName(task) },
    h("h2", {}, displayName(task)),
    !tables.every((table) => table.reviewed) && h("span", { class: "tag" }, "subgoals not reviewed by a person"),
    subgoalMatrix(context, tables, (table, row) => episodesHref(context, table, row, "yes")),
    h(
      "details",
      { class: "intervals", open: alone },
      h("summary", {}, "With intervals, given the previous subgoal, and where episodes fail first"),
      sources.map((source) =>
        sourceRow(
          context,
          source,
          tables.filter((table) => table.source === source),
          sources.length > 1,
        ),
      ),
    ),
  );
}

/** The explorer with the episodes whose verdict on a subgoal is this. */
function episodesHref({ board }: Context, table: SubgoalTable, row: number, answer: string): string {
  return routeHash("explorer", [], {
    judge: board.id,
    policy: packName(table.policy),
    task: packName(table.task),
    subgoal: table.names[row],
    answer,
    source: table.source,
  });
}

function sourceRow(context: Context, source: string, tables: SubgoalTable[], named: boolean): HTMLElement {
  const policies = distinct(context.board.overall.map((group) => group.policy));
  const colour = (table: SubgoalTable): string => colourVariable(policies.indexOf(table.policy));
  const labels = tables[0].names.map((text, i) => ({
    text,
    title: tables[0].criteria[i] ? `${text}: ${tables[0].criteria[i]}` : text,
  }));
  return h(
    "div",
    { class: "source", "data-source": source },
    h(
      "div",
      { class: "source-head" },
      (named || source === "label") && h("h3", {}, source === "judge" ? "By the judge" : "By label"),
      legend(
        tables.map((table) => ({
          name: displayName(table.policy),
          colour: colour(table),
          count: `n ${episodesOf(table)}`,
        })),
      ),
    ),
    h(
      "div",
      { class: "panels" },
      PARTS.map(({ part, title, text, answer, better }) =>
        h(
          "div",
          { class: "panel", "data-part": part },
          h("h4", { title: text }, metricName(title, better)),
          dotRows(
            context.data,
            labels,
            tables.map((table) => ({
              name: displayName(table.policy),
              colour: colour(table),
              estimates: table[part],
              n: episodesOf(table),
              href: (row: number) => episodesHref(context, table, row, answer),
            })),
            part === "fails_first" ? "bar" : "dot",
          ),
        ),
      ),
    ),
    violations(tables),
  );
}

function violations(tables: SubgoalTable[]): HTMLElement | null {
  const found = tables.filter(({ violations: [value] }) => value !== null && value > 0);
  if (!found.length) return null;
  const part = (policy: string | null, [value, , , n]: Est): string =>
    `${displayName(policy)} ${percent(value, 0)} % (n ${n})`;
  return h(
    "p",
    { class: "muted" },
    `A later subgoal reached without an earlier one: ${found.map((table) => part(table.policy, table.violations)).join(", ")}.`,
  );
}
