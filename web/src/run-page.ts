// Some rows of a run, or all of them: curves, verdicts and numbers, decoded on first use. Rows are counted from 0.
import type { PagePart } from "./contract";
import { Numbers, rowsWith, sums, textAt } from "./packed";

export interface VerdictRow {
  subgoal: string;
  answer: "yes" | "no" | "unknown";
  score: number;
  whenS: number;
  why: string;
}

export const ANSWERS = { y: "yes", n: "no", "?": "unknown" } as const;

export class RunPage {
  private readonly columns = new Map<string, Numbers>();
  private starts: Uint32Array | null = null;
  private readonly timeColumn: Numbers;
  private readonly rate: Numbers | null;
  private readonly progressColumn: Numbers;

  constructor(private readonly part: Pick<PagePart, "values" | "curves" | "verdicts">) {
    this.timeColumn = new Numbers(part.curves.times);
    this.rate = part.curves.rate && new Numbers(part.curves.rate);
    this.progressColumn = new Numbers(part.curves.progress);
  }

  value(metric: string, row: number): number {
    return this.decoded(metric, this.part.values[metric])?.get(row) ?? NaN;
  }

  times(row: number): Float64Array {
    const times = this.timeColumn.slice(...this.span(row));
    if (this.rate) {
      const rate = this.rate.get(row);
      for (let i = 0; i < times.length; i += 1) times[i] /= rate;
    }
    return times;
  }

  progress(row: number): Float64Array {
    return this.progressColumn.slice(...this.span(row));
  }

  lastProgress(row: number): number {
    const [from, to] = this.span(row);
    for (let i = to - 1; i >= from; i -= 1)
      if (Number.isFinite(this.progressColumn.get(i))) return this.progressColumn.get(i);
    return NaN;
  }

  get channels(): string[] {
    return Object.keys(this.part.curves.channels);
  }

  channel(row: number, name: string): Float64Array {
    const [from, to] = this.span(row);
    const column = this.decoded(`channel ${name}`, this.part.curves.channels[name]);
    return column?.slice(from, to) ?? new Float64Array(to - from).fill(NaN);
  }

  verdicts(row: number): VerdictRow[] {
    const { verdicts } = this.part;
    const score = this.decoded("verdict score", verdicts.score)!;
    const when = this.decoded("verdict time", verdicts.when_s)!;
    return rowsWith(verdicts.row, row).map((i) => ({
      subgoal: textAt(verdicts.subgoal, i) ?? "",
      answer: ANSWERS[verdicts.answer[i] as keyof typeof ANSWERS],
      score: score.get(i),
      whenS: when.get(i),
      why: textAt(verdicts.why, i) ?? "",
    }));
  }

  private decoded(key: string, packed: ConstructorParameters<typeof Numbers>[0] | undefined): Numbers | undefined {
    if (packed && !this.columns.has(key)) this.columns.set(key, new Numbers(packed));
    return this.columns.get(key);
  }

  private span(row: number): [number, number] {
    this.starts ??= sums(this.part.curves.length);
    return [this.starts[row], this.starts[row + 1]];
  }
}
