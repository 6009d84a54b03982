// The details of an episode: verdicts with reasons, exact prompts and answers, final metrics, metadata.
import type { Context } from "../app";
import type { CallRow, VideoRow, Item } from "../data";
import { fill, h } from "../dom";
import { number } from "../estimate";
import { decimal, known, NONE, percent, plural, seconds } from "../format";
import { displayName } from "../names";
import { textAt } from "../packed";

const CALLS_PER_PAGE = 20;

export interface Details {
  element: HTMLElement;
  /** Highlight the reason that a judge gave for a subgoal. */
  showReason: (judge: string, subgoal: string) => void;
}

/** `items` are the same episode under every judge, the chosen one first. */
export function details(context: Context, items: Item[], videos: VideoRow[]): Details {
  const tabs: [string, string, () => HTMLElement][] = [
    ["verdicts", "Verdicts", () => verdictTable(context, items)],
    ["prompts", "Prompts and answers", () => calls(context, items)],
    ["numbers", "Numbers", () => numbers(context, items, (item) => judgeName(context, item))],
    ["episode", "Episode", () => metadata(context, items[0], videos)],
  ];
  const hasVerdicts = items.some(({ run, row }) => context.data.runs[run].verdicts(row).length);
  const body = h("div", { class: "tab-body", role: "tabpanel", id: "tab-body" });
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Details of the episode" });
  function open(name: string): void {
    fill(
      bar,
      tabs.map(([key, text]) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${key}`,
            "aria-controls": "tab-body",
            "aria-selected": String(key === name),
            onclick: () => open(key),
          },
          text,
        ),
      ),
    );
    body.setAttribute("aria-labelledby", `tab-${name}`);
    fill(body, tabs.find(([key]) => key === name)![2]());
  }
  open(hasVerdicts ? "verdicts" : "numbers");
  return {
    element: h("section", { class: "details" }, bar, body),
    showReason: (judge, subgoal) => {
      open("verdicts");
      for (const row of body.querySelectorAll<HTMLElement>("tr[data-subgoal]")) {
        const here = row.dataset.subgoal === subgoal && row.dataset.judge === judge;
        row.classList.toggle("highlighted", here);
        if (here) row.scrollIntoView({ block: "nearest" });
      }
    },
  };
}

function judgeName({ data }: Context, { run }: Item): string {
  return data.page.boards[data.page.runs[run].board].label;
}

function verdictTable(context: Context, items: Item[]): HTMLElement {
  const { data } = context;
  const rows = items.flatMap((item) =>
    data.runs[item.run]
      .verdicts(item.row)
      .map((verdict) =>
        h(
          "tr",
          { "data-subgoal": verdict.subgoal, "data-judge": judgeName(context, item) },
          h("td", {}, verdict.subgoal),
          h("td", { class: verdict.answer }, verdict.answer),
          h("td", { class: "num" }, decimal(verdict.score)),
          h("td", { class: "num" }, known(verdict.whenS) ? seconds(verdict.whenS) : NONE),
          h("td", {}, judgeName(context, item)),
          h("td", { class: "why", dir: "auto" }, verdict.why || NONE),
        ),
      ),
  );
  if (!rows.length) return h("p", { class: "empty" }, "No judge on this page gave verdicts for this episode.");
  return h(
    "div",
    { class: "scroll", tabindex: 0 },
    h(
      "table",
      { class: "plain" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Subgoal", "Verdict", "Score", "When", "Judge", "Reason"].map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

function calls(context: Context, items: Item[]): HTMLElement {
  const { data } = context;
  const blocks = items.map((item) => {
    const rows = data.runs[item.run].calls(item.row);
    const left = data.runs[item.run].callsLeftOut;
    if (!rows.length && !left) return null;
    const list = h("div", {}, rows.slice(0, CALLS_PER_PAGE).map(callBlock));
    if (rows.length > CALLS_PER_PAGE) {
      const more = h(
        "button",
        {
          type: "button",
          onclick: () => {
            more.remove();
            list.append(...rows.slice(CALLS_PER_PAGE).map((row, i) => callBlock(row, i + CALLS_PER_PAGE)));
          },
        },
        `Show ${rows.length - CALLS_PER_PAGE} more`,
      );
      list.append(more);
    }
    return h(
      "div",
      {},
      h("h4", {}, `${judgeName(context, item)}, ${plural(rows.length, "call")}`),
      left > 0 &&
        h(
          "p",
          { class: "muted" },
          `The calls of ${plural(left, "episode")} are not on this page because of its size; they are in ${data.page.runs[item.run].path}/calls.parquet.`,
        ),
      list,
    );
  });
  return blocks.some(Boolean)
    ? h("div", {}, blocks)
    : h("p", { class: "empty" }, "No model was called for this episode.");
}

function callBlock(call: CallRow, i: number): HTMLElement {
  return h(
    "details",
    { class: "call", open: i === 0 },
    h(
      "summary",
      {},
      `${i + 1}. ${call.kind}`,
      call.frames && h("span", { class: "muted" }, ` ${call.frames.slice(0, 90)}`),
    ),
    h("h5", {}, "Prompt"),
    h("pre", { class: "prompt", dir: "auto", tabindex: 0 }, call.prompt || NONE),
    call.frames !== "" && [h("h5", {}, "Frames"), h("pre", { tabindex: 0 }, call.frames)],
    h("h5", {}, "Answer"),
    h("pre", { class: "answer", dir: "auto", tabindex: 0 }, call.answer || NONE),
  );
}

/** Final metrics of each item, as in `stepscore metrics --show episodes`; `name` is the head of its column. */
export function numbers(context: Context, items: Item[], name: (item: Item) => string): HTMLElement {
  const { data } = context;
  // The player has the duration.
  const metrics = data.page.metrics.filter(
    ({ name }) =>
      name !== "duration_s" && items.some(({ run, row }) => Number.isFinite(data.runs[run].value(name, row))),
  );
  if (!metrics.length) return h("p", { class: "empty" }, "No metric has a value.");
  return h(
    "div",
    { class: "scroll", tabindex: 0 },
    h(
      "table",
      { class: "plain" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, `Whole episode, ${data.page.revision}`),
          items.map((item) => h("th", { scope: "col", class: "num" }, name(item))),
        ),
      ),
      h(
        "tbody",
        {},
        metrics.map((metric) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", title: metric.summary }, metric.label),
            items.map(({ run, row }) => {
              const value = data.runs[run].value(metric.name, row);
              const text = metric.kind === "rate" && known(value) ? (value ? "yes" : "no") : number(value, metric);
              return h(
                "td",
                {
                  class: "num",
                  "data-metric": metric.name,
                  "data-run": data.page.runs[run].id,
                  "data-value": Number.isFinite(value) ? value : "",
                },
                text,
              );
            }),
          ),
        ),
      ),
    ),
  );
}

function metadata(context: Context, item: Item, videos: VideoRow[]): HTMLElement {
  const { data } = context;
  const { episodes } = data.page;
  const { episode } = item;
  const run = data.runs[item.run];
  const success: Record<number, string> = { 1: "success", 0: "failure" };
  const score = run.successScore(item.row);
  const mode = run.failureMode(item.row);
  const rule = data.page.failure_mode_rules.find(({ name }) => name === mode);
  const pairs: [string, string | null][] = [
    ["Instruction", textAt(episodes.instruction, episode)],
    ["Episode", episodes.id[episode]],
    ["Source", textAt(episodes.source, episode)],
    ["Task", data.task(episode)],
    ["Policy", displayName(data.policy(episode))],
    ["Robot", textAt(episodes.robot, episode)],
    ["Dataset", textAt(episodes.dataset, episode)],
    ["Scene", textAt(episodes.pair, episode)],
    ["Duration", seconds(data.duration(episode))],
    [
      "Label",
      `${success[episodes.success[episode]] ?? "unknown"}${textAt(episodes.success_mode, episode) ? `, ${textAt(episodes.success_mode, episode)}` : ""}`,
    ],
    ["Judge's success score", known(score) ? `${percent(score)} %` : null],
    [
      "What happened",
      mode === null || mode === "none"
        ? null
        : `${mode}${rule?.when ? `: ${rule.when}` : ""}${rule?.advice ? `. ${rule.advice}` : ""}`,
    ],
    [
      "Videos",
      videos
        .map(
          (video) =>
            `${video.view}: ${plural(video.frames, "frame")} at ${video.fps} fps${video.codec ? `, ${video.codec}` : ""}`,
        )
        .join("; ") || null,
    ],
    ["Error", run.error(item.row)],
  ];
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value)
      .flatMap(([name, value]) => [
        h("dt", {}, name),
        h("dd", { dir: "auto", class: name === "Error" ? "bad" : "" }, value),
      ]),
  );
}
