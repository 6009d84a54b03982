// Which episodes are listed, and in what order.
import type { Context } from "../../app";
import { meets } from "../../conditions";
import type { Data, Item } from "../../data";
import { unpackName } from "../../names";
import { textAt } from "../../packed";
import { byValue } from "../../rank";

export interface Filter {
  text: string;
  policy: string;
  task: string;
  success: string;
  mode: string; // failure mode
  subgoal: string;
  answer: string; // "yes", "no", "unknown", or "first": the first failure
  source: string; // whose verdict: "judge" or "label"
  sort: string; // a metric, "id" or "duration"
  order: string; // "" best, shortest or first letters first; "reversed" the other way
}

export const NO_FILTER: Filter = {
  text: "",
  policy: "",
  task: "",
  success: "",
  mode: "",
  subgoal: "",
  answer: "",
  source: "",
  sort: "",
  order: "",
};

export function readFilter(options: Record<string, string>): Filter {
  const filter = { ...NO_FILTER };
  for (const key of Object.keys(NO_FILTER) as (keyof Filter)[]) filter[key] = options[key] ?? "";
  return filter;
}

/** Load what a filter asks of every episode; null where it is here. */
export function needsOf({ data, board }: Context, filter: Pick<Filter, "sort" | "subgoal">): Promise<void> | null {
  return data.needColumns(board, filter.sort ? [filter.sort] : [], filter.subgoal !== "");
}

/** The episodes of a judge that pass the filter, sorted. */
export function select({ data, board }: Context, filter: Filter): Item[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const [policy, task] = [unpackName(filter.policy), unpackName(filter.task)];
  const items = data
    .items(board)
    .filter(
      (item) =>
        (policy === undefined || data.policy(item.episode) === policy) &&
        (task === undefined || data.task(item.episode) === task) &&
        meets(data, item, filter.success) &&
        (!filter.mode || data.runs[item.run].failureMode(item.row) === filter.mode) &&
        (!filter.subgoal || verdictMatches(data, item, filter)) &&
        (!words.length || words.every((each) => searchText(data, item.episode).includes(each))),
    );
  return sort(data, items, filter);
}

const texts = new WeakMap<Data, string[]>();

function searchText(data: Data, episode: number): string {
  let known = texts.get(data);
  if (!known) texts.set(data, (known = []));
  const { episodes } = data.page;
  return (known[episode] ??= [
    episodes.id[episode],
    ...[episodes.task, episodes.policy, episodes.instruction, episodes.robot, episodes.dataset, episodes.pair].map(
      (column) => textAt(column, episode),
    ),
  ]
    .join(" ")
    .toLowerCase());
}

function verdictMatches(data: Data, item: Item, { subgoal, answer, source }: Filter): boolean {
  const answers = verdictsOf(data, item, source === "label" ? "label" : "judge");
  if (answer === "first") {
    const failed = answers.find(([, found]) => found !== "yes");
    return failed?.[0] === subgoal && failed[1] === "no";
  }
  return answers.some(([name, found]) => name === subgoal && (!answer || found === answer));
}

/** [subgoal, answer] in the order of the task. */
export function verdictsOf(data: Data, item: Item, source: "judge" | "label"): [string, string][] {
  const { episodes } = data.page;
  const list = episodes.subgoals[item.episode];
  const names = list < 0 ? [] : episodes.subgoal_lists[list].map(({ name }) => name);
  if (source === "label") {
    const words: Record<string, string> = { 1: "yes", 0: "no" };
    return names.map((name, i) => [name, words[episodes.subgoal_labels[item.episode][i]] ?? "unknown"]);
  }
  const verdicts = data.runs[item.run].answers(item.row);
  const place = (name: string): number => (names.includes(name) ? names.indexOf(name) : names.length);
  return verdicts.sort(([a], [b]) => place(a) - place(b));
}

function sort(data: Data, items: Item[], filter: Filter): Item[] {
  const reversed = filter.order === "reversed";
  if (!filter.sort || filter.sort === "id") return reversed ? items.reverse() : items;
  if (filter.sort === "duration") return items.sort(byValue((item) => data.duration(item.episode), reversed));
  const better = data.metric(filter.sort)?.better ?? "higher";
  return items.sort(
    byValue((item) => data.runs[item.run].value(filter.sort, item.row), (better !== "lower") !== reversed),
  );
}
