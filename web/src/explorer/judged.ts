// An episode under every judge, and the clock that all of it runs by.
import type { Context } from "../app";
import { FrameClock } from "../clock";
import type { Line } from "../curve";
import type { Curve, FilmRow, Item } from "../data";

const OVERLAID = 4; // curves shown unasked
const COLOURS = [0, 3, 6, 4, 7]; // of the palette, those that are not taken for rise, fall or stall

export interface Judged {
  item: Item;
  name: string;
  colour: number;
  curve: Curve | null;
  visible: boolean;
}

/** The episode under the chosen run, then under every other run that judged it. */
export function everyJudge({ data }: Context, item: Item): Judged[] {
  const others = data.runs.flatMap((run, i) =>
    i !== item.run && run.rowOf(item.episode) >= 0
      ? [{ run: i, row: run.rowOf(item.episode), episode: item.episode }]
      : [],
  );
  return [item, ...others].map((one, i) => ({
    item: one,
    colour: COLOURS[i % COLOURS.length],
    curve: data.runs[one.run].curve(one.row),
    visible: i < OVERLAID,
    name: data.page.boards[data.page.runs[one.run].board].label,
  }));
}

/** Time of the main view; without a video, each sample of the curve is a frame. */
export function clockOf(films: FilmRow[], judges: Judged[], duration: number): FrameClock {
  const main =
    films.find((film) => film.src !== null && film.frames > 0) ?? films.find((film) => film.frames > 0 && film.fps > 0);
  if (main) return new FrameClock(main.frames, main.fps, main.times);
  const curve = judges.find((judge) => judge.curve)?.curve;
  if (curve) return new FrameClock(curve.times.length, curve.times.length / Math.max(duration || 1, 1e-3), curve.times);
  return new FrameClock(1, 1 / (duration || 1));
}

export function spread(lines: Line[]): [number, number] {
  const values = lines.flatMap((line) => Array.from(line.values)).filter(Number.isFinite);
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - margin, high + margin];
}
