// How far each judge agrees with labels, and beside it what is got without looking.
import type { Context } from "./app";
import type { Trust } from "./contract";
import { h } from "./dom";
import { estimateCell, number } from "./estimate";
import { plural } from "./format";
import { distinct } from "./names";

/** Whole-episode questions as columns; the many questions about subgoals as rows of a second table. */
export function trustSection(context: Context): HTMLElement | null {
  const { trust } = context.data.page;
  const names = distinct(trust.flatMap((row) => Object.keys(row.cells)));
  const whole = names.filter((name) => !isSubgoal(name));
  const subgoals = names.filter((name) => isSubgoal(name) && name.endsWith(": accuracy"));
  if (!names.length) return null;
  const asked = trust.filter((row) => subgoals.some((name) => row.cells[name]));
  return h(
    "section",
    { class: "trust" },
    h("h2", {}, "How far to trust each judge"),
    h(
      "p",
      { class: "muted" },
      "Against labels. A baseline sees no picture: a judge that does not beat it has shown nothing.",
    ),
    h(
      "div",
      { class: "scroll" },
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
          trust.map((row) =>
            h(
              "tr",
              { class: row.trivial ? "baseline" : "" },
              h("th", { scope: "row" }, ...trustName(context, row)),
              whole.map((name) => trustCell(context, name, row)),
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
          { class: "scroll" },
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
                asked.map((row) => h("th", { scope: "col", class: "num" }, ...trustName(context, row))),
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
                  asked.map((row) => trustCell(context, name, row)),
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

function trustName({ data }: Context, row: Trust): (string | Node)[] {
  const name = `${row.judge}${row.model ? ` ${row.model}` : ""}`;
  const mark = row.trivial ? [h("span", { class: "tag" }, "baseline")] : [];
  const beside = row.beside < 0 ? [] : [h("small", { class: "muted" }, `beside ${data.page.boards[row.beside].label}`)];
  return [name, ...mark, ...beside];
}

function trustCell({ data }: Context, name: string, row: Trust): HTMLElement {
  const estimate = row.cells[name];
  const shape = data.metric(name) ?? { percent: /accuracy/.test(name) };
  const cell = estimateCell(data, name, estimate, shape, null);
  const counts = row.confusion[name.replace(/: (balanced accuracy|accuracy|MCC)$/, "")];
  if (counts && estimate) {
    const [tp, fp, fn, tn, unknown] = counts;
    cell.title +=
      `\nyes and right ${tp}, yes and wrong ${fp}, no and wrong ${fn}, no and right ${tn}, unknown ${unknown}` +
      ` (value ${number(estimate[0], shape)})`;
  }
  return cell;
}
