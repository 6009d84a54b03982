// What narrows and sorts the list of episodes.
import type { Context } from "../../app";
import { CONDITIONS } from "../../conditions";
import { choice, h, searchBox } from "../../dom";
import { distinct, displayName, packName } from "../../names";
import type { Filter } from "./selection";

export function filterControls(
  { data, board }: Context,
  filter: Filter,
  refilter: (change: Partial<Filter>) => void,
): (HTMLElement | false)[] {
  const tasks = distinct(data.items(board).map(({ episode }) => data.task(episode)));
  const policies = distinct(board.overall.map((group) => group.policy));
  const names = (values: (string | null)[]): [string, string][] => [
    ["", "All"],
    ...values.map((name): [string, string] => [packName(name), displayName(name)]),
  ];
  return [
    searchBox("id, task, policy, instruction", filter.text, (text) => refilter({ text })),
    policies.length > 1 && choice("Policy", names(policies), filter.policy, (policy) => refilter({ policy })),
    tasks.length > 1 && choice("Task", names(tasks), filter.task, (task) => refilter({ task })),
    choice(
      "Success",
      CONDITIONS.map(({ key, text }): [string, string] => [key, key ? text : "All"]),
      filter.success,
      (success) => refilter({ success }),
    ),
    choice(
      "Sort",
      [
        ["", "Episode"],
        ["duration", "Duration"],
        ...data.page.metrics.map(({ name, label }): [string, string] => [name, label]),
      ],
      filter.sort,
      (sort) => refilter({ sort, order: "" }),
    ),
    orderButton(filter, () => refilter({ order: filter.order ? "" : "reversed" })),
    ...hidden(filter).map(([text, change]) =>
      h(
        "button",
        { type: "button", class: "tag remove", title: "Remove this filter", onclick: () => refilter(change) },
        `${text} ✕`,
      ),
    ),
  ];
}

function orderButton({ sort, order }: Filter, reverse: () => void): HTMLElement {
  const [normal, reversed] = !sort
    ? ["First to last", "Last to first"]
    : sort === "duration"
      ? ["Shortest first", "Longest first"]
      : ["Best first", "Worst first"];
  return h(
    "button",
    { type: "button", class: "order", title: "Reverse the order", onclick: reverse },
    order ? `↑ ${reversed}` : `↓ ${normal}`,
  );
}

/** Filters that came with a link and have no control of their own. */
function hidden(filter: Filter): [string, Partial<Filter>][] {
  const found: [string, Partial<Filter>][] = [];
  if (filter.mode) found.push([`failure mode: ${filter.mode}`, { mode: "" }]);
  if (filter.subgoal) {
    const what = filter.answer === "first" ? "fails first" : filter.answer || "any verdict";
    found.push([
      `${filter.subgoal}: ${what}, by ${filter.source === "label" ? "label" : "judge"}`,
      { subgoal: "", answer: "", source: "" },
    ]);
  }
  return found;
}
