// The rows of the leaderboard: policies, columns, order and ranks.
import type { Context } from "./app";
import { conditionedCells, conditionedName } from "./conditions";
import type { Leaderboard, Est, Group, MetricInfo, Rank } from "./contract";
import type { Row } from "./download";
import { distinct, displayName, unpackName } from "./names";
import { byValue, ranks } from "./rank";

export interface State {
  task: string; // "" all tasks together, "*" every task on its own, else a packed name
  policy: string;
  text: string;
  success: string;
  sort: string;
  order: string; // "" good direction first, "reversed"
  columns: string; // "" main, "all"
}

export interface Line {
  group: Group;
  cells: (Est | undefined)[];
  rank: Rank;
}

const DEFAULTS: State = { task: "", policy: "", text: "", success: "", sort: "", order: "", columns: "" };

export function readState(options: Record<string, string>): State {
  const state = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS) as (keyof State)[]) state[key] = options[key] ?? "";
  return state;
}

/** The visible columns: those with a value in some group, the success columns first. */
function columnsOf({ data, board }: Context, state: State): MetricInfo[] {
  const groups = state.task ? board.by_task : board.overall;
  const conditioned = state.success !== "";
  return data.page.metrics.filter(
    (metric) =>
      (metric.main || state.columns === "all") &&
      groups.some((group) => group.cells[metric.name]) &&
      !(conditioned && metric.name.startsWith("success_")),
  );
}

function groupsOf(board: Leaderboard, state: State): Group[] {
  if (!state.task) return board.overall;
  const task = unpackName(state.task);
  return state.task === "*" ? board.by_task : board.by_task.filter((group) => group.task === task);
}

export function linesOf(
  context: Context,
  state: State,
): { metrics: MetricInfo[]; lines: Line[]; sorted: MetricInfo | undefined } {
  const { data, board } = context;
  const metrics = columnsOf(context, state);
  const sorted = metrics.find(({ name }) => name === state.sort) ?? metrics.find(({ better }) => better !== "neither");
  const groups = groupsOf(board, state);
  const cellOf =
    state.success !== "" && state.task !== ""
      ? conditionedCells(data, board, state.success)
      : (group: Group, metric: MetricInfo): Est | undefined =>
          group.cells[state.success ? conditionedName(metric.name, state.success) : metric.name];
  const all = groups.map((group): Line => ({
    group,
    cells: metrics.map((metric) => cellOf(group, metric)),
    rank: null,
  }));
  const at = sorted ? metrics.indexOf(sorted) : -1;
  if (sorted) setRanks(all, at, sorted, state);
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const policy = unpackName(state.policy);
  const lines = all.filter(
    ({ group }) =>
      (policy === undefined || group.policy === policy) &&
      words.every((word) =>
        `${displayName(group.policy)} ${state.task ? displayName(group.task) : ""}`.toLowerCase().includes(word),
      ),
  );
  if (sorted) {
    const descending = (sorted.better !== "lower") !== (state.order === "reversed");
    lines.sort(byValue((line) => line.cells[at]?.[0], descending));
  }
  return { metrics, lines, sorted };
}

/** Ranks within a task, or among all policies; those stored in the page where it has them. */
function setRanks(lines: Line[], at: number, metric: MetricInfo, state: State): void {
  for (const task of distinct(lines.map(({ group }) => group.task))) {
    const within = lines.filter(({ group }) => group.task === task);
    const found = ranks(
      within.map(({ cells }) => cells[at]),
      metric.better,
    );
    within.forEach((line, i) => {
      const stored = state.success === "" ? line.group.ranks[metric.name] : undefined;
      line.rank = stored === undefined ? found[i] : stored;
    });
  }
}

/** The visible rows and columns, as rows of a file. */
export function fileRows(context: Context, state: State): Row[] {
  const { metrics, lines } = linesOf(context, state);
  return lines.flatMap(({ group, cells }) =>
    metrics.flatMap((metric, i) => {
      const cell = cells[i];
      if (!cell) return [];
      const [value, lo, hi, n, clusters, coverage] = cell;
      return [
        {
          judge: context.board.judge,
          protocol: context.board.protocol,
          policy: group.policy,
          task: state.task ? group.task : null,
          metric: state.success ? conditionedName(metric.name, state.success) : metric.name,
          value,
          lo,
          hi,
          n,
          clusters,
          coverage,
          method: context.data.method(cell),
        },
      ];
    }),
  );
}
