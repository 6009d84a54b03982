// The page's data, addressed by run and episode. Curves and columns are decoded on first use.
import { FrameClock } from "./clock";
import type {
  AnswerPart,
  Leaderboard,
  ColumnPart,
  Est,
  Judgements,
  MetricInfo,
  PageData,
  PagePart,
  ShownFrames,
} from "./contract";
import { FORMAT } from "./contract";
import type { DoneRule } from "./opd-robust";
import { Numbers, rowsWith, sums, textAt } from "./packed";
import { Parts } from "./parts";
import { ANSWERS, RunPage, type VerdictRow } from "./run-page";
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
  private rows: Int32Array | null = null;
  /** All rows; on a page with parts, what every row has on the page itself. */
  private readonly whole: RunPage;
  private readonly pages = new WeakMap<PagePart, RunPage>();
  private readonly columns = new WeakMap<ColumnPart, Numbers>();
  private readonly scores: Numbers;
  private readonly lastColumn: Numbers | null;

  constructor(
    private readonly table: Judgements,
    private readonly page: PageData,
    private readonly parts: Parts,
  ) {
    this.whole = new RunPage(table);
    this.scores = new Numbers(table.success_score);
    this.lastColumn = table.paged && new Numbers(table.paged.last_progress);
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

  /** The part that a row is in; null where everything is on the page. */
  partOf(row: number): string | null {
    const { paged } = this.table;
    return paged && paged.pages[last(paged.firsts, row)];
  }

  /** The parts with metrics of every row; those of all metrics without names. */
  columnParts(metrics?: string[]): string[] {
    const columns = this.table.paged?.columns ?? {};
    return (metrics ?? Object.keys(columns)).flatMap((name) => columns[name] ?? []);
  }

  get answerParts(): string[] {
    return this.table.paged?.verdicts ? [this.table.paged.verdicts] : [];
  }

  get sampleParts(): string[] {
    return this.table.paged ? [this.table.paged.sample.part] : [];
  }

  /** Whether a row's curve is drawn where many are: on a page with parts, if it is in the sample. */
  sampled(row: number): boolean {
    const { paged } = this.table;
    return !paged || paged.sample.rows[last(paged.sample.rows, row)] === row;
  }

  value(metric: string, row: number): number {
    const { paged } = this.table;
    if (!paged || metric in this.table.values) return this.whole.value(metric, row);
    const part = this.parts.get<ColumnPart>(paged.columns[metric] ?? "");
    if (part) {
      let column = this.columns.get(part);
      if (!column) this.columns.set(part, (column = new Numbers(part.column)));
      return column.get(row);
    }
    const [page, at] = this.pageOf(row);
    return page?.value(metric, at) ?? NaN;
  }

  successScore(row: number): number {
    return this.scores.get(row);
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

  /** Null where it has none, or where its part is not here. */
  curve(row: number): Curve | null {
    const [page, at] = this.pageOf(row);
    if (!page || !this.points(row)) return null;
    return {
      times: page.times(at),
      progress: page.progress(at),
      channels: page.channels,
      inferred: textAt(this.table.curves.time_source, row) === "inferred",
    };
  }

  /** The last known progress of a row; NaN where there is none. */
  lastProgress(row: number): number {
    return this.lastColumn ? this.lastColumn.get(row) : this.whole.lastProgress(row);
  }

  /** When this row's curve counts as done: by its success probability, where it has one. */
  doneRule(row: number): DoneRule {
    const { done_at: at, done_channel: by } = this.table.curves;
    const probability = by ? this.channel(row, by) : null;
    return { at, probability: probability?.some((p) => Number.isFinite(p)) ? probability : null };
  }

  channel(row: number, name: string): Float64Array {
    const [page, at] = this.pageOf(row);
    return page?.channel(at, name) ?? new Float64Array(this.points(row)).fill(NaN);
  }

  verdicts(row: number): VerdictRow[] {
    const [page, at] = this.pageOf(row);
    return page?.verdicts(at) ?? [];
  }

  /** [subgoal, answer] of a row's verdicts; also where only the answers of all rows are here. */
  answers(row: number): [string, string][] {
    const part = this.parts.get<AnswerPart>(this.table.paged?.verdicts ?? "");
    if (!part) return this.verdicts(row).map(({ subgoal, answer }) => [subgoal, answer]);
    let rows = this.answerRows.get(part);
    if (!rows) this.answerRows.set(part, (rows = new Numbers(part.row).all()));
    return rowsWith(rows, row).map((i) => [
      textAt(part.subgoal, i) ?? "",
      ANSWERS[part.answer[i] as keyof typeof ANSWERS],
    ]);
  }

  /** Annotated stages that came with a row's part: [name, start, end]. */
  stages(row: number): [number, number | null, number | null][] {
    const name = this.partOf(row);
    const part = name === null ? undefined : this.parts.get<PagePart>(name);
    if (!part) return [];
    const at = row - this.table.paged!.firsts[last(this.table.paged!.firsts, row)];
    return part.stages.filter(([of]) => of === at).map(([, ...stage]) => stage);
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

  private readonly answerRows = new WeakMap<AnswerPart, Float64Array>();

  /** The page that a row is in, if it is here, and its place there. */
  private pageOf(row: number): [RunPage | null, number] {
    const { paged } = this.table;
    if (!paged) return [this.whole, row];
    const page = last(paged.firsts, row);
    const part = this.parts.get<PagePart>(paged.pages[page]);
    if (part) return [this.decoded(part), row - paged.firsts[page]];
    const at = last(paged.sample.rows, row);
    const sample = paged.sample.rows[at] === row ? this.parts.get<PagePart>(paged.sample.part) : undefined;
    return sample ? [this.decoded(sample), at] : [null, 0];
  }

  private decoded(part: PagePart): RunPage {
    let page = this.pages.get(part);
    if (!page) this.pages.set(part, (page = new RunPage(part)));
    return page;
  }
}

/** The place of the last of some ascending numbers that is at most `value`; 0 where none is. */
function last(ascending: number[], value: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

export class Data {
  readonly runs: RunData[];
  readonly traces: Traces;
  private readonly metricByName: Map<string, MetricInfo>;
  private keys: Map<string, number> | null = null;
  private readonly durations: Numbers;
  private truthPoints: { starts: Uint32Array; times: Numbers; progress: Numbers } | null = null;

  private readonly parts: Parts;

  constructor(readonly page: PageData) {
    this.parts = new Parts(page.parts);
    this.runs = page.judgements.map((table) => new RunData(table, page, this.parts));
    this.metricByName = new Map(page.metrics.map((metric) => [metric.name, metric]));
    this.durations = new Numbers(page.episodes.duration_s);
    this.traces = new Traces(page.traces);
  }

  /** Load the parts that some episodes are in, of every run that judged them; null where all of them are here. */
  need(items: Item[]): Promise<void> | null {
    if (!this.page.paged) return null;
    const parts = items.flatMap(({ episode }) =>
      this.runs.flatMap((run) => {
        const row = run.rowOf(episode);
        return row < 0 ? [] : (run.partOf(row) ?? []);
      }),
    );
    return this.parts.load(parts);
  }

  /** Load metrics of every episode of a board, and its verdicts; null where all of them are here. */
  needColumns(board: Leaderboard, metrics?: string[], answers = false): Promise<void> | null {
    if (!this.page.paged) return null;
    const runs = board.runs.map((run) => this.runs[run]);
    return this.parts.load(runs.flatMap((run) => [...run.columnParts(metrics), ...(answers ? run.answerParts : [])]));
  }

  /** Load the curves that are drawn where many are; null where all of them are here. */
  needSample(board: Leaderboard): Promise<void> | null {
    return this.page.paged ? this.parts.load(board.runs.flatMap((run) => this.runs[run].sampleParts)) : null;
  }

  metric(name: string): MetricInfo | undefined {
    return this.metricByName.get(name);
  }

  board(id: string | undefined): Leaderboard {
    return this.page.boards.find((board) => board.id === id) ?? this.firstBoard();
  }

  /** The first judge that is not a baseline, if there is one. */
  firstBoard(): Leaderboard {
    return this.page.boards.find((board) => !board.baseline) ?? this.page.boards[0];
  }

  /** The first judge that gives verdicts on subgoals, where the first one does not. */
  verdictBoard(): Leaderboard {
    const judged = (board: Leaderboard): boolean => board.subgoals.some(({ source }) => source === "judge");
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
  items(board: Leaderboard): Item[] {
    return board.runs.flatMap((run) => this.runs[run].episodes.map((episode, row) => ({ run, row, episode })));
  }

  /** The same, each episode once, though several runs may hold it. */
  counted(board: Leaderboard): Item[] {
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
