// What stands behind a judgement: reasons, the exact prompts and answers, final numbers, the episode itself.
import type { Context } from "../app";
import type { CallRow, FilmRow, Item } from "../data";
import { fill, h } from "../dom";
import { number } from "../estimate";
import { decimal, known, NONE, percent, plural, seconds } from "../format";
import { shown } from "../names";
import { word } from "../packed";

const CALLS_SHOWN = 20;

export interface Details {
  element: HTMLElement;
  /** Show the reason that a judge gave for a subgoal. */
  reason: (judge: string, subgoal: string) => void;
}

/** `items` are the same episode under every judge, the chosen one first. */
export function details(context: Context, items: Item[], films: FilmRow[]): Details {
  const tabs: [string, string, () => HTMLElement][] = [
    ["verdicts", "Verdicts", () => verdictTable(context, items)],
    ["prompts", "Prompts and answers", () => calls(context, items)],
    ["numbers", "Numbers", () => numbers(context, items)],
    ["episode", "Episode", () => facts(context, items[0], films)],
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
    reason: (judge, subgoal) => {
      open("verdicts");
      for (const row of body.querySelectorAll<HTMLElement>("tr[data-subgoal]")) {
        const here = row.dataset.subgoal === subgoal && row.dataset.judge === judge;
        row.classList.toggle("told", here);
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
  if (!rows.length) return h("p", { class: "empty" }, "No judge of this page gave verdicts on this episode.");
  return h(
    "div",
    { class: "scroll" },
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
    const list = h("div", {}, rows.slice(0, CALLS_SHOWN).map(callBlock));
    if (rows.length > CALLS_SHOWN) {
      const more = h(
        "button",
        {
          type: "button",
          onclick: () => {
            more.remove();
            list.append(...rows.slice(CALLS_SHOWN).map((row, i) => callBlock(row, i + CALLS_SHOWN)));
          },
        },
        `Show ${rows.length - CALLS_SHOWN} more`,
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
          `The calls of ${plural(left, "episode")} are left out of this page for its size; they stand in ${data.page.runs[item.run].path}/calls.parquet.`,
        ),
      list,
    );
  });
  return blocks.some(Boolean)
    ? h("div", {}, blocks)
    : h("p", { class: "empty" }, "No model was asked about this episode.");
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
    h("pre", { class: "prompt", dir: "auto" }, call.prompt || NONE),
    call.frames !== "" && [h("h5", {}, "Frames"), h("pre", {}, call.frames)],
    h("h5", {}, "Answer"),
    h("pre", { class: "answer", dir: "auto" }, call.answer || NONE),
  );
}

/** Final metrics of the episode under every judge, as in `stepscore metrics --show episodes`. */
function numbers(context: Context, items: Item[]): HTMLElement {
  const { data } = context;
  const metrics = data.page.metrics.filter(({ name }) =>
    items.some(({ run, row }) => Number.isFinite(data.runs[run].value(name, row))),
  );
  if (!metrics.length) return h("p", { class: "empty" }, "Nothing could be measured.");
  return h(
    "div",
    { class: "scroll" },
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
          items.map((item) => h("th", { scope: "col", class: "num" }, judgeName(context, item))),
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

function facts(context: Context, item: Item, films: FilmRow[]): HTMLElement {
  const { data } = context;
  const { episodes } = data.page;
  const { episode } = item;
  const run = data.runs[item.run];
  const success: Record<number, string> = { 1: "success", 0: "failure" };
  const score = run.successScore(item.row);
  const print = run.fingerprint(item.row);
  const rule = data.page.rules.find(({ name }) => name === print);
  const pairs: [string, string | null][] = [
    ["Instruction", word(episodes.instruction, episode)],
    ["Episode", episodes.id[episode]],
    ["Source", word(episodes.source, episode)],
    ["Task", data.task(episode)],
    ["Policy", shown(data.policy(episode))],
    ["Robot", word(episodes.robot, episode)],
    ["Dataset", word(episodes.dataset, episode)],
    ["Scene", word(episodes.pair, episode)],
    ["Duration", seconds(data.duration(episode))],
    [
      "Label",
      `${success[episodes.success[episode]] ?? "unknown"}${word(episodes.success_mode, episode) ? `, ${word(episodes.success_mode, episode)}` : ""}`,
    ],
    ["Judge's success score", known(score) ? `${percent(score)} %` : null],
    [
      "Fingerprint",
      print === null ? null : `${print}${rule?.when ? `: ${rule.when}` : ""}${rule?.advice ? `. ${rule.advice}` : ""}`,
    ],
    [
      "Videos",
      films
        .map(
          (film) =>
            `${film.view}: ${plural(film.frames, "frame")} at ${film.fps} a second${film.codec ? `, ${film.codec}` : ""}`,
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
