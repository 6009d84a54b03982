// The curves of one episode by every judge, and the clock of its frames.
import type { Context } from "../app";
import { FrameClock } from "../clock";
import type { Line } from "../curve";
import type { Curve, VideoRow, Item } from "../data";

const VISIBLE_AT_FIRST = 4; // curves
const COLOURS = [0, 3, 6, 4, 7]; // of the palette, those not used for rise, fall or stall

export interface JudgeCurve {
  item: Item;
  name: string;
  colour: number;
  curve: Curve | null;
  visible: boolean;
}

/** The episode in the chosen run, then in every other run that judged it. */
export function judgeCurves({ data }: Context, item: Item): JudgeCurve[] {
  const others = data.runs.flatMap((run, i) =>
    i !== item.run && run.rowOf(item.episode) >= 0
      ? [{ run: i, row: run.rowOf(item.episode), episode: item.episode }]
      : [],
  );
  return [item, ...others].map((one, i) => ({
    item: one,
    colour: COLOURS[i % COLOURS.length],
    curve: data.runs[one.run].curve(one.row),
    visible: i < VISIBLE_AT_FIRST,
    name: data.page.boards[data.page.runs[one.run].board].label,
  }));
}

/** The clock of the main view; without a video, each sample of the curve is a frame. */
export function clockOf(videos: VideoRow[], judges: JudgeCurve[], duration: number): FrameClock {
  const main =
    videos.find((video) => video.src !== null && video.frames > 0) ??
    videos.find((video) => video.frames > 0 && video.fps > 0);
  if (main) return new FrameClock(main.frames, main.fps, main.times);
  const curve = judges.find((judge) => judge.curve)?.curve;
  if (curve) return new FrameClock(curve.times.length, curve.times.length / Math.max(duration || 1, 1e-3), curve.times);
  return new FrameClock(1, 1 / (duration || 1));
}

export function valueRange(lines: Line[]): [number, number] {
  const values = lines.flatMap((line) => Array.from(line.values)).filter(Number.isFinite);
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - margin, high + margin];
}
