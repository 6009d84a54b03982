// The list of episodes: id, group, success by label and judge, and the value it is sorted by.
import type { Context } from "../app";
import type { Item } from "../data";
import { h } from "../dom";
import { number } from "../estimate";
import { VirtualList } from "../list";
import { displayName } from "../names";
import type { Filter } from "./selection";

/** The arguments are functions because their values change with the filter. */
export function episodeList(
  context: () => Context,
  items: () => Item[],
  filter: () => Filter,
  choose: (i: number) => void,
): VirtualList {
  return new VirtualList({
    label: "Episodes",
    rowHeight: 46,
    choose,
    draw: (i) => {
      const { data } = context();
      const { run, row, episode } = items()[i];
      const metric = data.metric(filter().sort) ?? data.metric("MP");
      const label = data.page.episodes.success[episode];
      const judge = data.runs[run].value("success_judge", row);
      const side =
        filter().sort === "duration"
          ? `${data.duration(episode).toFixed(1)} s`
          : metric
            ? number(data.runs[run].value(metric.name, row), metric)
            : "";
      return h(
        "div",
        { class: data.runs[run].error(row) ? "failed" : "", "data-episode": data.page.episodes.id[episode] },
        h("span", { class: "row-id", dir: "auto" }, data.page.episodes.id[episode]),
        h("span", { class: "row-side", title: metric?.label ?? "" }, side),
        h(
          "span",
          { class: "row-sub", dir: "auto" },
          `${displayName(data.policy(episode))} · ${displayName(data.task(episode))}`.slice(0, 120),
        ),
        h("span", { class: "row-marks" }, mark(label, "label"), mark(judge, "judge")),
      );
    },
  });
}

function mark(value: number, source: string): HTMLElement {
  const [sign, word] = value === 1 ? ["✓", "success"] : value === 0 ? ["✗", "failure"] : ["?", "unknown"];
  return h(
    "span",
    {
      class: `mark ${value === 1 ? "yes" : value === 0 ? "no" : "unknown"}`,
      title: `${source}: ${word}`,
      "aria-label": `${source}: ${word}`,
    },
    sign,
    h("small", {}, source[0]),
  );
}
