// The page's data, addressed by run and episode. Curves and columns are decoded on first use.
import { FrameClock } from "./clock";
import type { Board, Est, Judgements, MetricInfo, PageData, ShownFrames } from "./contract";
import { FORMAT } from "./contract";
import type { DoneRule } from "./opd-robust";
import { Numbers, textAt } from "./packed";
import { Traces } from "./traces";

export interface Curve {
  times: Float64Array;
  progress: Float64Array;
  channels: string[];
  inferred: boolean;
}

/** Labelled progress of an episode, for drawing: linear between its points. */
export interface Truth {
  times: Float64Array;
  values: Float64Array;
  /** What it was derived from, in words. */
  name: string;
}

export interface VerdictRow {
  subgoal: string;
  answer: "yes" | "no" | "unknown";
  score: number;
  whenS: number;
  why: string;
}

export interface CallRow {
  kind: string;
  prompt: string;
  frames: string;
  answer: string;
}

export interface VideoRow {
  view: string;
  src: string | null;
  unavailable: string;
  startS: number;
  frames: number;
  fps: number;
  times: Float64Array | null;
  codec: string;
  /** What to know of the video shown; "" for nothing. */
  note: string;
  /** Which frames of the file are shown, where it is not one after the other. */
  shown: { frames: Float64Array; clock: FrameClock } | null;
}

/** One episode as one run judged it. */
export interface Item {
  run: number;
  row: number;
  episode: number;
}

export class RunData {
  private readonly columns = new Map<string, Numbers>();
  private rows: Int32Array | null = null;
  private starts: Uint32Array | null = null;
  private readonly times: Numbers;
  private readonly rate: Numbers | null;
  private readonly progress: Numbers;

  constructor(
    private readonly table: Judgements,
    private readonly page: PageData,
  ) {
    this.times = new Numbers(table.curves.times);
    this.rate = table.curves.rate && new Numbers(table.curves.rate);
    this.progress = new Numbers(table.curves.progress);
  }

  get episodes(): number[] {
    return this.table.episode;
  }

  /** Rows that another run of the judge holds as well: they are not counted again. */
  get repeated(): number[] {
    return this.table.repeated;
  }

  /** The row of an episode; -1 if this run did not judge it. */
  rowOf(episode: number): number {
    if (!this.rows) {
      this.rows = new Int32Array(this.page.episodes.n).fill(-1);
      this.table.episode.forEach((e, row) => {
        this.rows![e] = row;
      });
    }
    return this.rows[episode];
  }

  value(metric: string, row: number): number {
    return this.column(metric)?.get(row) ?? NaN;
  }

  successScore(row: number): number {
    return this.decoded("success score", this.table.success_score)!.get(row);
  }

  failureMode(row: number): string | null {
    return textAt(this.table.failure_mode, row);
  }

  error(row: number): string | null {
    return this.table.error[String(row)] ?? null;
  }

  points(row: number): number {
    return this.table.curves.length[row];
  }

  curve(row: number): Curve | null {
    const [from, to] = this.span(row);
    if (from === to) return null;
    const times = this.times.slice(from, to);
    if (this.rate) {
      const rate = this.rate.get(row);
      for (let i = 0; i < times.length; i += 1) times[i] /= rate;
    }
    return {
      times,
      progress: this.progress.slice(from, to),
      channels: Object.keys(this.table.curves.channels),
      inferred: textAt(this.table.curves.time_source, row) === "inferred",
    };
  }

  /** The last known progress of a row; NaN where there is none. */
  lastProgress(row: number): number {
    const [from, to] = this.span(row);
    for (let i = to - 1; i >= from; i -= 1) if (Number.isFinite(this.progress.get(i))) return this.progress.get(i);
    return NaN;
  }

  /** When this row's curve counts as done: by its success probability, where it has one. */
  doneRule(row: number): DoneRule {
    const { done_at: at, done_channel: by } = this.table.curves;
    const probability = by ? this.channel(row, by) : null;
    return { at, probability: probability?.some((p) => Number.isFinite(p)) ? probability : null };
  }

  channel(row: number, name: string): Float64Array {
    const [from, to] = this.span(row);
    return this.channelColumn(name)?.slice(from, to) ?? new Float64Array(to - from).fill(NaN);
  }

  verdicts(row: number): VerdictRow[] {
    const { verdicts } = this.table;
    const answers = { y: "yes", n: "no", "?": "unknown" } as const;
    const score = this.decoded("verdict score", verdicts.score)!;
    const when = this.decoded("verdict time", verdicts.when_s)!;
    return rowsWith(verdicts.row, row).map((i) => ({
      subgoal: textAt(verdicts.subgoal, i) ?? "",
      answer: answers[verdicts.answer[i] as keyof typeof answers],
      score: score.get(i),
      whenS: when.get(i),
      why: textAt(verdicts.why, i) ?? "",
    }));
  }

  calls(row: number): CallRow[] {
    const { calls } = this.table;
    return rowsWith(calls.row, row).map((i) => ({
      kind: textAt(calls.kind, i) ?? "",
      prompt: this.page.prompts[calls.prompt[i]]?.map((line) => this.page.prompt_lines[line]).join("\n") ?? "",
      frames: textAt(calls.frames, i) ?? "",
      answer: textAt(calls.answer, i) ?? "",
    }));
  }

  get callsLeftOut(): number {
    return this.table.calls.left_out;
  }

  private column(metric: string): Numbers | undefined {
    return this.decoded(metric, this.table.values[metric]);
  }

  private channelColumn(name: string): Numbers | undefined {
    return this.decoded(`channel ${name}`, this.table.curves.channels[name]);
  }

  private decoded(key: string, packed: ConstructorParameters<typeof Numbers>[0] | undefined): Numbers | undefined {
    if (packed && !this.columns.has(key)) this.columns.set(key, new Numbers(packed));
    return this.columns.get(key);
  }

  private span(row: number): [number, number] {
    const lengths = this.table.curves.length;
    this.starts ??= sums(lengths);
    return [this.starts[row], this.starts[row + 1]];
  }
}

export class Data {
  readonly runs: RunData[];
  readonly traces: Traces;
  private readonly metricByName: Map<string, MetricInfo>;
  private keys: Map<string, number> | null = null;
  private readonly durations: Numbers;
  private truthPoints: { starts: Uint32Array; times: Numbers; progress: Numbers } | null = null;

  constructor(readonly page: PageData) {
    this.runs = page.judgements.map((table) => new RunData(table, page));
    this.metricByName = new Map(page.metrics.map((metric) => [metric.name, metric]));
    this.durations = new Numbers(page.episodes.duration_s);
    this.traces = new Traces(page.traces);
  }

  metric(name: string): MetricInfo | undefined {
    return this.metricByName.get(name);
  }

  board(id: string | undefined): Board {
    return this.page.boards.find((board) => board.id === id) ?? this.firstBoard();
  }

  /** The first judge that is not a baseline, if there is one. */
  firstBoard(): Board {
    return this.page.boards.find((board) => !board.baseline) ?? this.page.boards[0];
  }

  /** The first judge that gives verdicts on subgoals, where the first one does not. */
  verdictBoard(): Board {
    const judged = (board: Board): boolean => board.subgoals.some(({ source }) => source === "judge");
    const first = this.firstBoard();
    return judged(first) ? first : (this.page.boards.find((board) => !board.baseline && judged(board)) ?? first);
  }

  key(episode: number): string {
    return (this.page.episodes.key ?? this.page.episodes.id)[episode];
  }

  byKey(key: string): number {
    this.keys ??= new Map((this.page.episodes.key ?? this.page.episodes.id).map((k, i) => [k, i]));
    return this.keys.get(key) ?? -1;
  }

  duration(episode: number): number {
    return this.durations.get(episode);
  }

  task(episode: number): string | null {
    return textAt(this.page.episodes.task, episode);
  }

  policy(episode: number): string | null {
    return textAt(this.page.episodes.policy, episode);
  }

  /** The scene that an episode shares with others. */
  scene(episode: number): string | null {
    return textAt(this.page.episodes.pair, episode);
  }

  /** The videos of an episode, the main view first. */
  videos(episode: number): VideoRow[] {
    const table = this.page.videos;
    return rowsWith(table.episode, episode).map((i) => {
      const file = table.file[i] < 0 ? null : this.page.files[table.file[i]];
      const times = table.times[String(i)];
      return {
        view: textAt(table.view, i) ?? "",
        src: file?.plays ? file.src : null,
        unavailable:
          table.unavailable[String(i)] ??
          (file && !file.plays
            ? `Browsers do not play ${file.codec}. To play it here: stepscore report --copy-videos`
            : ""),
        startS: table.start_s[i],
        frames: table.n_frames[i],
        fps: table.fps[i] ?? 1,
        times: times ? new Numbers(times).all() : null,
        codec: file?.codec ?? "",
        note: table.notes[String(i)] ?? "",
        shown: shownFrames(table.shown[String(i)]),
      };
    });
  }

  /** True progress of an episode as labels state it; null where they do not. */
  truth(episode: number): Truth | null {
    const { truth } = this.page;
    const [row] = rowsWith(truth.episode, episode);
    if (row === undefined) return null;
    this.truthPoints ??= {
      starts: sums(truth.length),
      times: new Numbers(truth.times),
      progress: new Numbers(truth.progress),
    };
    const { starts, times, progress } = this.truthPoints;
    return {
      times: times.slice(starts[row], starts[row + 1]),
      values: progress.slice(starts[row], starts[row + 1]),
      name: textAt(truth.source, row) ?? "",
    };
  }

  /** Every episode of a board, with the run that judged it. */
  items(board: Board): Item[] {
    return board.runs.flatMap((run) => this.runs[run].episodes.map((episode, row) => ({ run, row, episode })));
  }

  /** The same, each episode once, though several runs may hold it. */
  counted(board: Board): Item[] {
    const repeated = new Set(board.runs.flatMap((run) => this.runs[run].repeated.map((row) => `${run} ${row}`)));
    const items = this.items(board);
    return repeated.size ? items.filter(({ run, row }) => !repeated.has(`${run} ${row}`)) : items;
  }

  method(estimate: Est): string {
    return this.page.methods[estimate[6]] ?? "";
  }

  /** The index of a method; one that only the page uses is appended. */
  methodNumber(method: string): number {
    const at = this.page.methods.indexOf(method);
    return at < 0 ? this.page.methods.push(method) - 1 : at;
  }
}

/** Read the data inlined in the page. */
export function readPage(): Data {
  const element = document.getElementById("stepscore-data");
  const page = JSON.parse(element?.textContent ?? "null") as PageData | null;
  if (!page || page.format !== FORMAT) {
    throw new Error(
      `This page holds data of format ${page?.format ?? "none"} but reads format ${FORMAT}. Write it again: stepscore report RUN -o DIR`,
    );
  }
  return new Data(page);
}

function shownFrames(shown: ShownFrames | undefined): VideoRow["shown"] {
  if (!shown) return null;
  const times = shown.times && new Numbers(shown.times).all();
  return { frames: new Numbers(shown.frames).all(), clock: new FrameClock(shown.n_frames, shown.fps, times) };
}

/** 0, and the sum of the first i lengths: where each of several concatenated arrays begins. */
function sums(lengths: number[]): Uint32Array {
  const starts = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i += 1) starts[i + 1] = starts[i] + lengths[i];
  return starts;
}

/** Indices at which an ascending column equals `value`. */
function rowsWith(column: number[], value: number): number[] {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  const found: number[] = [];
  for (let i = low; i < column.length && column[i] === value; i += 1) found.push(i);
  return found;
}
