// Curves of many episodes in one plot, with their median and quartiles.
import type { Context } from "./app";
import type { Item } from "./data";
import { choice, css, fill, h, segmented } from "./dom";
import { meets, CONDITIONS } from "./conditions";
import { interpolate } from "./curve-events";
import { plural } from "./format";
import { colourVariable, distinct, packName, displayName, unpackName } from "./names";
import { routeHash } from "./route";

const MAX_CURVES = 150; // single curves drawn in one panel; the median is over all
const GRID = 60; // intervals of the time axis for the median

interface PlottedCurve {
  item: Item;
  times: Float64Array;
  values: Float64Array;
  length: number;
}

export interface Overlay {
  element: HTMLElement;
  repaint: () => void;
  close: () => void;
}

export function overlay(context: Context): Overlay {
  const { data, board } = context;
  const items = data.counted(board).filter(({ run, row }) => data.runs[run].sampled(row));
  const tasks = distinct(items.map(({ episode }) => data.task(episode)));
  const policies = distinct(board.overall.map((group) => group.policy));
  const state = { task: tasks.length > 1 ? packName(tasks[0]) : "", success: "", axis: "share" };
  const controls = h("div", { class: "controls" });
  const grid = h("div", { class: "overlays" });
  let painters: (() => void)[] = [];
  const resize = new ResizeObserver(() => painters.forEach((paint) => paint()));
  resize.observe(grid);

  function draw(): void {
    fill(
      controls,
      choice(
        "Task",
        [["", "All"], ...tasks.map((t): [string, string] => [packName(t), displayName(t)])],
        state.task,
        (task) => {
          state.task = task;
          draw();
        },
      ),
      choice(
        "Success",
        CONDITIONS.map(({ key, text }): [string, string] => [key, text]),
        state.success,
        (success) => {
          state.success = success;
          draw();
        },
      ),
      segmented(
        "Time",
        [
          ["share", "Share of the episode"],
          ["seconds", "Seconds"],
        ],
        state.axis,
        (axis) => {
          state.axis = axis;
          draw();
        },
      ),
    );
    const task = unpackName(state.task);
    const chosen = items.filter(
      (item) => (task === undefined || data.task(item.episode) === task) && meets(data, item, state.success),
    );
    const panels = policies.map((policy, i) =>
      panel(
        context,
        policy,
        colourVariable(i),
        chosen.filter(({ episode }) => data.policy(episode) === policy),
        state.axis === "share",
      ),
    );
    fill(
      grid,
      panels.map(({ element }) => element),
    );
    painters = panels.map(({ paint }) => paint);
    painters.forEach((paint) => paint());
  }
  draw();
  return {
    element: h(
      "section",
      {},
      h("h2", {}, "Curves"),
      h(
        "p",
        { class: "muted" },
        data.page.paged ? `Of ${plural(items.length, "episode")} spread over all. ` : "",
        "Each line is an episode; the thick line is their median, the band the middle half. Click a line to open its episode.",
      ),
      controls,
      grid,
    ),
    repaint: () => painters.forEach((paint) => paint()),
    close: () => resize.disconnect(),
  };
}

function panel(
  context: Context,
  policy: string | null,
  colour: string,
  items: Item[],
  share: boolean,
): { element: HTMLElement; paint: () => void } {
  const { data } = context;
  const curves = items.flatMap((item): PlottedCurve[] => {
    const curve = data.runs[item.run].curve(item.row);
    if (!curve) return [];
    const duration = data.duration(item.episode);
    const length = Number.isFinite(duration) ? duration : curve.times[curve.times.length - 1];
    return [
      {
        item,
        times: share ? curve.times.map((t) => t / length) : curve.times,
        values: curve.progress,
        length,
      },
    ];
  });
  const end = share ? 1 : Math.max(1e-9, ...curves.map(({ length }) => length));
  const band = quartiles(curves, end);
  const every = Math.max(1, Math.ceil(curves.length / MAX_CURVES));
  const single = curves.filter((_, i) => i % every === 0);
  const canvas = h("canvas", {
    role: "img",
    "aria-label": `Progress of ${plural(curves.length, "episode")} of ${displayName(policy)}; median at the end ${Math.round(100 * (band.middle.findLast(Number.isFinite) ?? NaN))} %`,
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const nearest = nearestCurve(
      single,
      ((event.clientX - box.left) / box.width) * end,
      1 - (event.clientY - box.top) / box.height,
    );
    if (nearest)
      location.hash = routeHash("explorer", [data.page.runs[nearest.item.run].id, data.key(nearest.item.episode)]);
  });
  const counted =
    single.length < curves.length
      ? `${single.length} of ${plural(curves.length, "episode")} drawn`
      : plural(curves.length, "episode");
  return {
    element: h(
      "figure",
      { class: "overlay" },
      h("figcaption", {}, h("strong", {}, displayName(policy)), h("span", { class: "muted" }, counted)),
      h("div", { class: "overlay-plot" }, canvas),
      h(
        "div",
        { class: "overlay-axis", "aria-hidden": "true" },
        h("span", {}, "0"),
        h("span", {}, share ? "100 % of the episode" : `${end.toFixed(1)} s`),
      ),
    ),
    paint: () => paint(canvas, single, band, end, colour),
  };
}

/** Quartiles of the known values on an even grid of time. */
function quartiles(curves: PlottedCurve[], end: number): { low: number[]; middle: number[]; high: number[] } {
  const columns = Array.from({ length: GRID + 1 }, (_, j) =>
    curves
      .map((curve) => interpolate(curve, (end * j) / GRID))
      .filter(Number.isFinite)
      .sort((a, b) => a - b),
  );
  // A quartile of very few episodes is one of them, and does not describe the rest.
  const enough = Math.max(1, curves.length * 0.25);
  const at = (share: number): number[] =>
    columns.map((values) => (values.length >= enough ? quantile(values, share) : NaN));
  return { low: at(0.25), middle: at(0.5), high: at(0.75) };
}

function quantile(sorted: number[], share: number): number {
  if (!sorted.length) return NaN;
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

function nearestCurve(curves: PlottedCurve[], time: number, value: number): PlottedCurve | null {
  let best: PlottedCurve | null = null;
  let least = 0.06;
  for (const curve of curves) {
    const distance = Math.abs(interpolate(curve, time) - value);
    if (distance < least) [best, least] = [curve, distance];
  }
  return best;
}

function paint(
  canvas: HTMLCanvasElement,
  curves: PlottedCurve[],
  band: { low: number[]; middle: number[]; high: number[] },
  end: number,
  variable: string,
): void {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const ctx = canvas.getContext("2d")!;
  ctx.scale(devicePixelRatio, devicePixelRatio);
  const colour = css(variable.slice(4, -1));
  const x = (time: number): number => (time / end) * width;
  const y = (value: number): number => (1 - value) * (height - 2) + 1;
  ctx.strokeStyle = css("--line");
  for (const q of [0, 0.25, 0.5, 0.75, 1])
    stroke(ctx, [
      [0, y(q)],
      [width, y(q)],
    ]);
  ctx.strokeStyle = colour;
  ctx.globalAlpha = Math.max(0.06, Math.min(0.45, 6 / Math.max(1, curves.length)));
  for (const { times, values } of curves)
    stroke(
      ctx,
      Array.from(times, (t, i) => [x(t), y(values[i])]),
    );
  const along = (values: number[]): number[][] => values.map((v, j) => [(j / GRID) * width, y(v)]);
  ctx.globalAlpha = 0.18;
  ctx.fillStyle = colour;
  const rim = [...along(band.high), ...along(band.low).reverse()].filter(([, v]) => Number.isFinite(v));
  ctx.beginPath();
  rim.forEach(([a, b], i) => (i ? ctx.lineTo(a, b) : ctx.moveTo(a, b)));
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.lineWidth = 2.5;
  stroke(ctx, along(band.middle));
}

/** A line through the points, broken where one is unknown. */
function stroke(ctx: CanvasRenderingContext2D, points: number[][]): void {
  ctx.beginPath();
  let on = false;
  for (const [a, b] of points) {
    if (!Number.isFinite(b)) on = false;
    else if (on) ctx.lineTo(a, b);
    else {
      ctx.moveTo(a, b);
      on = true;
    }
  }
  ctx.stroke();
}
