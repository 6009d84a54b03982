// Agreement of each judge with labels, compared with the baselines.
import type { Context } from "./app";
import type { JudgeAgreement } from "./contract";
import { h } from "./dom";
import { estimateCell, number } from "./estimate";
import { plural } from "./format";
import { distinct } from "./names";

/** Questions about whole episodes are columns; those about subgoals are rows of a second table. */
export function agreementSection(context: Context): HTMLElement | null {
  const rows = context.data.page.judge_agreement;
  const names = distinct(rows.flatMap((row) => Object.keys(row.cells)));
  const whole = names.filter((name) => !isSubgoal(name));
  const subgoals = names.filter((name) => isSubgoal(name) && name.endsWith(": accuracy"));
  if (!names.length) return null;
  const judges = rows.filter((row) => subgoals.some((name) => row.cells[name]));
  return h(
    "section",
    { class: "agreement" },
    h("h2", {}, "Agreement with labels"),
    h(
      "p",
      { class: "muted" },
      "How well each judge agrees with the labels. A baseline looks at no frame: a judge should do better than it.",
    ),
    h(
      "div",
      { class: "scroll", tabindex: 0 },
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Judge"),
            whole.map((name) => h("th", { scope: "col", class: "num" }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              { class: row.baseline ? "baseline" : "" },
              h("th", { scope: "row" }, ...judgeHeading(context, row)),
              whole.map((name) => agreementCell(context, name, row)),
            ),
          ),
        ),
      ),
    ),
    subgoals.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `Accuracy on ${plural(subgoals.length, "subgoal")}`),
        h(
          "div",
          { class: "scroll", tabindex: 0 },
          h(
            "table",
            { class: "numbers" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                h("th", { scope: "col" }, "Task and subgoal"),
                judges.map((row) => h("th", { scope: "col", class: "num" }, ...judgeHeading(context, row))),
              ),
            ),
            h(
              "tbody",
              {},
              subgoals.map((name) =>
                h(
                  "tr",
                  {},
                  h("th", { scope: "row" }, name.replace(/: accuracy$/, "")),
                  judges.map((row) => agreementCell(context, name, row)),
                ),
              ),
            ),
          ),
        ),
      ),
  );
}

function isSubgoal(name: string): boolean {
  return /: (balanced accuracy|accuracy|MCC)$/.test(name) && !name.startsWith("success: ");
}

function judgeHeading({ data }: Context, row: JudgeAgreement): (string | Node)[] {
  const name = `${row.judge}${row.model ? ` ${row.model}` : ""}`;
  const tag = row.baseline ? [h("span", { class: "tag" }, "baseline")] : [];
  const compared =
    row.baseline_for < 0 ? [] : [h("small", { class: "muted" }, `for ${data.page.boards[row.baseline_for].label}`)];
  return [name, ...tag, ...compared];
}

function agreementCell({ data }: Context, name: string, row: JudgeAgreement): HTMLElement {
  const estimate = row.cells[name];
  const shape = data.metric(name) ?? { percent: /accuracy/.test(name) };
  const cell = estimateCell(data, name, estimate, shape, null);
  const counts = row.confusion[name.replace(/: (balanced accuracy|accuracy|MCC)$/, "")];
  if (counts && estimate) {
    const [tp, fp, fn, tn, unknown] = counts;
    cell.title +=
      `\ntrue positives ${tp}, false positives ${fp}, false negatives ${fn}, true negatives ${tn}, unknown ${unknown}` +
      ` (value ${number(estimate[0], shape)})`;
  }
  return cell;
}
