// Agreement of each judge with labels, compared with the baselines.
import type { Context } from "./app";
import type { Est, JudgeAgreement, MetricInfo } from "./contract";
import { h } from "./dom";
import { estimateCell, number } from "./estimate";
import { count, plural } from "./format";
import { metricName } from "./metric-name";
import { distinct } from "./names";

/** What is measured of yes and no answers, in the order of the columns; "precision" of those called a success. */
const OF_ANSWERS = ["accuracy", "balanced accuracy", "precision", "recall", "F1", "MCC", "FPR", "FNR", "kappa"];
/** Rates of errors. */
const LOWER = ["FPR", "FNR"];
const CORRELATIONS = ["MCC", "kappa", "VOC", "stage_CCC"];

/** Verdicts on success, order and progress, verdicts on subgoals: a table each; null where nothing is known. */
export function agreementTables(context: Context): HTMLElement | null {
  const rows = context.data.page.judge_agreement.filter(({ cells }) => Object.keys(cells).length);
  if (!rows.length) return null;
  const names = distinct(rows.flatMap((row) => Object.keys(row.cells)));
  const others = names.filter((name) => !questionOf(name));
  return h(
    "div",
    { class: "agreement" },
    h(
      "p",
      { class: "muted" },
      "How well each judge agrees with the labels; 95 % intervals below. A baseline looks at no frame: a judge should do better than it.",
    ),
    judgeTable(
      context,
      "Verdicts on success",
      rows,
      OF_ANSWERS.map((measure): Column => [`success: ${measure}`, measure]),
    ),
    judgeTable(
      context,
      "Order and progress",
      rows,
      others.map((name): Column => [name, context.data.metric(name)?.label ?? name]),
    ),
    rows.map((row) => subgoalTable(context, row)),
  );
}

type Column = [name: string, label: string];

function judgeTable(context: Context, title: string, rows: JudgeAgreement[], columns: Column[]): HTMLElement | null {
  const known = columns.filter(([name]) => rows.some((row) => row.cells[name]));
  const judges = rows.filter((row) => known.some(([name]) => row.cells[name]));
  if (!known.length) return null;
  return table(
    context,
    title,
    "Judge",
    known.map(([name, label]) => [label, better(context, name)]),
    judges.map((row) => ({
      heading: judgeHeading(context, row),
      baseline: row.baseline,
      cells: known.map(([name]) => ({ name, row })),
    })),
  );
}

/** One judge's verdicts on each subgoal, folded; null where it gives none or none is labelled. */
function subgoalTable(context: Context, row: JudgeAgreement): HTMLElement | null {
  const questions = distinct(Object.keys(row.cells).map(questionOf)).filter((name) => name && name !== "success");
  if (!questions.length) return null;
  const measures = OF_ANSWERS.filter((measure) => questions.some((name) => row.cells[`${name}: ${measure}`]));
  return h(
    "details",
    {},
    h("summary", {}, `Verdicts of ${judgeName(row)} on ${plural(questions.length, "subgoal")}`),
    table(
      context,
      "",
      "Task and subgoal",
      measures.map((measure) => [measure, LOWER.includes(measure) ? "lower" : "higher"]),
      questions.map((name) => ({
        heading: [name],
        baseline: false,
        cells: measures.map((measure) => ({ name: `${name}: ${measure}`, row })),
      })),
    ),
  );
}

interface Line {
  heading: (string | Node)[];
  baseline: boolean;
  cells: { name: string; row: JudgeAgreement }[];
}

function table(
  context: Context,
  title: string,
  first: string,
  heads: [label: string, better: MetricInfo["better"]][],
  lines: Line[],
): HTMLElement {
  const estimates = lines.flatMap(({ cells }) =>
    cells.flatMap(({ name, row }) => (row.cells[name] ? [row.cells[name]] : [])),
  );
  // If no number has an interval, state the reason once, above them.
  const bare = estimates.every(([, lo]) => lo === null);
  const reasons = bare
    ? distinct(estimates.filter(([value]) => value !== null).map((e) => context.data.method(e)))
    : [];
  return h(
    "div",
    { class: "scroll", tabindex: 0 },
    h(
      "table",
      { class: "numbers" },
      h(
        "caption",
        {},
        title,
        reasons.length > 0 && h("small", { class: "muted" }, ` no intervals: ${reasons.join("; ")}`),
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, first),
          h("th", { scope: "col", class: "num" }, "n"),
          heads.map(([label, direction]) => h("th", { scope: "col", class: "num" }, metricName(label, direction))),
        ),
      ),
      h(
        "tbody",
        {},
        lines.map(({ heading, baseline, cells }) => {
          const rowN = Math.max(...cells.map(({ name, row }) => row.cells[name]?.[3] ?? 0));
          return h(
            "tr",
            { class: baseline ? "baseline" : "" },
            h("th", { scope: "row" }, ...heading),
            h("td", { class: "num" }, count(rowN)),
            cells.map(({ name, row }) => agreementCell(context, name, row, { rowN, bare })),
          );
        }),
      ),
    ),
  );
}

/** "success" of "success: precision", "TASK: SUBGOAL" of "TASK: SUBGOAL: precision"; "" of other names. */
function questionOf(name: string): string {
  const measure = OF_ANSWERS.find((ending) => name.endsWith(`: ${ending}`));
  return measure ? name.slice(0, -measure.length - 2) : "";
}

function better({ data }: Context, name: string): MetricInfo["better"] {
  const error = LOWER.some((ending) => name.endsWith(`: ${ending}`));
  return data.metric(name)?.better ?? (error ? "lower" : "higher");
}

function judgeName(row: JudgeAgreement): string {
  return `${row.judge}${row.model ? ` ${row.model}` : ""}`;
}

function judgeHeading({ data }: Context, row: JudgeAgreement): (string | Node)[] {
  const tag = row.baseline ? [h("span", { class: "tag" }, "baseline")] : [];
  // Whose episodes a baseline was given is only worth saying where there are several such sets.
  const sets = distinct(data.page.judge_agreement.map(({ baseline_for: board }) => board)).filter(
    (board) => board >= 0,
  );
  const compared =
    row.baseline_for < 0 || sets.length < 2
      ? []
      : [h("small", { class: "muted" }, `for ${data.page.boards[row.baseline_for].label}`)];
  return [judgeName(row), ...tag, ...compared];
}

function agreementCell(
  { data }: Context,
  name: string,
  row: JudgeAgreement,
  options: { rowN: number; bare: boolean },
): HTMLElement {
  const estimate: Est | undefined = row.cells[name];
  const shape = data.metric(name) ?? { percent: !CORRELATIONS.some((ending) => name.endsWith(ending)) };
  const cell = estimateCell(data, name, estimate, shape, null, options);
  const counts = row.confusion[questionOf(name)];
  if (counts && estimate) {
    const [tp, fp, fn, tn, unknown] = counts;
    cell.title +=
      `\ntrue positives ${tp}, false positives ${fp}, false negatives ${fn}, true negatives ${tn}, unknown ${unknown}` +
      ` (value ${number(estimate[0], shape)})`;
  }
  return cell;
}
