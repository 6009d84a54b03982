// Recorded numbers over time: a lane for each dimension, on the time axis of the curve above and with the same cursor.
import type { FrameClock } from "../../clock";
import { interpolate } from "../../curve-events";
import { h, s } from "../../dom";
import { fixed, NONE } from "../../format";
import { colourVariable } from "../../names";
import { seekByDragging, type Seeking } from "../../seek-by-dragging";

export interface TraceLine {
  /** The lane it belongs to. */
  lane: string;
  name: string;
  colour: number;
  times: ArrayLike<number>;
  values: ArrayLike<number>;
}

interface Lane {
  lines: { line: TraceLine; now: HTMLElement; digits: number }[];
}

const HEIGHT = 100; // units of a lane's drawing, which is stretched to its size on screen
const MARGIN = 6;

export class TraceLanes {
  readonly element = h("div", { class: "trace-lanes" });
  private readonly clock: FrameClock;
  private readonly cursor = h("div", { class: "trace-cursor" });
  private readonly axis = h("div", { class: "trace-axis" });
  private lanes: Lane[] = [];
  private time = 0;

  constructor(seeking: Seeking) {
    this.clock = seeking.clock;
    this.axis.append(this.cursor);
    seekByDragging(this.element, () => this.axis.getBoundingClientRect(), seeking);
  }

  /** Draw these lines, those of one lane together. */
  show(lines: TraceLine[]): void {
    const byLane = new Map<string, TraceLine[]>();
    for (const line of lines) byLane.set(line.lane, [...(byLane.get(line.lane) ?? []), line]);
    this.lanes = [];
    this.element.replaceChildren(
      ...[...byLane].map(([title, own]) => {
        const { element, lane } = draw(title, own, this.clock.duration);
        this.lanes.push(lane);
        return element;
      }),
      this.axis,
    );
    this.at(this.time);
  }

  /** Move the cursor to a time. */
  at(time: number): void {
    this.time = time;
    this.cursor.style.left = `${(100 * time) / this.clock.duration}%`;
    for (const { lines } of this.lanes)
      for (const { line, now, digits } of lines) {
        const value = interpolate(line, Math.min(time, line.times[line.times.length - 1]));
        now.textContent = Number.isFinite(value) ? fixed(value, digits) : NONE;
      }
  }
}

function draw(title: string, lines: TraceLine[], duration: number): { element: HTMLElement; lane: Lane } {
  const [low, high] = limits(lines);
  const digits = decimals(high - low);
  const read = lines.map((line) => ({
    line,
    digits,
    now: h("output", { "aria-label": `${line.name} at the cursor` }),
  }));
  const known = Number.isFinite(low);
  const words = known ? `${fixed(low, digits)} to ${fixed(high, digits)}` : "no known value";
  return {
    lane: { lines: read },
    element: h(
      "div",
      { class: "trace-lane", "data-lane": title },
      h(
        "div",
        { class: "trace-range", "aria-hidden": "true" },
        known && [h("span", {}, fixed(high, digits)), h("span", {}, fixed(low, digits))],
      ),
      s(
        "svg",
        {
          viewBox: `0 0 1000 ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": `${title}: ${lines.map(({ name }) => name).join(" and ")}, ${words}`,
        },
        lines.map((line) => path(line, duration, low, high)),
      ),
      h(
        "p",
        { class: "trace-title" },
        h("b", { dir: "auto" }, title),
        read.map(({ line, now }) => {
          const mark = h("i", {});
          mark.style.setProperty("--colour", colourVariable(line.colour));
          return h("span", { title: line.name }, mark, now);
        }),
      ),
    ),
  };
}

/** A line broken where a value is unknown; a value between two unknown ones is a dot. */
function path({ times, values, colour, name }: TraceLine, duration: number, low: number, high: number): SVGElement {
  const x = (time: number): string => ((1000 * time) / duration).toFixed(1);
  const y = (value: number): string =>
    (high > low ? HEIGHT - MARGIN - ((value - low) / (high - low)) * (HEIGHT - 2 * MARGIN) : HEIGHT / 2).toFixed(1);
  let text = "";
  for (let i = 0; i < times.length; i += 1) {
    if (!Number.isFinite(values[i])) continue;
    const begins = i === 0 || !Number.isFinite(values[i - 1]);
    text += `${begins ? "M" : "L"}${x(times[i])} ${y(values[i])}`;
    if (begins && !Number.isFinite(values[i + 1] ?? NaN)) text += "h0";
  }
  const drawn = s("path", { d: text, "data-line": name });
  drawn.style.stroke = colourVariable(colour);
  return drawn;
}

function limits(lines: TraceLine[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { values } of lines)
    for (let i = 0; i < values.length; i += 1)
      if (Number.isFinite(values[i])) [low, high] = [Math.min(low, values[i]), Math.max(high, values[i])];
  return [low, high];
}

/** Decimals that tell values of this range apart. */
function decimals(range: number): number {
  if (!Number.isFinite(range) || range <= 0) return 2;
  return Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(range))));
}
