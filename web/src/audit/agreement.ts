// Agreement with labels as the audit stored it: a table for each kind of group.
import type { Context } from "../app";
import type { AuditData, Est } from "../contract";
import { h } from "../dom";
import { estimateCell } from "../estimate";
import { distinct } from "../names";

type Row = AuditData["agreement"][number];

/** Metrics that are correlations, counts or amounts, not shares. */
const PLAIN = /^(judge:(MCC|kappa|TP|FP|FN|TN|unknown|tau.*|VOC|stage_CCC|.*CCC|.*tau)|cost:.*)$/;

export function agreementSection(context: Context, audit: AuditData): HTMLElement | null {
  const rows = audit.agreement.filter(({ metric, estimate }) => !metric.startsWith("cost:") && estimate[0] !== null);
  if (!rows.length) return null;
  const kinds = distinct(rows.map(kindOf));
  return h(
    "section",
    { class: "agreement" },
    h("h2", {}, "Agreement with labels"),
    h("p", { class: "muted" }, "On the episodes as recorded; shares in percent with 95 % intervals."),
    audit.policies.map((text) => h("p", {}, text)),
    kinds.map((kind) =>
      table(
        context,
        kind,
        rows.filter((row) => kindOf(row) === kind),
      ),
    ),
  );
}

/** What the groups of a table have in common: the names of their keys. */
function kindOf({ group }: Row): string {
  const keys = Object.keys(group).filter((key) => key !== "judge" && key !== "baseline_for");
  return keys.join(", ");
}

function nameOf({ group }: Row): string {
  return Object.entries(group)
    .filter(([key]) => key !== "baseline_for")
    .map(([, value]) => value ?? "unknown")
    .join(": ");
}

function table(context: Context, kind: string, rows: Row[]): HTMLElement {
  const metrics = distinct(rows.map(({ metric }) => metric));
  const groups = distinct(rows.map(nameOf));
  const find = (name: string, metric: string): Est | undefined =>
    rows.find((row) => row.metric === metric && nameOf(row) === name)?.estimate;
  const label = (metric: string): string => metric.replace(/^judge:/, "");
  return h(
    "details",
    {},
    h("summary", {}, kind ? `By ${kind}` : "Order of progress and of policies"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": kind || "Order" },
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
            metrics.map((one) => h("th", { scope: "col", class: "num" }, label(one))),
          ),
        ),
        h(
          "tbody",
          {},
          groups.map((name) =>
            h(
              "tr",
              { class: rows.some((row) => nameOf(row) === name && "baseline_for" in row.group) ? "baseline" : "" },
              h("th", { scope: "row", dir: "auto" }, name),
              metrics.map((metric) =>
                estimateCell(
                  context.data,
                  `${name}, ${label(metric)}`,
                  find(name, metric),
                  { percent: !PLAIN.test(metric) },
                  null,
                  {
                    bare: PLAIN.test(metric) && find(name, metric)?.[1] === null,
                  },
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
