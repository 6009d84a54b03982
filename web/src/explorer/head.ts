// Which episode this is, and how it ended.
import type { Context } from "../app";
import type { Item } from "../data";
import { h } from "../dom";
import { shown } from "../names";
import { word } from "../packed";

export function episodeHead({ data }: Context, item: Item, inferred: boolean): HTMLElement {
  const { episodes } = data.page;
  const label = episodes.success[item.episode];
  const judge = data.runs[item.run].value("success_judge", item.row);
  const error = data.runs[item.run].error(item.row);
  return h(
    "div",
    { class: "episode-head" },
    h("h1", { dir: "auto" }, episodes.id[item.episode]),
    h("p", { class: "instruction", dir: "auto" }, word(episodes.instruction, item.episode) ?? ""),
    h(
      "p",
      { class: "tags" },
      h("span", { class: "tag" }, shown(data.policy(item.episode))),
      h("span", { class: "tag", dir: "auto" }, shown(data.task(item.episode))),
      h("span", { class: `tag ${verdictClass(label)}` }, `label: ${outcome(label)}`),
      h("span", { class: `tag ${verdictClass(judge)}` }, `judge: ${outcome(judge)}`),
      data.runs[item.run].fingerprint(item.row) &&
        h("span", { class: "tag" }, data.runs[item.run].fingerprint(item.row)),
      inferred &&
        h(
          "span",
          {
            class: "tag warn",
            title: "The file stated no times; they were reconstructed from the number of rows",
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
