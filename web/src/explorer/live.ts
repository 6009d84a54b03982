// The metrics of the prefix up to the cursor, in every revision, and the milestones reached.
import type { Revision } from "../contract";
import type { Curve } from "../data";
import { sampleAt, trend } from "../curve";
import { h } from "../dom";
import { percent } from "../format";
import { LiveOpd } from "../opd";
import type { JudgeCurve } from "./judge-curves";
import type { DoneRule } from "../opd-robust";

const ROWS: [string, string][] = [
  ["MP", "highest progress"],
  ["PPL", "directness of the path, higher is better"],
  ["CRA", "mean drop below the best so far, lower is better"],
  ["STR", "share without progress, lower is better"],
  ["MC", "furthest milestone reached"],
];
const MILESTONES: [string, number][] = [
  ["MC25", 0.25],
  ["MC50", 0.5],
  ["MC75", 0.75],
  ["MC100", 1],
];
const TRENDS = { rise: "▲ rising", fall: "▼ falling", stall: "■ stalled", unknown: "unknown" };

export interface LivePanel {
  element: HTMLElement;
  /** Update for the frame on screen at this time, with this progress. */
  at: (time: number, progress: number) => void;
}

/** `judge` is the one whose curve is measured; it is named where it is not the chosen one. */
export function livePanel(
  judge: JudgeCurve,
  done: DoneRule,
  revisions: Revision[],
  main: Revision,
  named: boolean,
): LivePanel {
  const { curve } = judge;
  if (!curve)
    return {
      element: h("div", { class: "live" }, h("p", { class: "empty" }, "No judge on this page gives it a curve.")),
      at: () => {},
    };
  const opd = new LiveOpd(curve.progress, curve.times, done);
  const now = h("output", { class: "now" });
  const chip = h("span", { class: "chip" });
  const cells = ROWS.map(([name]) =>
    revisions.map((revision) =>
      h("td", {
        class: revision === main ? "num main" : "num",
        "data-metric": name,
        "data-revision": revision,
      }),
    ),
  );
  const pips = MILESTONES.map(([name, level]) => h("li", { "data-milestone": name }, `${100 * level}`, h("small", {})));
  const element = h(
    "div",
    { class: "live" },
    h("div", { class: "live-head" }, now, chip),
    h("p", { class: "live-name muted" }, named ? `progress at the cursor, by ${judge.name}` : "progress at the cursor"),
    h("ol", { class: "milestones", "aria-label": "Milestones reached so far, in percent" }, pips),
    h(
      "table",
      { class: "live-table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "so far"),
          revisions.map((revision) => h("th", { scope: "col", class: "num" }, revision)),
        ),
      ),
      h(
        "tbody",
        {},
        ROWS.map(([name, text], i) =>
          h("tr", {}, h("th", { scope: "row", title: text }, h("abbr", { title: text }, name)), cells[i]),
        ),
      ),
    ),
  );
  const reachedAt = MILESTONES.map(([, level]) =>
    level < 1 ? curve.progress.findIndex((p) => p >= level) : opd.finishedAt(main),
  ).map((i) => curve.times[i]);

  function at(time: number, progress: number): void {
    const i = sampleAt(curve!.times, time);
    now.textContent = Number.isFinite(progress) ? `${percent(progress)} %` : i < 0 ? "no value yet" : "unknown";
    now.classList.toggle("none", !Number.isFinite(progress));
    const way = i < 0 ? "unknown" : trendNear(curve!, i);
    chip.textContent = i < 0 ? `first at ${curve!.times[0].toFixed(1)} s` : TRENDS[way];
    chip.className = `chip ${way}`;
    ROWS.forEach(([name], row) =>
      revisions.forEach((revision, column) => {
        const value = i < 0 ? NaN : opd.value(revision, name, i);
        const cell = cells[row][column];
        cell.textContent = percent(value);
        cell.dataset.value = Number.isFinite(value) ? String(value) : "";
      }),
    );
    pips.forEach((pip, k) => {
      const lit = reachedAt[k] !== undefined && reachedAt[k] <= time + 1e-6;
      pip.classList.toggle("lit", lit);
      pip.querySelector("small")!.textContent = lit ? `${reachedAt[k].toFixed(1)} s` : "";
    });
  }
  return { element, at };
}

/** The trend of the segment at the cursor, or of the last one. */
function trendNear({ times, progress }: Curve, i: number): "rise" | "fall" | "stall" | "unknown" {
  return i + 1 < times.length ? trend(progress[i], progress[i + 1]) : trend(progress[i - 1], progress[i]);
}
