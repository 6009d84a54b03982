// Estimates as dots with their intervals on a line from 0 to 100 %, one line a group.
import type { Est } from "./contract";
import type { Data } from "./data";
import { h } from "./dom";
import { sentence } from "./estimate";
import { known, percent } from "./format";

export interface DotSeries {
  name: string;
  colour: string;
  estimates: (Est | undefined)[];
  /** Episodes of the series; the n of a line is shown where it is another. */
  n?: number;
  href?: (row: number) => string;
}

/** A block of rows; each row has one line per series. `style` "bar" fills from 0, for shares that add up. */
export function dotRows(
  data: Data,
  labels: { text: string; title?: string }[],
  series: DotSeries[],
  style: "dot" | "bar" = "dot",
): HTMLElement {
  return h(
    "div",
    { class: `dots ${style}` },
    labels.map((label, row) =>
      h(
        "div",
        { class: "dots-row" },
        h("div", { class: "dots-label", title: label.title ?? label.text }, label.text),
        h(
          "div",
          { class: "dots-lines" },
          series.map((one) => line(data, label.text, one, row, style)),
        ),
      ),
    ),
    h(
      "div",
      { class: "dots-axis", "aria-hidden": "true" },
      h("span", {}, "0"),
      h("span", {}, "50"),
      h("span", {}, "100 %"),
    ),
  );
}

function line(data: Data, label: string, series: DotSeries, row: number, style: string): HTMLElement {
  const estimate = series.estimates[row];
  const track = h("div", { class: "track" });
  if (!estimate || !known(estimate[0])) {
    track.append(h("span", { class: "track-none" }, estimate ? `n ${estimate[3]}` : "–"));
    return h("div", { class: "dots-line" }, track, h("span", { class: "dots-value" }, "–"));
  }
  const [value, lo, hi, n] = estimate;
  const text = sentence(data, `${series.name}, ${label}`, estimate, { percent: true });
  if (style === "bar") track.append(placed(h("i", { class: "fill" }), 0, value, series.colour));
  if (known(lo) && known(hi)) track.append(placed(h("i", { class: "whisker" }), lo, hi, series.colour));
  track.append(placed(h("i", { class: "dot" }), value, value, series.colour));
  const content = [
    track,
    h("span", { class: "dots-value" }, percent(value, 0), n !== series.n && h("small", {}, ` n ${n}`)),
  ];
  const attributes = {
    class: "dots-line",
    title: text,
    "data-series": series.name,
    "data-row": label,
    "data-value": value,
    "data-lo": lo,
    "data-hi": hi,
    "data-n": n,
  };
  return series.href
    ? h("a", { ...attributes, href: series.href(row) }, content)
    : h("div", { ...attributes, role: "img", "aria-label": text }, content);
}

function placed(mark: HTMLElement, from: number, to: number, colour: string): HTMLElement {
  const clip = (x: number): number => Math.min(1, Math.max(0, x));
  mark.style.left = `${100 * clip(from)}%`;
  mark.style.width = from === to ? "" : `${100 * (clip(to) - clip(from))}%`;
  mark.style.setProperty("--colour", colour);
  return mark;
}

/** Which colour is which, and how many episodes it stands for. */
export function legend(series: { name: string; colour: string; count?: string }[]): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    series.map(({ name, colour, count }) => {
      const mark = h("i", {});
      mark.style.background = colour;
      return h("li", {}, mark, name, count !== undefined && h("small", { class: "muted" }, ` ${count}`));
    }),
  );
}
