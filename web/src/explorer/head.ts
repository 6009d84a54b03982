// The heading of an episode: id, instruction, policy, task and outcome.
import type { Context } from "../app";
import type { Item } from "../data";
import { h } from "../dom";
import { displayName } from "../names";
import { textAt } from "../packed";

export function episodeHead({ data }: Context, item: Item, inferred: boolean): HTMLElement {
  const { episodes } = data.page;
  const label = episodes.success[item.episode];
  const judge = data.runs[item.run].value("success_judge", item.row);
  const error = data.runs[item.run].error(item.row);
  return h(
    "div",
    { class: "episode-head" },
    h("h1", { dir: "auto" }, episodes.id[item.episode]),
    h("p", { class: "instruction", dir: "auto" }, textAt(episodes.instruction, item.episode) ?? ""),
    h(
      "p",
      { class: "tags" },
      h("span", { class: "tag" }, displayName(data.policy(item.episode))),
      h("span", { class: "tag", dir: "auto" }, displayName(data.task(item.episode))),
      h("span", { class: `tag ${verdictClass(label)}` }, `label: ${outcome(label)}`),
      h("span", { class: `tag ${verdictClass(judge)}` }, `judge: ${outcome(judge)}`),
      data.runs[item.run].failureMode(item.row) &&
        h("span", { class: "tag" }, data.runs[item.run].failureMode(item.row)),
      inferred &&
        h(
          "span",
          {
            class: "tag warn",
            title: "The file has no timestamps; they were inferred from the number of rows",
          },
          "times inferred",
        ),
    ),
    error && h("p", { class: "warning", role: "note" }, error),
  );
}

function outcome(value: number): string {
  return value === 1 ? "success" : value === 0 ? "failure" : "unknown";
}

function verdictClass(value: number): string {
  return value === 1 ? "yes" : value === 0 ? "no" : "";
}
