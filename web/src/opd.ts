// OPD of every prefix of a curve, as stepscore.metrics.opd computes it; see there for the formulas.
import type { Revision } from "./contract";
import { completion, robustPrefix, type Completion, type DoneRule } from "./opd-robust";

type Prefixes = Record<string, number[]>;

const STILL = 0.005 - 0.5e-9; // |d| < .005 after rounding to nine decimals
const STILL_V15 = 0.005; // as its source compares, without rounding
const NO_PATH = 1e-9;
const NO_DROP = 1e-12;
const DRR_SLACK = 1e-6;
const SUCCESS = 0.99;
const PERCENT = 1.5;

/** The OPD metrics of any prefix of one curve. */
export class LiveOpd {
  private readonly curve: number[];
  private readonly times: number[];
  /** Samples before the first unknown one; no longer prefix has a value. */
  private readonly known: number;
  private readonly published = new Map<Revision, Prefixes>();
  private readonly robust = new Map<number, Record<"PPL" | "CRA" | "STR", number>>();
  private readonly done: Completion;
  private readonly reached: Prefixes; // by the rule of `robust`

  constructor(progress: ArrayLike<number>, times: ArrayLike<number>, rule: DoneRule) {
    this.curve = Array.from(progress);
    this.times = Array.from(times);
    this.done = completion(this.curve, rule);
    this.reached = milestones(this.curve, this.done.reached);
    const unknown = this.curve.findIndex((p) => !Number.isFinite(p));
    this.known = unknown < 0 ? this.curve.length : unknown;
  }

  /** One metric of the first `i` + 1 samples; NaN where one of them is unknown or there are none. */
  value(revision: Revision, name: string, i: number): number {
    if (revision === "robust") return i < this.known ? this.robustValue(name, i) : NaN;
    // The published revisions do not score a sample at time 0.
    const skip = this.times[0] === 0 ? 1 : 0;
    return i < this.known ? (this.prefixes(revision, skip)[name]?.[i - skip] ?? NaN) : NaN;
  }

  private prefixes(revision: Revision, skip: number): Prefixes {
    let found = this.published.get(revision);
    if (!found) {
      const curve = this.curve.slice(skip).map((p) => (Number.isFinite(p) ? p : 0));
      found = revision === "v1.5" ? v15(curve) : plain(curve, revision === "paper" ? 1 : 0);
      this.published.set(revision, found);
    }
    return found;
  }

  /** The first sample at which MC100 holds; -1 if none. */
  finishedAt(revision: Revision): number {
    const full = revision === "robust" ? this.reached.MC100 : this.curve.map((p) => (p >= 1 ? 1 : 0));
    return full.indexOf(1);
  }

  private robustValue(name: string, i: number): number {
    if (i >= this.done.known && ["MC", "MC100", "CRA", "STR"].includes(name)) return NaN;
    if (name === "PPL") return this.uncut(i).PPL;
    if (name === "CRA" || name === "STR") return this.uncut(this.done.end[i])[name];
    return this.reached[name]?.[i] ?? NaN;
  }

  private uncut(i: number): Record<"PPL" | "CRA" | "STR", number> {
    let found = this.robust.get(i);
    if (!found) {
      found = robustPrefix(this.curve, this.times, i);
      this.robust.set(i, found);
    }
    return found;
  }
}

/** MC, MC25..MC100 and MP of the highest progress so far; with `done`, MC100 is MC75 and done so far. */
function milestones(curve: number[], done: boolean[] | null = null): Prefixes {
  let best = -Infinity;
  const highest = curve.map((p) => (best = Math.max(best, p)));
  const reached = (q: number) => highest.map((m) => (m >= q ? 1 : 0));
  const quarters = [reached(0.25), reached(0.5), reached(0.75), reached(1)];
  if (done) quarters[3] = quarters[2].map((q, t) => (q && done[t] ? 1 : 0));
  const furthest = highest.map((_, t) => quarters.reduce((sum, q) => sum + q[t], 0) / 4);
  return {
    MC: furthest,
    MC25: quarters[0],
    MC50: quarters[1],
    MC75: quarters[2],
    MC100: quarters[3],
    MP: highest,
  };
}

/** v1.0; with `extra` = 1 the prepended p_0 counts among the terms of CRA, as in the paper. */
function plain(curve: number[], extra: number): Prefixes {
  const values: Prefixes = { ...milestones(curve), PPL: [], CRA: [], STR: [] };
  let path = 0;
  let regret = 0;
  let still = 0;
  curve.forEach((p, t) => {
    const step = Math.abs(p - (t ? curve[t - 1] : 0));
    path += step;
    regret += Math.max(values.MP[t], 0) - p;
    if (step < STILL) still += 1;
    values.PPL.push((p * p) / Math.max(path, NO_PATH));
    values.CRA.push(regret / (t + 1 + extra));
    values.STR.push(still / (t + 1));
  });
  return values;
}

/** The published code v1.5 without its smoothing, which deletes events. */
function v15(curve: number[]): Prefixes {
  const percent = curve.some((p) => Math.abs(p) > PERCENT);
  const clipped = curve.map((p) => clip(percent ? p / 100 : p));
  const values: Prefixes = { ...milestones(clipped), PPL: [], CRA: [], STR: [], DRR: [], FNS: [], SQS: [] };
  let path = 0,
    regret = 0,
    still = 0,
    drop = 0,
    trough = clipped[0],
    since = clipped[0];
  clipped.forEach((p, t) => {
    const best = values.MP[t];
    const step = Math.abs(p - (t ? clipped[t - 1] : 0));
    path += step;
    regret += best - p;
    if (step < STILL_V15) still += 1;
    if (best - p > drop) [drop, trough, since] = [best - p, p, p];
    else since = Math.max(since, p);
    const ppl = clip((best * best) / Math.max(path, NO_PATH));
    const cra = best > 0 ? regret / (t + 1) / best : 0;
    const stagnation = still / (t + 1);
    const success = best >= SUCCESS;
    values.PPL.push(ppl);
    values.CRA.push(cra);
    values.STR.push(stagnation);
    values.DRR.push(drop <= NO_DROP ? 1 : clip((since - trough + DRR_SLACK) / (drop + DRR_SLACK)));
    values.FNS.push(success ? NaN : 0.5 * best + 0.3 * values.MC75[t] + 0.2 * values.MC50[t]);
    values.SQS.push(success ? clip(0.5 * ppl + 0.3 * (1 - cra) + 0.2 * (1 - stagnation)) : NaN);
  });
  return values;
}

function clip(x: number): number {
  return Math.min(1, Math.max(0, x));
}
