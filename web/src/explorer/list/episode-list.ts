// The list of episodes: id, group, success by label and judge in words, and a number with its name.
import type { Context } from "../../app";
import type { Data, Item } from "../../data";
import { h } from "../../dom";
import { number } from "../../estimate";
import { known, percent, seconds } from "../../format";
import { VirtualList } from "../../list";
import { displayName } from "../../names";
import { outcomeMarks, outcomesOf } from "./outcome";
import type { Filter } from "./selection";
import { sharedParts, shortId, type SharedParts } from "./short-id";

export const ID_ROOM = 24; // characters of an id

export interface ListState {
  context: () => Context;
  items: () => Item[];
  filter: () => Filter;
  /** Whether an episode is shown beside the chosen one. */
  compared: (item: Item) => boolean;
}

/** The state is functions because its values change with the filter. */
export function episodeList(state: ListState, choose: (i: number, event: MouseEvent | null) => void): VirtualList {
  return new VirtualList({
    label: "Episodes",
    rowHeight: 68,
    several: true,
    choose,
    marked: (i) => state.compared(state.items()[i]),
    draw: (i) => {
      const { data } = state.context();
      const item = state.items()[i];
      const { run, row, episode } = item;
      const id = data.page.episodes.id[episode];
      return h(
        "div",
        { class: data.runs[run].error(row) ? "failed" : "", "data-episode": id },
        h(
          "span",
          { class: "row-first" },
          h("span", { class: "row-id", dir: "auto", title: id }, shortId(id, shared(data), ID_ROOM)),
          sideNumber(data, item, state.filter().sort),
        ),
        h(
          "span",
          { class: "row-sub", dir: "auto" },
          `${displayName(data.policy(episode))} · ${displayName(data.task(episode))}`.slice(0, 120),
        ),
        h("span", { class: "row-marks" }, outcomeMarks(outcomesOf(data, item))),
      );
    },
  });
}

const parts = new WeakMap<Data, SharedParts>();

/** What the ids of all episodes of the page share. */
export function shared(data: Data): SharedParts {
  let found = parts.get(data);
  if (!found) parts.set(data, (found = sharedParts(data.page.episodes.id)));
  return found;
}

/** The value that the list is sorted by, or where progress ends; always with its name. */
function sideNumber(data: Data, { run, row, episode }: Item, sort: string): HTMLElement | null {
  const metric = data.metric(sort);
  if (sort === "duration") return named("lasts", seconds(data.duration(episode)), "");
  if (metric) return named(metric.label, number(data.runs[run].value(sort, row), metric), metric.summary);
  const last = data.runs[run].lastProgress(row);
  if (known(last)) return named("ends at", `${percent(last, 0)} %`, "Progress at the end, by the judge");
  const verdicts = data.runs[run].verdicts(row);
  if (!verdicts.length) return null;
  const reached = verdicts.filter(({ answer }) => answer === "yes").length;
  return named("reaches", `${reached} of ${verdicts.length}`, "Subgoals that the judge says were reached");
}

function named(name: string, value: string, title: string): HTMLElement {
  return h("span", { class: "row-number", title }, `${name} `, h("span", { class: "row-side" }, value));
}
