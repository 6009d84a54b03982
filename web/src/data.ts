// The page's data, addressed by run and episode. Curves and columns are decoded when something shows them.
import type { Board, Est, Judged, MetricInfo, PageData } from "./contract";
import { FORMAT } from "./contract";
import { Numbers, word } from "./packed";

export interface Curve {
  times: Float64Array;
  progress: Float64Array;
  channels: string[];
  inferred: boolean;
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

export interface FilmRow {
  view: string;
  src: string | null;
  why: string;
  startS: number;
  frames: number;
  fps: number;
  times: Float64Array | null;
  codec: string;
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
    private readonly judged: Judged,
    private readonly page: PageData,
  ) {
    this.times = new Numbers(judged.curves.times);
    this.rate = judged.curves.rate && new Numbers(judged.curves.rate);
    this.progress = new Numbers(judged.curves.progress);
  }

  get episodes(): number[] {
    return this.judged.episode;
  }

  /** The row of an episode; -1 if this run did not judge it. */
  rowOf(episode: number): number {
    if (!this.rows) {
      this.rows = new Int32Array(this.page.episodes.n).fill(-1);
      this.judged.episode.forEach((e, row) => {
        this.rows![e] = row;
      });
    }
    return this.rows[episode];
  }

  value(metric: string, row: number): number {
    return this.column(metric)?.get(row) ?? NaN;
  }

  successScore(row: number): number {
    return this.lazily("success score", this.judged.success_score)!.get(row);
  }

  fingerprint(row: number): string | null {
    return word(this.judged.fingerprint, row);
  }

  error(row: number): string | null {
    return this.judged.error[String(row)] ?? null;
  }

  points(row: number): number {
    return this.judged.curves.length[row];
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
      channels: Object.keys(this.judged.curves.channels),
      inferred: word(this.judged.curves.time_source, row) === "inferred",
    };
  }

  channel(row: number, name: string): Float64Array {
    const [from, to] = this.span(row);
    return this.channelColumn(name)?.slice(from, to) ?? new Float64Array(to - from).fill(NaN);
  }

  verdicts(row: number): VerdictRow[] {
    const table = this.judged.verdicts;
    const answers = { y: "yes", n: "no", "?": "unknown" } as const;
    const score = this.lazily("verdict score", table.score)!;
    const when = this.lazily("verdict time", table.when_s)!;
    return between(table.row, row).map((i) => ({
      subgoal: word(table.subgoal, i) ?? "",
      answer: answers[table.answer[i] as keyof typeof answers],
      score: score.get(i),
      whenS: when.get(i),
      why: word(table.why, i) ?? "",
    }));
  }

  calls(row: number): CallRow[] {
    const table = this.judged.calls;
    return between(table.row, row).map((i) => ({
      kind: word(table.kind, i) ?? "",
      prompt: this.page.prompts[table.prompt[i]]?.map((line) => this.page.prompt_lines[line]).join("\n") ?? "",
      frames: word(table.frames, i) ?? "",
      answer: word(table.answer, i) ?? "",
    }));
  }

  get callsLeftOut(): number {
    return this.judged.calls.left_out;
  }

  private column(metric: string): Numbers | undefined {
    return this.lazily(metric, this.judged.values[metric]);
  }

  private channelColumn(name: string): Numbers | undefined {
    return this.lazily(`channel ${name}`, this.judged.curves.channels[name]);
  }

  private lazily(key: string, packed: ConstructorParameters<typeof Numbers>[0] | undefined): Numbers | undefined {
    if (packed && !this.columns.has(key)) this.columns.set(key, new Numbers(packed));
    return this.columns.get(key);
  }

  private span(row: number): [number, number] {
    const lengths = this.judged.curves.length;
    if (!this.starts) {
      this.starts = new Uint32Array(lengths.length + 1);
      for (let i = 0; i < lengths.length; i += 1) this.starts[i + 1] = this.starts[i] + lengths[i];
    }
    return [this.starts[row], this.starts[row + 1]];
  }
}

export class Data {
  readonly runs: RunData[];
  private readonly metricByName: Map<string, MetricInfo>;
  private keys: Map<string, number> | null = null;
  private readonly durations: Numbers;

  constructor(readonly page: PageData) {
    this.runs = page.judged.map((judged) => new RunData(judged, page));
    this.metricByName = new Map(page.metrics.map((metric) => [metric.name, metric]));
    this.durations = new Numbers(page.episodes.duration_s);
  }

  metric(name: string): MetricInfo | undefined {
    return this.metricByName.get(name);
  }

  board(id: string | undefined): Board {
    return this.page.boards.find((board) => board.id === id) ?? this.firstBoard();
  }

  /** Of several judges, one that looks at pictures comes first. */
  firstBoard(): Board {
    return this.page.boards.find((board) => !board.trivial) ?? this.page.boards[0];
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
    return word(this.page.episodes.task, episode);
  }

  policy(episode: number): string | null {
    return word(this.page.episodes.policy, episode);
  }

  /** The scene that an episode shares with others. */
  scene(episode: number): string | null {
    return word(this.page.episodes.pair, episode);
  }

  /** The views of an episode, the main one first. */
  films(episode: number): FilmRow[] {
    const table = this.page.videos;
    return between(table.episode, episode).map((i) => {
      const file = table.file[i] < 0 ? null : this.page.files[table.file[i]];
      const times = table.times[String(i)];
      return {
        view: word(table.view, i) ?? "",
        src: file?.plays ? file.src : null,
        why:
          table.why[String(i)] ??
          (file && !file.plays
            ? `Browsers do not play ${file.codec}. To see it here: stepscore report --copy-videos`
            : ""),
        startS: table.start_s[i],
        frames: table.n_frames[i],
        fps: table.fps[i] ?? 1,
        times: times ? new Numbers(times).all() : null,
        codec: file?.codec ?? "",
      };
    });
  }

  /** Every episode of a board, each as the run that judged it. */
  items(board: Board): Item[] {
    return board.runs.flatMap((run) => this.runs[run].episodes.map((episode, row) => ({ run, row, episode })));
  }

  method(estimate: Est): string {
    return this.page.methods[estimate[6]] ?? "";
  }

  /** The number of a method; one that only the page used joins the others. */
  methodNumber(method: string): number {
    const at = this.page.methods.indexOf(method);
    return at < 0 ? this.page.methods.push(method) - 1 : at;
  }
}

/** The value inlined in the page. */
export function readPage(): Data {
  const element = document.getElementById("stepscore-data");
  const page = JSON.parse(element?.textContent ?? "null") as PageData | null;
  if (!page || page.format !== FORMAT) {
    throw new Error(
      `This page holds data of format ${page?.format ?? "none"} and shows format ${FORMAT}. Write it anew: stepscore report RUN -o DIR`,
    );
  }
  return new Data(page);
}

/** Indices at which an ascending column equals `value`. */
function between(column: number[], value: number): number[] {
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
