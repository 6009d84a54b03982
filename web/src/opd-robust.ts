// PPL, CRA and STR of time rather than of samples, as stepscore.metrics.opd.robust defines them.

const GRID = 100;
const REACH = 2;
const FALL = 0.06;
const SUSTAIN = 10;
const SPIKE = 0.04;
const SHALLOW = 0.01;
const PAUSES: [number, number][] = [
  [4, 0.0],
  [8, 0.01],
];
const MOVING = 0.02;

const DONE_PROBABILITY = 0.5;
const UNDONE_PROBABILITY = 0.4;
const UNDONE_DROP = 0.05;

/** When a curve counts as done: by its success probability where it has one, else by progress from `at` on. */
export interface DoneRule {
  at: number;
  probability: ArrayLike<number> | null;
}

/** For each sample: whether some sample so far was done, and the sample that CRA and STR are measured up to. */
export interface Completion {
  reached: boolean[];
  end: number[];
  /** Samples before the first one of unknown probability. */
  known: number;
}

/** As stepscore.metrics.opd.completion finds it. */
export function completion(progress: number[], rule: DoneRule): Completion {
  const values = rule.probability ? Array.from(rule.probability) : progress;
  const [from, under] = rule.probability ? [DONE_PROBABILITY, UNDONE_PROBABILITY] : [rule.at, rule.at - UNDONE_DROP];
  let ever = false;
  let start = -1; // of the done stretch, if there is one now
  const reached: boolean[] = [];
  const end = values.map((value, i) => {
    if (value < under) start = -1;
    if (value >= from) {
      ever = true;
      if (start < 0) start = i;
    }
    reached.push(ever);
    return start < 0 ? i : start;
  });
  const unknown = rule.probability ? values.findIndex((value) => !Number.isFinite(value)) : -1;
  return { reached, end, known: unknown < 0 ? values.length : unknown };
}

/** Uncut PPL, CRA and STR of the first `end` + 1 samples of a known curve in 0..1; one sample has no duration: NaN. */
export function robustPrefix(curve: number[], times: number[], end: number): Record<"PPL" | "CRA" | "STR", number> {
  if (end < 1) return { PPL: NaN, CRA: NaN, STR: NaN };
  const integral = integralOf(curve, times, end);
  const level = Array.from({ length: GRID + 1 }, (_, j) => windowMean(integral, j - REACH, j + REACH));
  const final = level[GRID];
  const straight = final + 2 * fall(level);
  return { PPL: final ** 2 / (straight > 0 ? straight : 1), CRA: regret(integral), STR: stillness(level) };
}

/** Integral from the start to each of 101 instants, with time in hundredths of the prefix's duration. */
function integralOf(curve: number[], times: number[], end: number): number[] {
  const duration = times[end] - times[0];
  let segment = 0;
  let area = 0; // up to the segment's first sample
  return Array.from({ length: GRID + 1 }, (_, j) => {
    const instant = times[0] + (duration * j) / GRID;
    // A prefix must not use anything beyond its last sample, not even by rounding.
    while (segment < end - 1 && times[segment + 1] <= instant) {
      area += ((curve[segment + 1] + curve[segment]) / 2) * (times[segment + 1] - times[segment]);
      segment += 1;
    }
    const into = instant - times[segment];
    const slope = (curve[segment + 1] - curve[segment]) / (times[segment + 1] - times[segment]);
    return (area + into * (curve[segment] + (slope * into) / 2)) * (GRID / duration);
  });
}

function windowMean(integral: number[], first: number, last: number): number {
  const from = Math.max(first, 0);
  const to = Math.min(last, GRID);
  return (integral[to] - integral[from]) / (to - from);
}

/** Total fall of the laziest curve within .03 of the level, started at its lower edge. */
function fall(level: number[]): number {
  let lazy = level[0] - FALL / 2;
  let total = 0;
  for (const q of level.slice(1)) {
    const next = Math.min(Math.max(lazy, q - FALL / 2), q + FALL / 2);
    total += Math.max(lazy - next, 0);
    lazy = next;
  }
  return total;
}

function regret(integral: number[]): number {
  let peak = -Infinity;
  let total = 0;
  for (let k = 1; k <= GRID; k += 1) {
    const mean = integral[k] - integral[k - 1];
    peak = Math.max(peak, Math.min(mean, windowMean(integral, k - SUSTAIN, k) + SPIKE));
    total += Math.max(peak - mean - SHALLOW, 0);
  }
  return total / GRID;
}

function stillness(level: number[]): number {
  let total = 0;
  for (const [length, fully] of PAUSES) {
    const still: number[] = [];
    for (let j = 0; j + length <= GRID; j += 1) {
      const window = level.slice(j, j + length + 1);
      const moved = Math.max(...window) - Math.min(...window);
      still.push(Math.min(1, Math.max(0, (MOVING - moved) / (MOVING - fully))));
    }
    // The stillest window that holds each hundredth.
    for (let k = 0; k < GRID; k += 1) {
      let most = 0;
      for (let j = Math.max(0, k - length + 1); j <= Math.min(k, still.length - 1); j += 1)
        most = Math.max(most, still[j]);
      total += most;
    }
  }
  return total / PAUSES.length / GRID;
}
