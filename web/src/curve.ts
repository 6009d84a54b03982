// Curves over time with a cursor that is also a handle: press or drag anywhere to seek.
import uPlot from "uplot";
import { css, h } from "./dom";
import { percent } from "./format";
import { seekByDragging, type Seeking } from "./seek-by-dragging";

export interface Line {
  name: string;
  colour: string;
  times: ArrayLike<number>;
  values: ArrayLike<number>;
  /** "trend": followed by the cursor, what has been played coloured by its trend; "own": the same in its own
   *  colour; "truth": dashed; "plain" by default. */
  kind?: "trend" | "own" | "truth" | "plain";
}

export const AXIS = 46; // pixels for the labels at the left; the lanes below have the same margin
export const STILL = 0.005; // a smaller change is a stall, as in STR

const SLACK = 1e-6;

export type Trend = "rise" | "fall" | "stall" | "unknown";

export function trend(from: number, to: number): Trend {
  if (!Number.isFinite(from) || !Number.isFinite(to)) return "unknown";
  const step = to - from;
  if (Math.abs(step) < STILL - 0.5e-9) return "stall";
  return step > 0 ? "rise" : "fall";
}

/** Index of the last sample at or before `time`; -1 before the first. */
export function sampleAt(times: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time + SLACK) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Whether the cursor follows a line. */
function followed({ kind }: Line): boolean {
  return kind === "trend" || kind === "own";
}

export class CurvePlot {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private lines: Line[] = [];
  private range: [number, number] = [0, 1];
  private frame = 0;
  private mark: [number, number] | null = null;
  private readonly resize: ResizeObserver;
  private readonly cursor = h("div", { class: "cursor" });
  private dots: HTMLElement[] = [];

  constructor(private readonly options: Seeking) {
    this.element = h("div", {
      class: "curve",
      role: "slider",
      tabindex: 0,
      "aria-label": "Position in the episode",
      "aria-valuemin": 0,
      "aria-valuemax": options.clock.frames - 1,
      "aria-orientation": "horizontal",
    });
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.element);
    seekByDragging(this.element, () => this.plot?.over.getBoundingClientRect() ?? null, options);
  }

  /** Draw these lines. */
  show(lines: Line[], range: [number, number] = [0, 1]): void {
    this.lines = lines;
    this.dots = lines.filter(followed).map((line) => {
      const dot = h("div", { class: "cursor-dot" });
      if (line.kind === "own") dot.style.borderColor = line.colour;
      return dot;
    });
    this.mark = null;
    this.range = range;
    this.plot?.destroy();
    this.plot = null;
    this.fit();
  }

  /** Move the cursor to a frame. */
  at(frame: number): void {
    this.frame = frame;
    this.plot?.redraw(false, false);
    const { clock } = this.options;
    const value = this.valueAt(clock.time(frame));
    this.element.setAttribute("aria-valuenow", String(frame));
    this.element.setAttribute(
      "aria-valuetext",
      `frame ${frame} of ${clock.frames}, ${clock.time(frame).toFixed(2)} seconds, progress ${percent(value)} %`,
    );
  }

  /** Shade an interval of time until other lines are drawn. */
  shade(from: number, to: number): void {
    this.mark = [from, to];
    this.plot?.redraw(false, false);
  }

  redraw(): void {
    this.plot?.redraw(false, true);
  }

  close(): void {
    this.resize.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  /** Progress of a line between its samples, by default the first; NaN before them and next to unknown ones. */
  valueAt(time: number, line: Line | undefined = this.lines[0]): number {
    if (!line?.times.length) return NaN;
    const i = sampleAt(line.times, time);
    if (i < 0) return NaN;
    if (i >= line.times.length - 1) return line.values[line.times.length - 1];
    const share = (time - line.times[i]) / (line.times[i + 1] - line.times[i]);
    return share === 0 ? line.values[i] : line.values[i] + share * (line.values[i + 1] - line.values[i]);
  }

  private fit(): void {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    if (width < 60 || height < 40) return;
    if (this.plot) this.plot.setSize({ width, height });
    else this.build(width, height);
  }

  private build(width: number, height: number): void {
    const tables = this.lines.map((line): uPlot.AlignedData => [
      Array.from(line.times),
      Array.from(line.values, (v) => (Number.isFinite(v) ? v : null)),
    ]);
    const data = tables.length ? uPlot.join(tables) : ([[0, this.options.clock.duration]] as uPlot.AlignedData);
    const faint = () => css("--line");
    const text = () => css("--muted");
    const font = `11px ${css("--font")}`;
    this.plot = new uPlot(
      {
        width,
        height,
        padding: [8, 12, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: () => [0, this.options.clock.duration] },
          y: { range: () => this.range },
        },
        axes: [
          {
            stroke: text,
            font,
            size: 26,
            gap: 4,
            space: 64,
            grid: { stroke: faint, width: 1 },
            ticks: { stroke: faint, size: 4 },
            values: (_u, ticks) => ticks.map((t) => `${+t.toFixed(2)} s`),
          },
          {
            stroke: text,
            font,
            size: AXIS,
            gap: 6,
            space: 30,
            grid: { stroke: faint, width: 1 },
            ticks: { show: false },
            values: (_u, ticks) =>
              ticks.map((t) => (this.isShare() ? `${Math.round(100 * t)} %` : String(+t.toFixed(3)))),
          },
        ],
        series: [
          {},
          ...this.lines.map((line): uPlot.Series => ({
            label: line.name,
            stroke: () => line.colour,
            width: line.kind === "truth" || followed(line) ? 1.5 : 1.25,
            dash: followed(line) ? [3, 3] : line.kind === "truth" ? [9, 5] : undefined,
            points: { show: line.times.length < 2 },
            spanGaps: false,
          })),
        ],
        hooks: { drawClear: [(u) => this.shaded(u)], draw: [(u) => this.played(u)] },
      },
      data,
      this.element,
    );
    this.plot.over.append(this.cursor, ...this.dots);
    this.played(this.plot);
  }

  private isShare(): boolean {
    return this.range[0] === 0 && this.range[1] === 1;
  }

  private shaded(u: uPlot): void {
    if (!this.mark) return;
    const [left, right] = this.mark.map((time) => u.valToPos(time, "x", true));
    u.ctx.fillStyle = css("--shade");
    u.ctx.fillRect(left - 2, u.bbox.top, Math.max(right - left, 1) + 4, u.bbox.height);
  }

  /** What has been played of the lines that the cursor follows, and the cursor itself. */
  private played(u: uPlot): void {
    const now = this.options.clock.time(this.frame);
    const x = u.valToPos(now, "x");
    this.cursor.style.transform = `translateX(${x}px)`;
    this.lines.filter(followed).forEach((line, i) => {
      this.colourPlayed(u, line, now);
      const value = this.valueAt(now, line);
      const end = Math.min(now, line.times[line.times.length - 1]);
      const dot = this.dots[i];
      dot.style.visibility = Number.isFinite(value) ? "visible" : "hidden";
      if (Number.isFinite(value))
        dot.style.transform = `translate(${line.kind === "own" ? u.valToPos(end, "x") : x}px, ${u.valToPos(value, "y")}px)`;
    });
  }

  private colourPlayed(u: uPlot, line: Line, now: number): void {
    const trends = { rise: css("--rise"), fall: css("--fall"), stall: css("--stall") };
    const { ctx } = u;
    ctx.save();
    ctx.setLineDash([]);
    ctx.lineCap = "round";
    ctx.lineWidth = 3 * devicePixelRatio;
    for (let i = 1; i < line.times.length && line.times[i - 1] < now; i += 1) {
      const way = trend(line.values[i - 1], line.values[i]);
      if (way === "unknown") continue;
      const share = Math.min(1, (now - line.times[i - 1]) / (line.times[i] - line.times[i - 1]));
      const end = line.times[i - 1] + share * (line.times[i] - line.times[i - 1]);
      const value = line.values[i - 1] + share * (line.values[i] - line.values[i - 1]);
      ctx.strokeStyle = line.kind === "own" ? line.colour : trends[way];
      ctx.beginPath();
      ctx.moveTo(u.valToPos(line.times[i - 1], "x", true), u.valToPos(line.values[i - 1], "y", true));
      ctx.lineTo(u.valToPos(end, "x", true), u.valToPos(value, "y", true));
      ctx.stroke();
    }
    ctx.restore();
  }
}
