/**
 * All data of a report page as one JSON value. Generated from src/stepscore/report/page/schema by
 * `python -m tools.contract`: change it there.
 *
 * The data are inlined as
 *
 *     <script type="application/json" id="stepscore-data">__STEPSCORE_DATA__</script>
 *
 * The built template (src/stepscore/report/page/assets/page.html) holds the placeholder `__STEPSCORE_DATA__` exactly
 * once, there. Python replaces it with JSON in which every `<`, `>`, `&`, U+2028 and U+2029 is written as \uXXXX,
 * so that no text can end the script element. The page reads it with JSON.parse(element.textContent) and treats
 * every string in it as text, never as markup.
 *
 * Unknown is null (in packed numbers: NaN), never 0. Shares are 0..1 (the page shows percent), time is in seconds,
 * an index of -1 is "none". Nothing here is rounded: each number is the one `stepscore metrics --json` prints.
 */

export type Encoding = "f64" | "u8" | "u16" | "u32";

/**
 * Numbers as little-endian base64.
 *
 * - "f64": the values, NaN for unknown.
 * - "u8" | "u16" | "u32": unsigned integers q. The largest one of the type (255, 65535, 4294967295) is NaN, any
 *   other is `offset + q / scale` (one division, one addition, in that order).
 *
 * Progress has offset 0 and scale 40000 (u16) or 4e9 (u32): exact for every value of up to 4 or 9 decimals, within
 * 1.3e-10 otherwise. Other channels but `done_channel` are u16 over their own range: for drawing, not for measuring.
 */
export interface Packed {
  enc: Encoding;
  b64: string;
  scale?: number; // 1 if absent.
  offset?: number; // 0 if absent.
}

/** A column of few distinct strings: `values[codes[i]]`, null where codes[i] is -1. */
export interface Dict {
  values: string[];
  codes: number[];
}

/**
 * An Estimate as in `metrics --json`.
 *
 * `method` is an index into PageData.methods ("wilson 95%", "too few episodes (3 < 5)"). `lo` and `hi` are null
 * where there is no interval.
 */
export type Est = [
  value: number | null,
  lo: number | null,
  hi: number | null,
  n: number,
  clusters: number,
  coverage: number | null,
  method: number,
];

/**
 * The best and the worst place that a group may have in its table.
 *
 * 1 + the groups whose whole interval is better .. the groups that are not wholly worse. [1, 1] is a clear first;
 * [1, 3] is tied with others for 1st to 3rd place ("=1"). A group without an interval is separated from none.
 */
export type Places = [
  best: number,
  worst: number,
];

/** Groups without a value have no rank (null). */
export type Rank = Places | null;

/** An annotated stage of an episode, or of a row of a part. */
export type StageSpan = [
  episode: number,
  name: number, // Index into stage_names.
  start_s: number | null,
  end_s: number | null,
];

/** A subgoal of an episode. */
export interface SubgoalInfo {
  name: string;
  criterion: string | null;
  mode: string | null;
  view: string | null;
  reviewed: boolean;
}

/** Every episode that some run judged, once; columns of equal length n, sorted by source and id. */
export interface EpisodeTable {
  n: number;
  id: string[]; // Unique together with source.
  key: string[] | null; // For URLs, where ids alone are not unique (several sources); null: use id.
  source: Dict;
  task: Dict; // -1 where the source names no task; Group.task and SubgoalTable.task are then null.
  policy: Dict;
  robot: Dict;
  dataset: Dict;
  instruction: Dict;
  pair: Dict; // Scene shared between policies.
  success_mode: Dict; // One of "ever", "holds".
  success: number[]; // Label: 1, 0, -1 unknown.
  duration_s: Packed;
  stages: StageSpan[]; // Sorted by episode.
  stage_names: string[];
  subgoal_lists: SubgoalInfo[][]; // Lists of subgoals, each once.
  subgoals: number[]; // Index into subgoal_lists; -1: none.
  /** Labels of the episode's subgoals, one character each in their order: "1", "0" or "?"; "" without subgoals. */
  subgoal_labels: string[];
}

/**
 * True progress of episodes as labels state it, for drawing; a row per episode that has any.
 *
 * The points of all rows are concatenated; progress is linear between them, and differs by at most .005 from what
 * is labelled.
 */
export interface TruthTable {
  episode: number[]; // Indices into episodes, ascending.
  length: number[]; // Points of each row.
  source: Dict; // What it is, for a person: "labelled progress", "progress by labelled stages".
  times: Packed; // Seconds, over their own range.
  progress: Packed; // 0..1, NaN unknown.
  left_out: number; // Episodes whose truth is not on the page because of its size.
}

/** A signal and its dimensions. */
export interface SignalLayout {
  signal: string;
  dimensions: string[];
  left_out: number; // Dimensions that are not on the page.
}

/**
 * State, action and other numbers that were recorded beside the videos, for drawing.
 *
 * A row per episode that has any. Columns of equal length but for the concatenated ones.
 */
export interface TraceTable {
  layouts: SignalLayout[][]; // Signals of an episode with their dimensions, each distinct list once.
  episode: number[]; // Indices into episodes, ascending.
  layout: number[]; // Index into layouts.
  length: number[]; // Points of each row, which all its dimensions share; lines between them are straight.
  steps: number[]; // How many were recorded.
  times: Packed; // Of all rows, concatenated; seconds, over their own range.
  low: Packed; // Of every dimension of every row: its least value, NaN if none is known.
  high: Packed; // Its greatest value.
  /** Of every row every dimension's points, one dimension after the other: low + q / 65534 * (high - low). */
  values: Packed;
  left_out: number[]; // Episodes that have some, which are not on the page because of its size.
  unavailable: Record<string, string>; // Episode -> why there are none.
  /**
   * On a page that is served: the number under which an episode's table is at traces/N, -1 for none; null
   * elsewhere.
   */
  served: number[] | null;
}

/** A video file. */
export interface MediaFile {
  src: string; // URL, already quoted: relative, file:///..., or media/N.
  codec: string; // E.g. "h264", "av1", "hevc", "mpeg4", "vp9".
  type: string; // E.g. "video/mp4", "video/webm".
  first_s: number; // Presentation time of the file's first frame (usually 0).
  plays: boolean; // false: browsers do not play it (the page says so, with the remedy --copy-videos).
}

/** The frames of a changed video, which is shown from the recorded one. */
export interface ShownFrames {
  frames: Packed; // The recorded frame of each frame.
  n_frames: number; // Of the recorded video, from start_s on.
  fps: number;
  times: Packed | null; // Seconds of each recorded frame, where that is not i / fps.
}

/** One row per episode and view, sorted by episode, the main view first. Columns of equal length. */
export interface VideoTable {
  episode: number[];
  view: Dict;
  file: number[]; // Index into files; -1: no file a browser can open (see `unavailable`).
  start_s: number[]; // Time of the episode's first frame, counted from the file's first frame.
  n_frames: number[];
  fps: (number | null)[]; // null: not known (no video, or a single frame).
  width: number[];
  height: number[];
  /**
   * Seconds of each frame from the episode's first, only for rows whose frames are not at i / fps (to 10 % of a
   * frame): row number -> times.
   */
  times: Record<string, Packed>;
  /** Of rows whose frames are those of the file in another order: row number -> which. */
  shown: Record<string, ShownFrames>;
  notes: Record<string, string>; // Row number -> what to know of the video shown.
  unavailable: Record<string, string>; // Row number -> why there is no video.
}

/** The points of all curves, concatenated. */
export interface CurvePoints {
  length: number[]; // Points of each row's curve, 0 for none.
  /**
   * Seconds from the episode's first frame. Where `rate` is present: time = value / rate[row] (frame numbers over
   * the frame rate); otherwise the value is in seconds.
   */
  times: Packed;
  rate: Packed | null;
  progress: Packed; // Absolute, 0..1.
  channels: Record<string, Packed>; // E.g. "raw", "minmax", log-probabilities.
}

/** What holds for every curve, wherever its points are. */
export interface CurveRules {
  /**
   * When `robust` counts a curve as done: by this channel, for measuring, where a row has a known value in it
   * (null: never), else by progress from `done_at` on.
   */
  done_channel: string | null;
  done_at: number;
  time_source: Dict; // One of "frames", "recorded", "inferred"; inferred times are marked.
  calibrated: number[] | null; // 1/0 per row where rows differ; null: as in RunInfo.
}

/** The curves of a run. */
export interface Curves extends CurvePoints, CurveRules {
}

/** Verdicts on subgoals. */
export interface VerdictTable {
  row: number[]; // Row of the judgements, ascending.
  subgoal: Dict;
  answer: string; // One character each: "y", "n", "?".
  score: Packed;
  when_s: Packed;
  why: Dict;
}

/** The calls to a model. */
export interface CallTable {
  row: number[]; // Ascending, in the order of the requests.
  kind: Dict;
  prompt: number[]; // Index into prompts.
  frames: Dict; // JSON text: the frames of the request.
  answer: Dict;
  left_out: number; // Rows whose calls are not on the page because of its size: see calls.parquet.
}

/** Rows spread over the run. */
export interface RowSample {
  rows: number[]; // Ascending.
  part: string; // Their PagePart.
}

/** The parts of a run's judgements. */
export interface PagedRows {
  firsts: number[]; // The first row of each page, ascending.
  pages: string[]; // The part of each page, a PagePart.
  columns: Record<string, string>; // Metric -> the part with it of every row, a ColumnPart.
  verdicts: string | null; // The part with every row's answers, an AnswerPart.
  sample: RowSample;
  last_progress: Packed; // Of every row, to 4 decimals.
  channels: string[];
}

/** What the page itself holds of every judgement of a run. */
export interface JudgementRows {
  episode: number[]; // Indices into episodes, ascending.
  error: Record<string, string>; // Row -> why there is no judgement.
  /** Rows, ascending, that another run of the leaderboard holds as well, judged alike: not counted again. */
  repeated: number[];
  success_score: Packed;
  failure_mode: Dict; // By the leaderboard's diagnosis source.
  calls: CallTable;
}

/** The judgements of one run; columns of equal length, in the order of `episode`. */
export interface Judgements extends JudgementRows {
  /** Metric name -> one value per row, NaN unknown; f64, exactly `metrics --show episodes --json`. */
  values: Record<string, Packed>;
  curves: Curves;
  verdicts: VerdictTable;
  /**
   * Where the page has parts: what is in them. Then `values` has success only, and `curves` and `verdicts` have
   * no points and no rows.
   */
  paged: PagedRows | null;
}

/** Some rows of a run; rows inside are counted from 0. */
export interface PagePart {
  values: Record<string, Packed>;
  curves: CurvePoints;
  verdicts: VerdictTable;
  stages: StageSpan[];
}

/** One metric of every row. */
export interface ColumnPart {
  column: Packed;
}

/** The answer of every verdict. */
export interface AnswerPart {
  row: Packed; // Ascending.
  subgoal: Dict;
  answer: string;
}

export type LabelOrJudge = "label" | "judge";

/** The episodes of one policy, of one task, or of both. */
export interface Group {
  policy: string | null; // null: the source does not state it (displayed as "unknown").
  task: string | null;
  pooled?: boolean; // This row is of all policies (policy is null and means "all").
  episodes: number; // Judgements in the group.
  /**
   * Metric name -> Estimate. Names as in `metrics --json`, e.g. "PPL", and in `overall` also "PPL|success:label",
   * "PPL|failure:judge" ... (process among successes, among failures). A metric without a known value is absent.
   */
  cells: Record<string, Est>;
  ranks: Record<string, Rank>; // Unconditioned metrics with a good direction.
}

/** Subgoals of one task and policy by one source of verdicts (judge and label are never mixed). */
export interface SubgoalTable {
  task: string | null;
  policy: string | null;
  source: LabelOrJudge;
  names: string[]; // In the order of the task.
  criteria: string[]; // The criterion of each, "" where not stated.
  reviewed: boolean; // A person approved them.
  reached: Est[]; // Success vector.
  given_previous: Est[]; // Conditional success.
  fails_first: Est[]; // First-failure histogram, as shares; the rest (1 - sum) failed at none.
  violations: Est; // Episodes that reached a later subgoal without an earlier one.
}

/** How one policy fails. */
export interface PolicyDiagnosis {
  policy: string | null;
  failures: number;
  shares: Record<string, Est>; // Failure mode -> share of the failures.
  stability: number | null; // How similar its tasks are in that, 0..1; null under two tasks.
  inefficient: Est; // Share of successes reached by detours.
  advice: string; // One line; "" without failures.
}

/** How the policies fail. */
export interface Diagnosis {
  source: LabelOrJudge; // Source of success.
  policies: PolicyDiagnosis[];
  z_metrics: string[]; // Metrics compared among failures.
  z: ((number | null)[])[]; // [policy][metric]; null under three policies.
}

/** Who is best. */
export interface Opening {
  sentences: string[]; // Who is best, and whether that is certain.
  notes: string[]; // What limits them.
  metric: string; // What they are about: "success_label", "success_judge", "MP"; "" where nothing is known.
  tiers: ((string | null)[])[]; // Policies, best first; every one of a tier is shown to be better than later ones.
}

/** Where a policy fails first. */
export interface FirstFailure {
  policy: string | null;
  phrase: string;
  source: "label" | "judge" | "modes";
}

/** Share of a policy's episodes that reach each subgoal, tasks pooled by place in the order. */
export interface Funnel {
  policy: string | null;
  source: LabelOrJudge;
  names: string[];
  reached: Est[];
  tasks: number;
  left_out: number; // Episodes of tasks with another number of subgoals.
}

/** A failure to look at; the time to look at is worstTime() of worst.ts. */
export interface WorstFailure {
  run: number;
  episode: number;
  source: LabelOrJudge;
  poster: number; // Index into posters.
}

/** Whether the judge can be trusted for one purpose. */
export interface TrustAspect {
  aspect: "success" | "progress" | "order" | "subgoals";
  answer: "yes" | "no" | "unknown";
  headline: string; // E.g. "Yes, for success".
  sentence: string;
  n: number;
  cells: Record<string, Est>;
}

/** Whether the judge can be trusted. */
export interface Trust {
  text: string; // All of it in one line.
  notes: string[];
  aspects: TrustAspect[];
}

/** What the runs of a leaderboard show, in sentences: stepscore.analysis.run_findings. */
export interface Findings {
  opening: Opening;
  first_failures: FirstFailure[];
  funnels: Funnel[]; // One a policy; [] without any subgoals.
  worst: WorstFailure[]; // The failures to look at first, spread over policies and tasks.
  trust: Trust;
}

/** The tables of a leaderboard. */
export interface LeaderboardTables {
  id: string; // Unique, for URLs.
  label: string; // E.g. "recorded", "topreward hf/..."; made unique with the hash where two would be equal.
  judge: string;
  model: string | null;
  protocol: string;
  baseline: boolean;
  runs: number[]; // Indices into runs.
  scope: string; // E.g. "on these 4 scenes" where intervals speak of few scenes that were tried repeatedly; else "".
  overall: Group[]; // By policy; cells include the conditioned metrics.
  by_task: Group[]; // By task and policy; ranks are within the task; no conditioned metrics.
  all: Group[]; // By task: every policy pooled, plus one row with task null for everything (`pooled` true).
  subgoals: SubgoalTable[];
  diagnosis: Diagnosis;
}

/**
 * All runs of one protocol, measured together.
 *
 * Equal to `stepscore metrics RUNS --revision R --json --by ...` over exactly these runs.
 */
export interface Leaderboard extends LeaderboardTables {
  findings: Findings;
}

/** The meaning of a failure mode's name. */
export interface FailureModeRule {
  name: string; // E.g. "early collapse", and "none", "unknown".
  of: "failure" | "success" | "any";
  when: string;
  advice: string;
}

/** Episodes by what the label and the judge say. */
export type Confusion = [
  tp: number,
  fp: number,
  fn: number,
  tn: number,
  unknown: number,
];

/** Agreement of a judge with labels. */
export interface AgreementCells {
  judge: string;
  baseline: boolean;
  /**
   * E.g. "success: accuracy", "success: balanced accuracy", "success: precision", "success: MCC", "AUC of last
   * progress", "AUC of best progress", "AUC of success score", "VOC", "stage_MAE", "stage_CCC", and "TASK: SUBGOAL:
   * accuracy". Absent: no known value.
   */
  cells: Record<string, Est>;
  confusion: Record<string, Confusion>; // By question.
}

/**
 * Agreement with labels of one run, or of one baseline computed for this page if not given as a run.
 *
 * Boards of the same episodes share their baselines.
 */
export interface JudgeAgreement extends AgreementCells {
  model: string | null;
  run: number; // Index into runs; -1 for a baseline computed for this page.
  /** For such a baseline: the first leaderboard whose episodes and sample times it was given; else -1. */
  baseline_for: number;
}

/** What the judges were measured on. */
export interface Benchmark {
  name: string;
  description: string;
  seed: number | null;
  episodes: number;
  tasks: number;
  fingerprint: string;
}

/** A column of a board of judges. */
export interface BoardMetric {
  name: string;
  title: string;
  better: "higher" | "lower";
  percent: boolean;
}

/** What a judge spent on the benchmark. */
export interface JudgeCost {
  videos: number | null;
  calls: number | null;
  images: number | null;
  tokens_in: number | null;
  tokens_out: number | null;
  cost: number | null;
  seconds_per_episode: number | null;
}

/** A judge on the board. */
export interface JudgeRow {
  label: string;
  judge: string;
  model: string | null;
  options: string[]; // E.g. "frames=8".
  protocol_hash: string | null;
  trivial: boolean;
  claimed_by: string | null; // Who says so, where it was not measured here.
  estimates: Record<string, Est>;
  cost: JudgeCost;
  pareto: boolean;
  reason: string | null; // Why it has no numbers.
}

/** Figures that others published of a judge. */
export interface PublishedFigures {
  label: string;
  source: string;
  note: string;
  values: Record<string, number | null>;
}

/** A board of judges on one benchmark: board.json. Such a page has no runs. */
export interface JudgeBoard {
  benchmark: Benchmark;
  metrics: BoardMetric[];
  front: string; // The metric of the Pareto front.
  front_cost: string; // Its cost: "money", "tokens" or "images".
  rows: JudgeRow[];
  published: PublishedFigures[];
}

export type Outcome = "pass" | "warn" | "fail" | "undecided";

/** What a probe shows of a trivial judge. */
export type OfTrivial = [
  outcome: Outcome,
  effect: Est,
];

/** An episode with a bad effect, as indices into episodes (-1: not on the page). */
export interface WorstCase {
  id: string;
  episode: number;
  changed: number;
  effect: number;
}

/** A probe of an audit. */
export interface ProbeData {
  probe: string;
  family: string;
  outcome: Outcome;
  effect: Est;
  bound: number;
  good: "above" | "below"; // On which side of the bound effects are good.
  what: string; // What the effect is.
  expectation: string; // What a sound judge does.
  eligible: number; // Episodes that it could have taken.
  reason: string; // Why it took none; "" where it took some.
  trivial: (OfTrivial | null)[]; // Of each trivial judge.
  worst: WorstCase[]; // Where it is not passed: the worst first.
}

/** A probe to look at first. */
export interface AuditHeadline {
  probe: string;
  title: string;
}

/** A row of `metrics --json`. */
export interface AgreementRow {
  group: Record<string, string | null>;
  metric: string;
  estimate: Est;
}

/** What an audit showed: audit.json, with the episodes that it names found on the page. */
export interface AuditData {
  judge: string;
  model: string | null;
  protocol: string; // Hash.
  source: string;
  created: string; // ISO 8601.
  stepscore: string; // Version.
  episodes: number;
  tasks: string[];
  cameras: string[];
  labelled: boolean; // Whether any episode has a success label.
  seed: number;
  full: boolean; // Every probe took every episode.
  cost: number | null; // As a multiple of judging the episodes once.
  counts: Record<Outcome, number>;
  sentences: string[]; // Of the headline.
  headline: AuditHeadline[]; // The probes to look at first.
  trivial: string[]; // Names of the trivial judges.
  runs: Record<string, number>; // Name of a run of the audit ("judge", "again") -> index into PageData.runs.
  probes: ProbeData[];
  agreement: AgreementRow[];
  policies: string[]; // What the agreement says of policies, a sentence each.
  changes: Record<string, string>; // Episode -> what was changed of it, in words.
}

/** Version of the data's layout, which the built page checks. */
export const FORMAT = 7;

export type Revision = "v1.0" | "paper" | "v1.5" | "robust";

export type WarningKind = "protocols" | "coverage" | "errors" | "unfinished" | "videos" | "left-out";

/** What a reader must know before comparing numbers. */
export interface Warning {
  kind: WarningKind;
  text: string; // A sentence for a person.
  details: string[]; // Lines below it, may be empty (e.g. the fields in which two protocols differ).
}

/** A metric of episodes. */
export interface MetricInfo {
  name: string; // Key in Group.cells and Judgements.values; e.g. "success_label", "MC25", "MP", "VOC", "stage_MAE".
  label: string; // Column head: "success by label", "MC@25", "MP".
  better: "higher" | "lower" | "neither"; // The good direction; "neither" has no rank.
  kind: "rate" | "share" | "mean"; // rate: yes/no per episode; share: in 0..1.
  percent: boolean; // Show x100 with %; false for correlations (VOC, stage_CCC), in -1..1.
  summary: string; // Its meaning, for a tooltip.
  main: boolean; // In the leaderboard by default; others on demand.
}

/** What a run spent. */
export interface Usage {
  seconds: number; // Sum of the time spent on episodes.
  calls: number;
  attempts: number;
  cached: number;
  images: number;
  tokens_in: number;
  tokens_out: number;
  wall_s: number | null; // Of the last start, by the clock.
  cost: number | null; // null: price not known (or no calls: see calls).
  p50_s: number | null; // Latency of a call.
  p95_s: number | null;
}

/** A run as its folder describes it. */
export interface RunFacts {
  name: string; // Folder name.
  path: string;
  judge: string;
  model: string | null;
  protocol: string; // Hash.
  protocol_json: string; // Canonical JSON, indented: the whole protocol.
  baseline: boolean; // A judge that looks at no frame: linear-time, constant, random-monotone.
  source: string;
  status: string; // One of "finished", "started", "stopped by the budget".
  running: boolean; // On a page that is served: whether a process is judging into it now; elsewhere false.
  created: string;
  updated: string;
  versions: Record<string, string>;
  n: number; // Episodes judged, those with an error included.
  errors: number;
  selected: number; // Episodes the run was started on.
  calibrated: boolean | null; // null: no curves, or mixed.
  usage: Usage;
}

/** A run as the page shows it. */
export interface RunInfo extends RunFacts {
  board: number; // Index into leaderboards.
  coverage: Est; // Share of points whose progress is known, over episodes with a curve (metric "coverage").
  id: string; // Short, unique, [a-z0-9-]+: for URLs.
}

/** Who wrote the page, and when. */
export interface Written {
  stepscore: string;
  created: string; // ISO 8601, UTC.
}

/** What every page says of itself, whatever it shows. */
export interface PageFrame {
  format: number; // FORMAT.
  written: Written;
  live: boolean; // Served by `stepscore view` (videos at media/N, newer data at data), not a file on disk.
  version: string; // Of the data on a page that is served; "" elsewhere.
  revision: Revision; // The OPD revision of every stored metric value and Estimate.
  /**
   * Revisions in which the page itself computes opd_prefixes of `progress` with its times while playing ("v1.0",
   * "paper", "v1.5" without smoothing, "robust"), ported from stepscore.metrics.opd; the first is `revision`. The
   * value at the cursor is that of the prefix which ends with the last sample at or before the time of the frame on
   * screen (1e-6 s of tolerance); before the first sample: unknown.
   */
  live_revisions: Revision[];
  failure_mode_rules: FailureModeRule[]; // The meaning of each failure mode's name.
  /** The page of an audit; its leaderboards have no tables, since changed episodes are among its own. */
  audit: AuditData | null;
  judge_board: JudgeBoard | null;
  /** Of a written page with parts: the folder that they are in; a served one asks for parts/NAME. */
  parts: string | null;
}

/** What the explorer shows besides videos and traces. */
export interface Explorer {
  metrics: MetricInfo[]; // In the order of the tables.
  runs: RunInfo[]; // As given on the command line.
  episodes: EpisodeTable;
  paged: boolean; // Curves, verdicts, stages and columns are in parts, loaded when they are looked at.
  truth: TruthTable;
  judgements: Judgements[]; // judgements[i] belongs to runs[i].
  /** Lines that prompts are made of, each once. A prompt is a list of line numbers, joined with "\n". */
  prompt_lines: string[];
  prompts: number[][];
}

/** Everything that a page shows. */
export interface PageData extends PageFrame, Explorer {
  title: string; // E.g. "demo/recorded, demo/linear-time"; set document.title from it.
  warnings: Warning[]; // Shown at the top of the overview.
  boards: Leaderboard[]; // One per protocol: results of different protocols are never in one table.
  judge_agreement: JudgeAgreement[]; // Of each run with labels, then of the baselines computed for this page.
  traces: TraceTable;
  files: MediaFile[];
  videos: VideoTable;
  posters: string[]; // Frames of failures: JPEG in base64, at most 24 of at most 240 pixels; [] without videos.
  methods: string[];
}
