/**
 * All data of a report page as one JSON value, inlined as
 *
 *     <script type="application/json" id="stepscore-data">__STEPSCORE_DATA__</script>
 *
 * The built template (src/stepscore/report/page/assets/page.html) holds the placeholder `__STEPSCORE_DATA__` exactly
 * once, there. Python replaces it with JSON in which every `<`, `>`, `&`, U+2028 and U+2029 is written as \uXXXX,
 * so that no text can end the script element. The page reads it with JSON.parse(element.textContent) and treats
 * every string in it as text, never as markup.
 *
 * Conventions: unknown is null (in packed numbers: NaN), never 0. Shares are 0..1 (the page shows percent), time
 * is in seconds, an index of -1 is "none". Nothing here is rounded: each number is the one `stepscore metrics
 * --json` prints. src/stepscore/report/page/data.py writes this; both change together (`format`).
 */

export const FORMAT = 7;

/** Numbers as little-endian base64, see `unpack` rules:
 *  - "f64": the values, NaN for unknown.
 *  - "u8" | "u16" | "u32": unsigned integers q; the largest one of the type (255, 65535, 4294967295) is NaN, any
 *    other is `offset + q / scale` (one division, one addition, in that order).
 *  Progress has offset 0 and scale 40000 (u16) or 4e9 (u32): exact for every value of up to 4 or 9 decimals,
 *  within 1.3e-10 otherwise. Other channels but `done_channel` are u16 over their own range: for drawing, not for measuring. */
export interface Packed {
  enc: "f64" | "u8" | "u16" | "u32";
  b64: string;
  scale?: number; // absent: 1
  offset?: number; // absent: 0
}

/** A column of few distinct strings: `values[codes[i]]`, null where codes[i] is -1. */
export interface Dict {
  values: string[];
  codes: number[];
}

/** [value, lo, hi, n, clusters, coverage, method]: an Estimate as in `metrics --json`; method indexes
 *  PageData.methods ("wilson 95%", "too few episodes (3 < 5)"). lo and hi are null where there is no interval. */
export type Est = [
  value: number | null,
  lo: number | null,
  hi: number | null,
  n: number,
  clusters: number,
  coverage: number | null,
  method: number,
];

/** Rank of a group in its table: 1 + the groups whose whole interval is better .. the groups that are not wholly
 *  worse. [1, 1] is a clear first; [1, 3] is tied with others for 1st to 3rd place ("=1"). A group without an
 *  interval is separated from none. Groups without a value have no rank (null). */
export type Rank = [from: number, to: number] | null;

export interface PageData {
  format: number; // FORMAT
  written: { stepscore: string; created: string /* ISO 8601, UTC */ };
  live: boolean; // served by `stepscore view` (videos at media/N, newer data at data), not a file on disk
  version: string; // of the data on a page that is served; "" elsewhere
  title: string; // e.g. "demo/recorded, demo/linear-time"; set document.title from it
  revision: Revision; // the OPD revision of every stored metric value and Estimate
  /** Revisions in which the page itself computes opd_prefixes of `progress` with its times while playing ("v1.0",
   *  "paper", "v1.5" without smoothing, "robust"), ported from stepscore.metrics.opd; the first is `revision`. The
   *  value at the cursor is that of the prefix which ends with the last sample at or before the time of the frame
   *  on screen (1e-6 s of tolerance); before the first sample: unknown. */
  live_revisions: Revision[];
  warnings: Warning[]; // shown at the top of the overview
  methods: string[];
  metrics: MetricInfo[]; // in the order of the tables
  runs: RunInfo[]; // as given on the command line
  boards: Board[]; // one per protocol: results of different protocols are never in one table
  judge_agreement: JudgeAgreement[]; // of each run with labels, then of the baselines computed for this page
  failure_mode_rules: FailureModeRule[]; // the meaning of each failure mode's name
  episodes: EpisodeTable;
  truth: TruthTable;
  traces: TraceTable;
  files: MediaFile[];
  videos: VideoTable;
  posters: string[]; // frames of failures: JPEG in base64, at most 24 of at most 240 pixels; [] without videos
  judgements: Judgements[]; // judgements[i] belongs to runs[i]
  /** Lines that prompts are made of, each once. A prompt is a list of line numbers, joined with "\n". */
  prompt_lines: string[];
  prompts: number[][];
  paged: boolean; // curves, verdicts, stages and columns are in parts, loaded when they are looked at
  parts: string | null; // of a written page with parts: the folder that they are in; a served one asks for parts/NAME
  judge_board: JudgeBoard | null;
  audit: AuditData | null; // the page of an audit; its boards are without tables, since changed episodes are among its own
}

export type Revision = "v1.0" | "paper" | "v1.5" | "robust";

export interface Warning {
  kind: "protocols" | "coverage" | "errors" | "unfinished" | "videos" | "left-out";
  text: string; // a sentence for a person
  details: string[]; // lines below it, may be empty (e.g. the fields in which two protocols differ)
}

export interface MetricInfo {
  name: string; // key in Group.cells, Judgements.values; e.g. "success_label", "MC25", "MP", "VOC", "stage_MAE"
  label: string; // column head: "success by label", "MC@25", "MP"
  better: "higher" | "lower" | "neither"; // the good direction; "neither" has no rank
  kind: "rate" | "share" | "mean"; // rate: yes/no per episode; share: in 0..1
  percent: boolean; // show x100 with %; false for correlations (VOC, stage_CCC), in -1..1
  summary: string; // its meaning, for a tooltip
  main: boolean; // belongs in the leaderboard by default; others on demand
}

export interface RunInfo {
  id: string; // short, unique, [a-z0-9-]+: for URLs
  name: string; // folder name
  path: string;
  board: number; // index into boards
  judge: string;
  model: string | null;
  protocol: string; // hash
  protocol_json: string; // canonical JSON, indented: the whole protocol
  baseline: boolean; // a judge that looks at no frame: linear-time, constant, random-monotone
  source: string;
  status: string; // "finished", "started", "stopped by the budget"
  running: boolean; // on a page that is served: whether a process is judging into it now; elsewhere false
  created: string;
  updated: string;
  versions: Record<string, string>;
  n: number; // episodes judged, those with an error included
  errors: number;
  selected: number; // episodes the run was started on
  coverage: Est; // share of points whose progress is known, over episodes with a curve (metric "coverage")
  calibrated: boolean | null; // null: no curves, or mixed
  usage: {
    seconds: number; // sum of the time spent on episodes
    wall_s: number | null; // of the last start, by the clock
    calls: number;
    attempts: number;
    cached: number;
    images: number;
    tokens_in: number;
    tokens_out: number;
    cost: number | null; // null: price not known (or no calls: see calls)
    p50_s: number | null; // latency of a call
    p95_s: number | null;
  };
}

/** All runs of one protocol, measured together. Equal to
 *  `stepscore metrics RUNS --revision R --json --by ...` over exactly these runs. */
export interface Board {
  id: string; // unique, for URLs
  label: string; // "recorded", "topreward hf/..."; made unique with the hash where two would be equal
  judge: string;
  model: string | null;
  protocol: string;
  baseline: boolean;
  runs: number[]; // indices into runs
  scope: string; // "on these 4 scenes" where intervals speak of few scenes that were tried repeatedly; else ""
  overall: Group[]; // --by policy; cells include the conditioned metrics
  by_task: Group[]; // --by task,policy; ranks are within the task; no conditioned metrics
  all: Group[]; // --by task: every policy pooled, plus one row with task null for everything (`pooled` true)
  subgoals: SubgoalTable[];
  diagnosis: Diagnosis;
  findings: Findings;
}

/** What the runs of a board show, in sentences: stepscore.analysis.run_findings. */
export interface Findings {
  opening: {
    sentences: string[]; // who is best, and whether that is certain
    notes: string[]; // what limits them
    metric: string; // what they are about: "success_label", "success_judge", "MP"; "" where nothing is known
    tiers: (string | null)[][]; // policies, best first; every one of a tier is shown to be better than later ones
  };
  first_failures: { policy: string | null; phrase: string; source: "label" | "judge" | "modes" }[];
  /** Share of each policy's episodes that reach each subgoal, tasks pooled by place in the order; [] without any. */
  funnels: {
    policy: string | null;
    source: "judge" | "label";
    names: string[];
    reached: Est[];
    tasks: number;
    left_out: number; // episodes of tasks with another number of subgoals
  }[];
  /** The failures to look at first, spread over policies and tasks; the time to look at is worstTime() of worst.ts. */
  worst: { run: number; episode: number; source: "label" | "judge"; poster: number /* index into posters */ }[];
  trust: {
    text: string; // all of it in one line
    notes: string[];
    aspects: {
      aspect: "success" | "progress" | "order" | "subgoals";
      answer: "yes" | "no" | "unknown";
      headline: string; // "Yes, for success"
      sentence: string;
      n: number;
      cells: Record<string, Est>;
    }[];
  };
}

export interface Group {
  policy: string | null; // null: the source does not state it (displayed as "unknown")
  task: string | null;
  pooled?: boolean; // this row is of all policies (policy is null and means "all")
  episodes: number; // judgements in the group
  /** Metric name -> Estimate. Names as in `metrics --json`, e.g. "PPL", and in `overall` also "PPL|success:label",
   *  "PPL|failure:judge" ... (process among successes, among failures). A metric without a known value is absent. */
  cells: Record<string, Est>;
  ranks: Record<string, Rank>; // unconditioned metrics with a good direction
}

/** Subgoals of one task and policy by one source of verdicts (judge and label are never mixed). */
export interface SubgoalTable {
  task: string | null;
  policy: string | null;
  source: "judge" | "label";
  names: string[]; // in the order of the task
  criteria: string[]; // the criterion of each, "" where not stated
  reviewed: boolean; // a person approved them
  reached: Est[]; // success vector
  given_previous: Est[]; // conditional success
  fails_first: Est[]; // first-failure histogram, as shares; the rest (1 - sum) failed at none
  violations: Est; // episodes that reached a later subgoal without an earlier one
}

export interface Diagnosis {
  source: "label" | "judge"; // source of success
  policies: {
    policy: string | null;
    failures: number;
    shares: Record<string, Est>; // failure mode -> share of the failures
    stability: number | null; // how similar its tasks are in that, 0..1; null under two tasks
    inefficient: Est; // share of successes reached by detours
    advice: string; // one line; "" without failures
  }[];
  z_metrics: string[]; // metrics compared among failures
  z: (number | null)[][]; // [policy][metric]; null under three policies
}

/** A board of judges on one benchmark: board.json. Such a page has no runs. */
export interface JudgeBoard {
  benchmark: { name: string; description: string; seed: number | null; episodes: number; tasks: number; fingerprint: string };
  metrics: { name: string; title: string; better: "higher" | "lower"; percent: boolean }[];
  front: string; // the metric of the Pareto front
  front_cost: string; // its cost: "money", "tokens" or "images"
  rows: JudgeRow[];
  published: { label: string; source: string; note: string; values: Record<string, number | null> }[];
}

export interface JudgeRow {
  label: string;
  judge: string;
  model: string | null;
  options: string[]; // "frames=8"
  protocol_hash: string | null;
  trivial: boolean;
  claimed_by: string | null; // who says so, where it was not measured here
  estimates: Record<string, Est>;
  cost: {
    videos: number | null;
    calls: number | null;
    images: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    cost: number | null;
    seconds_per_episode: number | null;
  };
  pareto: boolean;
  reason: string | null; // why it has no numbers
}

export type Outcome = "pass" | "warn" | "fail" | "undecided";

/** What an audit showed: audit.json, with the episodes that it names found on the page. */
export interface AuditData {
  judge: string;
  model: string | null;
  protocol: string; // hash
  source: string;
  created: string; // ISO 8601
  stepscore: string; // version
  episodes: number;
  tasks: string[];
  cameras: string[];
  labelled: boolean; // whether any episode has a success label
  seed: number;
  full: boolean; // every probe took every episode
  cost: number | null; // as a multiple of judging the episodes once
  counts: Record<Outcome, number>;
  sentences: string[]; // of the headline
  headline: { probe: string; title: string }[]; // the probes to look at first
  trivial: string[]; // names of the trivial judges
  runs: Record<string, number>; // name of a run of the audit ("judge", "again") -> index into PageData.runs
  probes: ProbeData[];
  agreement: { group: Record<string, string | null>; metric: string; estimate: Est }[]; // rows of `metrics --json`
  policies: string[]; // what the agreement says of policies, a sentence each
  changes: Record<string, string>; // episode -> what was changed of it, in words
}

export interface ProbeData {
  probe: string;
  family: string;
  outcome: Outcome;
  effect: Est;
  bound: number;
  good: "above" | "below"; // on which side of the bound effects are good
  what: string; // what the effect is
  expectation: string; // what a sound judge does
  eligible: number; // episodes that it could have taken
  reason: string; // why it took none; "" where it took some
  trivial: ([Outcome, Est] | null)[]; // of each trivial judge
  /** Where it is not passed: indices into episodes (-1: not on the page), the worst first. */
  worst: { id: string; episode: number; changed: number; effect: number }[];
}

export interface FailureModeRule {
  name: string; // "early collapse", ..., "none", "unknown"
  of: "failure" | "success" | "any";
  when: string;
  advice: string;
}

/** Agreement of a judge with labels; one per run, and one per baseline computed for this page if not given as a run: boards
 *  of the same episodes share theirs. */
export interface JudgeAgreement {
  judge: string;
  model: string | null;
  run: number; // index into runs; -1 for a baseline computed for this page
  baseline_for: number; // for such a baseline: the first board whose episodes and sample times it was given; else -1
  baseline: boolean;
  /** e.g. "success: accuracy", "success: balanced accuracy", "success: precision", "success: MCC", "AUC of last progress",
   *  "AUC of best progress", "AUC of success score", "VOC", "stage_MAE", "stage_CCC", and "TASK: SUBGOAL: accuracy".
   *  Absent: no known value. */
  cells: Record<string, Est>;
  /** question -> [tp, fp, fn, tn, unknown] */
  confusion: Record<string, [number, number, number, number, number]>;
}

/** Every episode that some run judged, once; columns of equal length n, sorted by source and id. */
export interface EpisodeTable {
  n: number;
  id: string[]; // unique together with source
  key: string[] | null; // for URLs, where ids alone are not unique (several sources); null: use id
  source: Dict;
  task: Dict; // -1 where the source names no task; Group.task and SubgoalTable.task are then null
  policy: Dict;
  robot: Dict;
  dataset: Dict;
  instruction: Dict;
  pair: Dict; // scene shared between policies
  success: number[]; // label: 1, 0, -1 unknown
  success_mode: Dict; // "ever" | "holds"
  duration_s: Packed;
  /** Annotated stages: [episode, stage name index, start_s, end_s][] sorted by episode. */
  stages: [number, number, number | null, number | null][];
  stage_names: string[];
  /** Lists of subgoals, each once; `subgoals[i]` is the list of episode i (-1: none). */
  subgoal_lists: { name: string; criterion: string; mode: string | null; view: string | null; reviewed: boolean }[][];
  subgoals: number[];
  /** Labels of the episode's subgoals, one character each in their order: "1", "0" or "?"; "" without subgoals. */
  subgoal_labels: string[];
}

/** True progress of episodes as labels state it, for drawing; a row per episode that has any. The points of all rows
 *  are concatenated; progress is linear between them, and differs by at most .005 from what is labelled. */
export interface TruthTable {
  episode: number[]; // indices into episodes, ascending
  length: number[]; // points of each row
  source: Dict; // what it is, for a person: "labelled progress", "progress by labelled stages"
  times: Packed; // seconds, over their own range
  progress: Packed; // 0..1, NaN unknown
  left_out: number; // episodes whose truth is not on the page because of its size
}

/** State, action and other numbers that were recorded beside the videos, for drawing; a row per episode that has any.
 *  Columns of equal length but for the concatenated ones. */
export interface TraceTable {
  /** Signals of an episode with their dimensions, each distinct list once; `left_out` dimensions are not on the page. */
  layouts: { signal: string; dimensions: string[]; left_out: number }[][];
  episode: number[]; // indices into episodes, ascending
  layout: number[]; // index into layouts
  length: number[]; // points of each row, which all its dimensions share; lines between them are straight
  steps: number[]; // how many were recorded
  times: Packed; // of all rows, concatenated; seconds, over their own range
  low: Packed; // of every dimension of every row: its least and its greatest value, NaN if none is known
  high: Packed;
  /** Of every row every dimension's points, one dimension after the other: low + q / 65534 * (high - low). */
  values: Packed;
  left_out: number[]; // episodes that have some, which are not on the page because of its size
  unavailable: Record<string, string>; // episode -> why there are none
  /** On a page that is served: the number under which an episode's table is at traces/N, -1 for none; null elsewhere. */
  served: number[] | null;
}

export interface MediaFile {
  src: string; // URL, already quoted: relative, file:///..., or media/N
  codec: string; // "h264", "av1", "hevc", "mpeg4", "vp9" ...
  type: string; // "video/mp4", "video/webm"
  first_s: number; // presentation time of the file's first frame (usually 0)
  plays: boolean; // false: browsers do not play it (the page says so, with the remedy --copy-videos)
}

/** One row per episode and view, sorted by episode, the main view first. Columns of equal length. */
export interface VideoTable {
  episode: number[];
  view: Dict;
  file: number[]; // index into files; -1: no file a browser can open (see `unavailable`)
  start_s: number[]; // time of the episode's first frame, counted from the file's first frame
  n_frames: number[];
  fps: (number | null)[]; // null: not known (no video, or a single frame)
  width: number[];
  height: number[];
  /** Seconds of each frame from the episode's first, only for rows whose frames are not at i / fps (to 10 % of a
   *  frame): row number -> times. */
  times: Record<string, Packed>;
  /** Of rows whose frames are those of the file in another order: row number -> which. */
  shown: Record<string, ShownFrames>;
  notes: Record<string, string>; // row number -> what to know of the video shown
  unavailable: Record<string, string>; // row number -> why there is no video
}

/** The frames of a changed video, which is shown from the recorded one. */
export interface ShownFrames {
  frames: Packed; // the recorded frame of each frame
  n_frames: number; // of the recorded video, from start_s on
  fps: number;
  times: Packed | null; // seconds of each recorded frame, where that is not i / fps
}

/** The judgements of one run; columns of equal length, in the order of `episode`. */
export interface Judgements {
  episode: number[]; // indices into episodes, ascending
  error: Record<string, string>; // row -> why there is no judgement
  repeated: number[]; // rows, ascending, that another run of the board holds as well, judged alike: not counted again
  success_score: Packed;
  /** Metric name -> one value per row, NaN unknown; f64, exactly `metrics --show episodes --json`. */
  values: Record<string, Packed>;
  failure_mode: Dict; // by the board's diagnosis source
  curves: {
    length: number[]; // points of each row's curve, 0 for none; the arrays below are all curves concatenated
    /** Seconds from the episode's first frame. Where `rate` is present: time = value / rate[row]
     *  (frame numbers over the frame rate); otherwise the value is in seconds. */
    times: Packed;
    rate: Packed | null;
    progress: Packed; // absolute, 0..1
    channels: Record<string, Packed>; // "raw", "minmax", log-probabilities ...
    /** When `robust` counts a curve as done: by this channel, for measuring, where a row has a known value in it
     *  (null: never), else by progress from `done_at` on. */
    done_channel: string | null;
    done_at: number;
    time_source: Dict; // "frames" | "recorded" | "inferred": inferred times are marked as such
    calibrated: number[] | null; // 1/0 per row where rows differ; null: as in RunInfo
  };
  verdicts: VerdictTable;
  calls: {
    row: number[]; // ascending, in the order of the requests
    kind: Dict;
    prompt: number[]; // index into prompts
    frames: Dict; // JSON text: the frames of the request
    answer: Dict;
    left_out: number; // rows whose calls are not in the page because of its size: see calls.parquet
  };
  /** Where the page has parts: what is in them. Then `values` has success alone, and points and verdicts are none. */
  paged: PagedRows | null;
}

export interface VerdictTable {
  row: number[]; // row of this table, ascending
  subgoal: Dict;
  answer: string; // one character each: "y", "n", "?"
  score: Packed;
  when_s: Packed;
  why: Dict;
}

export interface PagedRows {
  firsts: number[]; // the first row of each page, ascending
  pages: string[]; // the part of each page, a PagePart
  columns: Record<string, string>; // metric -> the part with it of every row, a ColumnPart
  verdicts: string | null; // the part with every row's answers, an AnswerPart
  sample: { rows: number[]; part: string }; // rows spread over the run, ascending, and their PagePart
  last_progress: Packed; // of every row, to 4 decimals
  channels: string[];
}

/** Some rows of a run; rows inside are counted from 0. */
export interface PagePart {
  values: Judgements["values"];
  curves: Pick<Judgements["curves"], "length" | "times" | "rate" | "progress" | "channels">;
  verdicts: VerdictTable;
  stages: [row: number, name: number, start: number | null, end: number | null][];
}

export interface ColumnPart {
  column: Packed;
}

export interface AnswerPart {
  row: Packed; // ascending
  subgoal: Dict;
  answer: string;
}
