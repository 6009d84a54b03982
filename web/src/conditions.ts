// Estimates among successes or failures only, with the source of success in the name.
import type { Leaderboard, Est, Group, MetricInfo } from "./contract";
import type { Data, Item } from "./data";
import { Draws, meanInterval, none } from "./interval";

export const CONDITIONS = [
  { key: "", text: "All episodes" },
  { key: "label1", text: "Successes by label" },
  { key: "label0", text: "Failures by label" },
  { key: "judge1", text: "Successes by judge" },
  { key: "judge0", text: "Failures by judge" },
];

/** The condition, where `key` is one. */
export function conditionOf(key: string): string {
  return CONDITIONS.some((condition) => condition.key === key) ? key : "";
}

/** "PPL" among "label1" is "PPL|success:label". */
export function conditionedName(metric: string, condition: string): string {
  return `${metric}|${condition.endsWith("1") ? "success" : "failure"}:${condition.slice(0, -1)}`;
}

export function meets(data: Data, item: Item, condition: string): boolean {
  if (!condition) return true;
  return data.runs[item.run].value(`success_${condition.slice(0, -1)}`, item.row) === Number(condition.slice(-1));
}

/**
 * Estimates of a board's groups over their episodes that meet the condition. They have an interval where episodes are
 * independent; where scenes repeat, or tasks are only identified by instruction, intervals are left to Python.
 */
export function conditionedCells(
  data: Data,
  board: Leaderboard,
  condition: string,
): (group: Group, metric: MetricInfo) => Est | undefined {
  const key = (policy: string | null, task: string | null): string => JSON.stringify([policy, task]);
  const members = new Map<string, Item[]>();
  for (const item of data.counted(board)) {
    if (!meets(data, item, condition)) continue;
    const name = key(data.policy(item.episode), data.task(item.episode));
    members.get(name)?.push(item) ?? members.set(name, [item]);
  }
  const draws = new Draws();
  return (group, metric) => {
    const items = members.get(key(group.policy, group.task));
    if (!items) return undefined;
    const known = items.filter((item) => Number.isFinite(data.runs[item.run].value(metric.name, item.row)));
    const values = known.map((item) => data.runs[item.run].value(metric.name, item.row));
    const mean = values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    const units = new Set(known.map((item, i) => data.scene(item.episode) ?? i)).size;
    const interval =
      mean === null || (units === values.length && group.task !== null)
        ? meanInterval(values, mean ?? NaN, metric.kind, draws)
        : none("not on the page; see stepscore metrics --show conditioned --by task,policy");
    const method = data.methodNumber(interval.method);
    return [mean, interval.lo, interval.hi, values.length, units, values.length / items.length, method];
  };
}
