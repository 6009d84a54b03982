// Numbers among successes or failures only, with the source of success in the name.
import type { Board, Est, Group } from "./contract";
import type { Data, Item } from "./data";

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

/** The plain mean over a group's episodes that meet the condition; it has no interval. */
export function meanOver(data: Data, board: Board, group: Group, metric: string, condition: string): Est | undefined {
  let sum = 0;
  let n = 0;
  let all = 0;
  for (const item of data.items(board)) {
    if (
      data.policy(item.episode) !== group.policy ||
      data.task(item.episode) !== group.task ||
      !meets(data, item, condition)
    )
      continue;
    all += 1;
    const value = data.runs[item.run].value(metric, item.row);
    if (Number.isFinite(value)) {
      sum += value;
      n += 1;
    }
  }
  return all ? [n ? sum / n : null, null, null, n, n, n / all, -1] : undefined;
}
