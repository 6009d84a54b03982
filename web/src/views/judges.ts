// The board of judges: what each is worth on one benchmark and what it costs, trivial ones apart, others' figures apart.
import "../styles/overview.css";
import "../styles/judges.css";
import type { Context, View } from "../app";
import type { JudgeBoard, JudgeRow } from "../contract";
import { fill, h } from "../dom";
import { estimateCell } from "../estimate";
import { count, known, NONE, plural, seconds } from "../format";
import { paretoPlot, tokensOf } from "../judges/pareto";
import { distinct } from "../names";

export function judges({ data }: Context): View {
  const board = data.page.judge_board!;
  let sort = board.metrics.some(({ name }) => name === board.front) ? board.front : (board.metrics[0]?.name ?? "");
  let reversed = false;
  const place = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Judges" });

  function valueOf(row: JudgeRow): number {
    if (sort === "tokens") return tokensOf(row) ?? NaN;
    if (sort === "seconds") return row.cost.seconds_per_episode ?? NaN;
    return row.estimates[sort]?.[0] ?? NaN;
  }

  /** Best first; unknown last; trivial judges after the others whatever they have. */
  function ordered(): JudgeRow[] {
    const lower =
      sort === "tokens" || sort === "seconds" || board.metrics.some((m) => m.name === sort && m.better === "lower");
    const sign = lower === reversed ? -1 : 1;
    const known = (x: number): number => (Number.isFinite(x) ? 0 : 1);
    return [...board.rows].sort(
      (a, b) =>
        Number(a.trivial) - Number(b.trivial) ||
        known(valueOf(a)) - known(valueOf(b)) ||
        sign * ((valueOf(a) || 0) - (valueOf(b) || 0)),
    );
  }

  function head(name: string, title: string, lower: boolean): HTMLElement {
    return h(
      "th",
      {
        scope: "col",
        class: name === sort ? "num sorted" : "num",
        "aria-sort": name === sort ? (lower === reversed ? "descending" : "ascending") : null,
      },
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            reversed = name === sort ? !reversed : false;
            sort = name;
            draw();
            place.querySelector<HTMLElement>("th.sorted button")?.focus();
          },
        },
        `${title} ${lower ? "↓" : "↑"}`,
      ),
    );
  }

  function draw(): void {
    fill(
      place,
      h(
        "table",
        { class: "numbers judges-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Judge"),
            board.metrics.map(({ name, title, better }) => head(name, title, better === "lower")),
            head("tokens", "tokens a video", true),
            head("seconds", "seconds an episode", true),
          ),
        ),
        h("tbody", {}, ordered().map(rowOf)),
      ),
    );
  }

  function rowOf(row: JudgeRow): HTMLElement {
    const tokens = tokensOf(row);
    return h(
      "tr",
      { class: row.trivial ? "baseline" : "", "data-judge": row.label },
      h(
        "th",
        {
          scope: "row",
          dir: "auto",
          title: [row.judge, row.model, ...row.options, row.protocol_hash].filter(Boolean).join(" "),
        },
        row.label,
        row.pareto && h("span", { class: "tag yes" }, "on the front"),
        row.trivial && h("span", { class: "tag" }, "trivial"),
        row.claimed_by !== null && h("span", { class: "tag warn" }, `claimed by ${row.claimed_by}`),
        row.reason !== null && h("small", { class: "reason" }, row.reason),
      ),
      board.metrics.map((metric) =>
        estimateCell(data, `${row.label}, ${metric.title}`, row.estimates[metric.name], metric, null, {
          marked: metric.name === sort,
        }),
      ),
      h("td", { class: "num" }, known(tokens) ? count(Math.round(tokens)) : NONE),
      h("td", { class: "num" }, known(row.cost.seconds_per_episode) ? seconds(row.cost.seconds_per_episode) : NONE),
    );
  }

  draw();
  const plot = paretoPlot(data, board);
  return {
    element: h(
      "div",
      { class: "stack" },
      opening(board),
      h(
        "section",
        {},
        h("h2", {}, "Judges"),
        h(
          "p",
          { class: "muted" },
          "Every number with its 95 % interval; percent where it is a share. Press a heading to sort; trivial judges come last.",
        ),
        place,
      ),
      plot,
      published(board),
    ),
  };
}

function opening({ benchmark, rows }: JudgeBoard): HTMLElement {
  const measured = rows.filter(({ reason }) => reason === null).length;
  const facts = [
    plural(benchmark.episodes, "episode"),
    plural(benchmark.tasks, "task"),
    benchmark.seed !== null && `seed ${benchmark.seed}`,
    `data ${benchmark.fingerprint}`,
  ].filter(Boolean);
  return h(
    "section",
    { class: "intro headline" },
    h("h1", { dir: "auto" }, `${plural(measured, "judge")} on ${benchmark.name}`),
    benchmark.description && h("p", { class: "limits", dir: "auto" }, benchmark.description),
    h("p", { class: "muted facts" }, facts.join(" · ")),
  );
}

/** Figures of others, which are never in one table with what was measured here. */
function published({ published: rows }: JudgeBoard): HTMLElement | null {
  if (!rows.length) return null;
  const names = distinct(rows.flatMap(({ values }) => Object.keys(values)));
  return h(
    "section",
    { class: "published" },
    h("h2", {}, "Published figures, measured by others on other data"),
    distinct(rows.map(({ source, note }) => `${source}. ${note}`)).map((text) =>
      h("p", { class: "muted", dir: "auto" }, text),
    ),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "Published figures" },
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Judge"),
            names.map((name) => h("th", { scope: "col", class: "num" }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map(({ label, values }) =>
            h(
              "tr",
              {},
              h("th", { scope: "row", dir: "auto" }, label),
              names.map((name) => h("td", { class: "num" }, values[name] ?? NONE)),
            ),
          ),
        ),
      ),
    ),
  );
}
