// Events of a curve worth jumping to: drops, stalls, disagreement between judges.
import { sampleAt, STILL } from "./curve";

export interface CurveEvent {
  from: number;
  to: number;
  /** How deep the drop is, how long the stall lasts, how far apart the judges are. */
  size: number;
  text: string;
}

interface Samples {
  times: ArrayLike<number>;
  values: ArrayLike<number>;
}

const pct = (x: number): string => `${Math.round(100 * x)} %`;
const sec = (x: number): string => `${x.toFixed(1)} s`;

/** The deepest fall below the best value so far; null if the curve never falls. */
export function largestDrop({ times, values }: Samples): CurveEvent | null {
  let peak = -1;
  let found: [number, number] | null = null;
  let deepest = 0;
  for (let i = 0; i < values.length; i += 1) {
    if (!Number.isFinite(values[i])) continue;
    if (peak < 0 || values[i] >= values[peak]) peak = i;
    if (values[peak] - values[i] > deepest) {
      deepest = values[peak] - values[i];
      found = [peak, i];
    }
  }
  if (!found || deepest < STILL) return null;
  const [a, b] = found;
  return {
    from: times[a],
    to: times[b],
    size: deepest,
    text: `Largest drop: ${pct(values[a])} at ${sec(times[a])} to ${pct(values[b])} at ${sec(times[b])}`,
  };
}

/** The longest time in which no step reaches .005; null without such a step. */
export function longestStall({ times, values }: Samples): CurveEvent | null {
  let best: [number, number] | null = null;
  let begin = 0;
  for (let i = 1; i < values.length; i += 1) {
    const still = Math.abs(values[i] - values[i - 1]) < STILL - 0.5e-9;
    if (!still) begin = i;
    else if (!best || times[i] - times[begin] > times[best[1]] - times[best[0]]) best = [begin, i];
  }
  if (!best) return null;
  const [a, b] = best;
  return {
    from: times[a],
    to: times[b],
    size: times[b] - times[a],
    text: `Longest stall: ${sec(times[b] - times[a])} at ${pct(values[a])}, from ${sec(times[a])}`,
  };
}

/** The time at which the judges' curves differ most; null with fewer than two. */
export function largestDisagreement(curves: (Samples & { name: string })[]): CurveEvent | null {
  let best: CurveEvent | null = null;
  let widest = 0;
  for (const time of curves.flatMap(({ times }) => Array.from(times))) {
    const known = curves
      .map((curve) => ({ name: curve.name, value: interpolate(curve, time) }))
      .filter(({ value }) => Number.isFinite(value));
    if (known.length < 2) continue;
    const high = known.reduce((a, b) => (b.value > a.value ? b : a));
    const low = known.reduce((a, b) => (b.value < a.value ? b : a));
    if (high.value - low.value > widest) {
      widest = high.value - low.value;
      best = {
        from: time,
        to: time,
        size: widest,
        text: `Largest disagreement at ${sec(time)}: ${high.name} ${pct(high.value)}, ${low.name} ${pct(low.value)}`,
      };
    }
  }
  return best;
}

/** The curve interpolated between its samples; NaN outside them and next to unknown ones. */
export function interpolate({ times, values }: Samples, time: number): number {
  const i = sampleAt(times, time);
  if (i < 0 || (i === times.length - 1 && time > times[i] + 1e-6)) return NaN;
  if (i === times.length - 1 || Math.abs(time - times[i]) <= 1e-6) return values[i];
  const share = (time - times[i]) / (times[i + 1] - times[i]);
  return values[i] + share * (values[i + 1] - values[i]);
}
