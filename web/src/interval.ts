// Intervals of a mean over independent episodes, as stepscore.metrics.stats computes them: Wilson's for a rate, a
// bootstrap-t for shares, a BCa bootstrap for the rest. The resamples are the page's own, so that the ends differ from
// Python's by their noise.
import type { MetricInfo } from "./contract";

export const RESAMPLES = 1000;
const MIN_EPISODES = 5; // as in stepscore.metrics.stats.intervals
const MANY_UNITS = 1000; // as in stepscore.metrics.stats.large_samples
const Z = 1.959963984540054; // 2.5 % of a normal distribution are above

export interface Interval {
  lo: number | null;
  hi: number | null;
  method: string;
}

export const none = (method: string): Interval => ({ lo: null, hi: null, method });

/** The interval of a mean of known numbers; `draws` are shared by samples of one size. */
export function meanInterval(values: number[], mean: number, kind: MetricInfo["kind"], draws: Draws): Interval {
  const n = values.length;
  if (!n) return none("no known values");
  if (kind === "rate" || values.every((value) => value === 0 || value === 1)) return wilson(mean, n);
  if (n < MIN_EPISODES) return none(`too few episodes (${n} < ${MIN_EPISODES})`);
  const off = values.map((value) => value - mean);
  const scale = largest(values);
  if (largest(off) <= 1e-12 * scale) return none("no variation");
  if (kind === "share" && n < MANY_UNITS && values.every((value) => value >= 0 && value <= 1)) {
    const [lo, hi] = share(off, mean, draws.plain.of(n));
    return { lo, hi, method: `bootstrap-t 95% (${RESAMPLES} resamples on the page) in 0..1` };
  }
  const ends = bca(off, draws.knife.of(n));
  if (!ends) return none("the estimate lies outside its own resamples"); // stored name
  return { lo: mean + ends[0], hi: mean + ends[1], method: `BCa bootstrap 95% (${RESAMPLES} resamples on the page)` };
}

class Places {
  private n = 0;
  private places = new Uint32Array();

  constructor(private readonly knife: boolean) {}

  /** Places in a sample of n, one resample after the other; the same for every sample of this size. */
  of(n: number): Uint32Array {
    if (n === this.n) return this.places;
    const random = seeded();
    this.n = n;
    this.places = new Uint32Array(RESAMPLES * n);
    for (let start = 0; start < this.places.length; start += n) {
      const out = this.knife ? Math.floor(random() * n) : n;
      for (let at = start; at < start + n; at += 1) {
        const drawn = Math.floor(random() * (this.knife ? n - 1 : n));
        this.places[at] = drawn < out ? drawn : drawn + 1;
      }
    }
    return this.places;
  }
}

/** Draws of one size each: plain, and by the bootknife, which leaves one place out of each resample. */
export class Draws {
  readonly plain = new Places(false);
  readonly knife = new Places(true);
}

function wilson(rate: number, n: number): Interval {
  const [lo, hi] = score(rate, n, Z);
  return { lo, hi, method: "wilson 95%" };
}

function score(rate: number, n: number, z: number): [number, number] {
  const q = z ** 2 / n;
  const centre = (rate + q / 2) / (1 + q);
  const half = (z * Math.sqrt((rate * (1 - rate) + q / 4) / n)) / (1 + q);
  return [rate > 0 ? Math.max(0, centre - half) : 0, rate < 1 ? Math.min(1, centre + half) : 1];
}

/** The bootstrap-t, no wider than a rate's interval and no narrower than Wilson's form (stats/shares.py). */
function share(off: number[], mean: number, places: Uint32Array): [number, number] {
  const n = off.length;
  const spread = (n / (n - 1)) * off.reduce((sum, value) => sum + value ** 2, 0);
  const error = Math.sqrt(spread) / n;
  const ratios = new Float64Array(RESAMPLES);
  for (let i = 0, at = 0; i < RESAMPLES; i += 1) {
    let total = 0;
    let squares = 0;
    for (const end = at + n; at < end; at += 1) {
      const value = off[places[at]];
      total += value;
      squares += value ** 2;
    }
    const variance = (n / (n - 1)) * (squares - total ** 2 / n);
    ratios[i] = variance > 1e-12 * spread ? total / Math.sqrt(variance) : total < 0 ? -Infinity : Infinity;
  }
  ratios.sort();
  const k = Math.ceil((RESAMPLES + 1) / 40 - 1e-9) - 1;
  const t = studentQuantile(n - 1);
  const widest = score(mean, n, t);
  const least = score(mean, (mean * (1 - mean)) / error ** 2, t);
  return [
    Math.min(least[0], Math.max(mean - error * ratios[RESAMPLES - k], widest[0])),
    Math.max(least[1], Math.min(mean - error * ratios[k - 1], widest[1])),
  ];
}

/** Ends around the mean of what each value is off by; null if the mean is outside its replicates. */
function bca(off: number[], places: Uint32Array): [number, number] | null {
  const n = off.length;
  const replicates = new Float64Array(RESAMPLES);
  for (let i = 0, at = 0; i < RESAMPLES; i += 1) {
    let sum = 0;
    for (const end = at + n; at < end; at += 1) sum += off[places[at]];
    replicates[i] = sum / n;
  }
  const tolerance = 1e-12 * largest(replicates);
  let below = 0;
  for (const value of replicates) below += value < -tolerance ? 1 : value <= tolerance ? 0.5 : 0;
  const z0 = normalQuantile(below / RESAMPLES);
  if (!Number.isFinite(z0)) return null;
  const [squares, cubes] = [2, 3].map((power) => off.reduce((sum, value) => sum + value ** power, 0));
  const acceleration = cubes / (6 * squares ** 1.5);
  const t = studentQuantile(n - 1);
  replicates.sort();
  const [lo, hi] = [-t, t].map((q) => {
    const shifted = z0 + q;
    const room = 1 - acceleration * shifted;
    return quantile(replicates, room > 0 ? normalShare(z0 + shifted / room) : shifted > 0 ? 1 : 0);
  });
  return [lo, hi];
}

function largest(values: Iterable<number>): number {
  let found = 0;
  for (const value of values) found = Math.max(found, Math.abs(value));
  return found;
}

/** Mulberry32 from a fixed seed: the same episodes always have the same interval. */
function seeded(): () => number {
  let state = 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

/** Share of a normal distribution below z, within 1e-7 (Abramowitz and Stegun 7.1.26). */
function normalShare(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const above = (poly * Math.exp(-x * x)) / 2;
  return z < 0 ? above : 1 - above;
}

/** The inverse of the normal share, within 4.5e-4 (Abramowitz and Stegun 26.2.23), sharpened by Newton's steps. */
function normalQuantile(share: number): number {
  if (share <= 0 || share >= 1) return share <= 0 ? -Infinity : Infinity;
  if (share === 0.5) return 0;
  const t = Math.sqrt(-2 * Math.log(Math.min(share, 1 - share)));
  const top = 2.515517 + t * (0.802853 + t * 0.010328);
  let z = t - top / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  if (share < 0.5) z = -z;
  for (let i = 0; i < 3; i += 1) {
    z -= (normalShare(z) - share) * Math.sqrt(2 * Math.PI) * Math.exp((z * z) / 2);
  }
  return z;
}

/** Student's t with 2.5 % above, within 1e-3 from 4 degrees of freedom on (Abramowitz and Stegun 26.7.5). */
function studentQuantile(df: number): number {
  const [z3, z5, z7, z9] = [3, 5, 7, 9].map((power) => Z ** power);
  return (
    Z +
    (z3 + Z) / (4 * df) +
    (5 * z5 + 16 * z3 + 3 * Z) / (96 * df ** 2) +
    (3 * z7 + 19 * z5 + 17 * z3 - 15 * Z) / (384 * df ** 3) +
    (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * Z) / (92160 * df ** 4)
  );
}
