// The heading of an episode: id, instruction, policy, task and outcome, each said in words.
import type { Context } from "../app";
import type { Item } from "../data";
import { h } from "../dom";
import { textAt } from "../packed";
import { changeOf } from "./change";
import { failed, outcome, outcomesOf } from "./list/outcome";

export function episodeHead(
  context: Context,
  item: Item,
  inferred: boolean,
  compareWith: HTMLElement | null,
): HTMLElement {
  const { data } = context;
  const { episodes } = data.page;
  const { label, judge } = outcomesOf(data, item);
  const policy = data.policy(item.episode);
  const task = data.task(item.episode);
  const error = data.runs[item.run].error(item.row);
  return h(
    "div",
    { class: "episode-head" },
    h("h1", { dir: "auto" }, episodes.id[item.episode]),
    h("p", { class: "instruction", dir: "auto" }, textAt(episodes.instruction, item.episode) ?? ""),
    h(
      "div",
      { class: "tags" },
      changeOf(data, item.episode),
      tag(policy === null ? "policy not stated" : `policy: ${policy}`),
      task === null
        ? tag("task not stated")
        : task !== textAt(episodes.instruction, item.episode) && tag(`task: ${task}`),
      tag(`label: ${WORDS[label]}`, label),
      tag(`judge: ${WORDS[judge]}`, judge),
      failureTag(context, item),
      inferred &&
        h(
          "span",
          {
            class: "tag warn",
            title: "The file has no timestamps; they were inferred from the number of rows",
          },
          "times inferred",
        ),
      compareWith,
    ),
    error && h("p", { class: "warning", role: "note" }, error),
  );
}

const WORDS = { yes: "success", no: "failure", unknown: "not known" };

function tag(text: string, kind: ReturnType<typeof outcome> | "" = "", title = ""): HTMLElement {
  return h("span", { class: `tag ${kind}`, dir: "auto", title: title || null }, text);
}

/** What happened, in the words of the failure modes; a success in good time needs none. */
function failureTag({ data, board }: Context, item: Item): HTMLElement | null {
  const mode = data.runs[item.run].failureMode(item.row);
  const rule = data.page.failure_mode_rules.find(({ name }) => name === mode);
  const title = rule ? `${rule.name}: ${rule.when}. ${rule.advice}` : "";
  if (mode === null || board.baseline) return null;
  if (mode === "unknown") {
    const curve = data.runs[item.run].points(item.row) > 0;
    return failed(data, item)
      ? tag(curve ? "why it fails: curve not known well enough" : "why it fails: no curve by this judge", "", title)
      : null;
  }
  return mode === "none" ? null : tag(mode, "", title);
}
