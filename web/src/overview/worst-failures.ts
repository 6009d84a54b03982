// The failures to look at first: a frame, what happened, a small curve; each opens the explorer at that frame.
import type { Context } from "../app";
import type { Findings } from "../contract";
import type { Curve, Item } from "../data";
import { h, s } from "../dom";
import { clockOf, judgeCurves } from "../explorer/judge-curves";
import { verdictsOf } from "../explorer/list/selection";
import { known } from "../format";
import { colourVariable, displayName, distinct } from "../names";
import { textAt } from "../packed";
import { routeHash } from "../route";
import { worstTime } from "../worst";

type Failure = Findings["worst"][number];

const HEIGHT = 42; // of a small curve, in pixels

export function failureSection(context: Context): HTMLElement | null {
  const { board } = context;
  const { worst } = board.findings;
  if (!worst.length) return null;
  const [{ source }] = worst;
  return h(
    "section",
    { class: "failures" },
    h("h2", {}, "Worst failures"),
    h(
      "p",
      { class: "muted" },
      `Failures by ${source === "label" ? "label" : "the judge"}, spread over policies and tasks. Each opens the explorer${board.baseline ? "" : " at that time"}. `,
      h("a", { href: routeHash("explorer", [], { judge: board.id, success: `${source}0` }) }, "All failures"),
    ),
    h(
      "ul",
      { class: "cards" },
      worst.map((failure) => h("li", {}, card(context, failure))),
    ),
  );
}

function card(context: Context, failure: Failure): HTMLElement {
  const { data, board } = context;
  const item = { run: failure.run, row: data.runs[failure.run].rowOf(failure.episode), episode: failure.episode };
  // The curve of a judge that looks at no frame shows nothing of the failure.
  const curve = board.baseline ? undefined : data.runs[item.run].curve(item.row);
  const worst = curve && worstTime(curve.times, curve.progress);
  const policy = data.policy(item.episode);
  const policies = distinct(board.overall.map((group) => group.policy));
  const clock = clockOf(data.videos(item.episode), judgeCurves(context, item), data.duration(item.episode));
  const frame = worst ? clock.at(worst.time) : clock.frames - 1;
  const task = data.task(item.episode) ?? textAt(data.page.episodes.instruction, item.episode) ?? "";
  const image = data.page.posters[failure.poster];
  const link = h(
    "a",
    {
      class: "failure",
      href: routeHash("explorer", [data.page.runs[item.run].id, data.key(item.episode), frame]),
      "data-episode": data.page.episodes.id[item.episode],
      "data-time": worst?.time,
    },
    image !== undefined && h("img", { src: `data:image/jpeg;base64,${image}`, alt: "", loading: "lazy" }),
    h(
      "span",
      { class: "what" },
      h("b", {}, displayName(policy)),
      ` · ${unbroken(worst?.text ?? missed(context, item, failure.source))}`,
    ),
    curve && smallCurve(curve, worst?.time ?? NaN),
    h("span", { class: "task", title: task }, task),
  );
  link.style.setProperty("--colour", colourVariable(policies.indexOf(policy)));
  return link;
}

/** A number stays on one line with its unit. */
function unbroken(text: string): string {
  return text.replace(/(\d) (s|%)/g, "$1\u00a0$2");
}

/** Without a curve: the first subgoal that is missed, by label or by judge. */
function missed({ data }: Context, item: Item, source: "label" | "judge"): string {
  for (const by of ["label", "judge"] as const) {
    const failed = verdictsOf(data, item, by).find(([, answer]) => answer !== "yes");
    if (failed?.[1] === "no") return `misses “${failed[0]}”`;
  }
  return `fails, by ${source}`;
}

/** Progress from 0 to 1 over the episode, with a dot at a time. */
function smallCurve({ times, progress }: Curve, at: number): HTMLElement {
  const span = times[times.length - 1] - times[0] || 1;
  const x = (time: number): number => (100 * (time - times[0])) / span;
  const y = (value: number): number => HEIGHT - 3 - (HEIGHT - 6) * value;
  let path = "";
  progress.forEach((value, i) => {
    if (!known(value)) return;
    path += `${i > 0 && known(progress[i - 1]) ? "L" : "M"}${x(times[i]).toFixed(2)} ${y(value).toFixed(2)}`;
  });
  const box = h(
    "span",
    { class: "small-curve", "aria-hidden": "true" },
    s(
      "svg",
      { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT },
      s("path", { d: path, "vector-effect": "non-scaling-stroke" }),
    ),
  );
  const i = times.indexOf(at);
  if (i >= 0) {
    const mark = h("i", {});
    mark.style.left = `${x(at)}%`;
    mark.style.top = `${y(progress[i])}px`;
    box.append(mark);
  }
  return box;
}
