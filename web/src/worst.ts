// The time to look at in an episode's curve, as stepscore.analysis.worst_time finds it: its largest drop, the start of its
// longest stall, or its end. tests/web/test_overview.py holds the two equal.
import { fixed } from "./format";

export interface WorstTime {
  kind: "undone" | "stalls" | "ends";
  /** Seconds: the lowest point of the drop, the start of the stall, or the last known sample. */
  time: number;
  text: string;
}

const DROP = 0.1; // fall below the best so far from which work counts as undone
const GAIN = 0.05; // rise of the best so far up to which a curve stalls
const STALL_SHARE = 0.33; // share of the time from which a stall is what went wrong

const rounded = (x: number): number => Math.round(x * 1e6) / 1e6;

/** Null where fewer than two samples are known. */
export function worstTime(allTimes: ArrayLike<number>, progress: ArrayLike<number>): WorstTime | null {
  const times: number[] = [];
  const values: number[] = [];
  for (let i = 0; i < progress.length; i += 1) {
    if (!Number.isFinite(progress[i])) continue;
    times.push(allTimes[i]);
    values.push(rounded(progress[i]));
  }
  const last = values.length - 1;
  if (last < 1) return null;
  const best: number[] = [];
  let lowest = 0;
  let deepest = 0;
  values.forEach((value, i) => {
    best.push(i ? Math.max(best[i - 1], value) : value);
    const fall = rounded(best[i] - value);
    if (fall > deepest) [lowest, deepest] = [i, fall];
  });
  if (deepest >= DROP) return { kind: "undone", time: times[lowest], text: `undone at ${evenly(times[lowest], 1)} s` };
  let start = 0;
  let longest = 0;
  let end = 0; // the last sample whose best so far is within the gain; it only moves forward
  for (let i = 0; i <= last; i += 1) {
    const most = rounded(best[i] + GAIN);
    while (end < last && best[end + 1] <= most) end += 1;
    const span = rounded(times[end] - times[i]);
    if (span > longest) [start, longest] = [i, span];
  }
  if (longest / (times[last] - times[0]) >= STALL_SHARE) {
    const text = start === 0 ? "stalls from the start" : `stalls at ${evenly(times[start], 1)} s`;
    return { kind: "stalls", time: times[start], text };
  }
  return { kind: "ends", time: times[last], text: `ends at ${share(values[last])}` };
}

/** Whole percent; one decimal where rounding would claim all or nothing. */
function share(value: number): string {
  const whole = evenly(100 * value, 0);
  const exact = value === 0 || value === 1 || (whole !== "0" && whole !== "100");
  return `${exact ? whole : evenly(100 * value, 1)} %`;
}

/** Rounded as Python rounds: of 2.25, which is as near to 2.2 as to 2.3, the even one. */
function evenly(x: number, digits: number): string {
  const scaled = x * 10 ** digits;
  // Only a multiple of such a power of two can be a tie; 0.35 is not stored exactly.
  const tie = Number.isInteger(x * 2 ** (digits + 1)) && scaled - Math.floor(scaled) === 0.5;
  return fixed(tie ? (2 * Math.round(scaled / 2)) / 10 ** digits : x, digits);
}
