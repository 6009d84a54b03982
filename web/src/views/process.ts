// How policies succeed and fail: quality among successes, failure modes, curves.
import type { Context, View } from "../app";
import type { Diagnosis, Est, Group } from "../contract";
import { h } from "../dom";
import { dotRows, legend } from "../dots";
import { estimateCell } from "../estimate";
import { conditionedName } from "../conditions";
import { count, decimal, fixed, known, plural, scopeText } from "../format";
import { metricName } from "../metric-name";
import { overlay } from "../overlay";
import { baselineNote } from "../baseline-note";
import { colourVariable, distinct, packName, displayName } from "../names";
import { routeHash } from "../route";

const SUCCESS_METRICS = ["MP", "PPL", "CRA", "STR", "DRR", "SQS", "VOC"];
const FAILURE_METRICS = ["MC50", "MC75", "MP", "PPL", "CRA", "STR", "DRR", "FNS"];

export function processView(context: Context): View {
  if (context.board.baseline) return nothingSeen(context);
  const curves = overlay(context);
  const { source } = context.board.diagnosis;
  return {
    element: h(
      "div",
      { class: "stack" },
      h("h1", {}, "Process and diagnosis"),
      h(
        "p",
        { class: "muted" },
        `Judged by ${context.board.label}; success by ${source === "label" ? "label" : "judge, as there are no labels"}; OPD revision ${context.data.page.revision}.${scopeText(context.board)}`,
      ),
      conditioned(context, "Quality among successes", `${source}1`, SUCCESS_METRICS),
      failureModes(context),
      conditioned(context, "Progress of failures", `${source}0`, FAILURE_METRICS),
      zScores(context),
      curves.element,
    ),
    repaint: curves.repaint,
    close: curves.close,
  };
}

/** Of a judge that looks at no frame there is nothing to diagnose. */
function nothingSeen({ board }: Context): View {
  return {
    element: h(
      "div",
      { class: "stack" },
      h("h1", {}, "Process and diagnosis"),
      h("p", { class: "muted" }, `Judged by ${board.label}.`),
      baselineNote(board),
    ),
  };
}

function conditioned({ data, board }: Context, title: string, condition: string, names: string[]): HTMLElement {
  const metrics = names
    .flatMap((name) => data.metric(name) ?? [])
    .filter(({ name }) => board.overall.some((group) => group.cells[conditionedName(name, condition)]));
  const rows = board.overall.filter((group) =>
    metrics.some(({ name }) => (group.cells[conditionedName(name, condition)]?.[3] ?? 0) > 0),
  );
  if (!rows.length) return h("section", {}, h("h2", {}, title), h("p", { class: "empty" }, "None."));
  const rowN = (group: Group): number =>
    Math.max(...metrics.map(({ name }) => group.cells[conditionedName(name, condition)]?.[3] ?? 0));
  return h(
    "section",
    {},
    h("h2", {}, title),
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
            h("th", { scope: "col" }, "Policy"),
            h("th", { scope: "col", class: "num" }, "Episodes"),
            metrics.map((metric) =>
              h("th", { scope: "col", class: "num", title: metric.summary }, metricName(metric.label, metric.better)),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((group) =>
            h(
              "tr",
              { "data-policy": displayName(group.policy) },
              h("th", { scope: "row" }, displayName(group.policy)),
              h("td", { class: "num" }, count(rowN(group))),
              metrics.map((metric) => {
                const name = conditionedName(metric.name, condition);
                return estimateCell(
                  data,
                  name,
                  group.cells[name],
                  metric,
                  routeHash("explorer", [], {
                    judge: board.id,
                    policy: packName(group.policy),
                    success: condition,
                    sort: metric.name,
                  }),
                  { rowN: rowN(group) },
                );
              }),
            ),
          ),
        ),
      ),
    ),
  );
}

function failureModes({ data, board }: Context): HTMLElement {
  const { diagnosis } = board;
  const names = distinct(diagnosis.policies.flatMap(({ shares }) => Object.keys(shares)));
  const failing = diagnosis.policies.filter(({ failures }) => failures > 0);
  if (!failing.length)
    return h("section", {}, h("h2", {}, "Failure modes"), h("p", { class: "empty" }, "No episode failed."));
  const policies = distinct(board.overall.map((group) => group.policy));
  const colour = (policy: string | null): string => colourVariable(policies.indexOf(policy));
  const rule = (name: string): string => data.page.failure_mode_rules.find((found) => found.name === name)?.when ?? "";
  return h(
    "section",
    {},
    h("h2", {}, "Failure modes"),
    legend(
      failing.map(({ policy, failures }) => ({
        name: displayName(policy),
        colour: colour(policy),
        count: plural(failures, "failure"),
      })),
    ),
    dotRows(
      data,
      names.map((text) => ({ text, title: rule(text) })),
      failing.map(({ policy, shares }) => ({
        name: displayName(policy),
        colour: colour(policy),
        estimates: names.map((name) => shares[name] ?? noneOf(shares)),
        n: noneOf(shares)[3],
        href: (row: number) =>
          routeHash("explorer", [], {
            judge: board.id,
            policy: packName(policy),
            success: `${diagnosis.source}0`,
            mode: names[row],
          }),
      })),
      "bar",
    ),
    h(
      "ul",
      { class: "advice" },
      failing.map((policy) => adviceLine(policy)),
    ),
    h(
      "details",
      {},
      h("summary", {}, "Meaning of the names"),
      h(
        "dl",
        { class: "rules" },
        data.page.failure_mode_rules.flatMap(({ name, of, when }) => [
          h("dt", {}, name),
          h("dd", {}, `${when}${of === "any" ? "" : ` (${of} only)`}`),
        ]),
      ),
    ),
  );
}

/** A policy without failures of a known mode has no shares: all of them are unknown. */
function noneOf(shares: Record<string, Est>): Est {
  const [, , , n, clusters, coverage] = Object.values(shares)[0] ?? [0, null, null, 0, 0, null, -1];
  return [n ? 0 : null, null, null, n, clusters, coverage, -1];
}

function adviceLine({ policy, failures, stability, slow, advice }: Diagnosis["policies"][number]): HTMLElement {
  const facts = [plural(failures, "failure")];
  facts.push(known(stability) ? `similarity between tasks ${decimal(stability)}` : "one task only");
  if (known(slow[0]) && slow[0] > 0) facts.push(`${Math.round(100 * slow[0])} % of successes too slow (n ${slow[3]})`);
  return h(
    "li",
    {},
    h("strong", {}, displayName(policy)),
    " ",
    h("span", { class: "muted" }, `(${facts.join("; ")})`),
    advice ? ` ${advice}` : "",
  );
}

/** Failures of each policy against those of the others, in standard deviations. */
function zScores({ data, board }: Context): HTMLElement | null {
  const { diagnosis } = board;
  if (!diagnosis.z.flat().some(known)) return null;
  return h(
    "section",
    {},
    h("h2", {}, "Failures compared with the other policies"),
    h(
      "p",
      { class: "muted" },
      "Standard deviations above the mean over policies; ↑ more, ↓ less is better, and green is better.",
    ),
    h(
      "div",
      { class: "scroll", tabindex: 0 },
      h(
        "table",
        { class: "numbers heat" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Policy"),
            diagnosis.z_metrics.map((name) =>
              h(
                "th",
                { scope: "col", class: "num" },
                metricName(data.metric(name)?.label ?? name, data.metric(name)?.better ?? "neither"),
              ),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          diagnosis.policies.map(({ policy }, i) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, displayName(policy)),
              diagnosis.z[i].map((z, k) => heatCell(z, data.metric(diagnosis.z_metrics[k])?.better === "lower")),
            ),
          ),
        ),
      ),
    ),
  );
}

function heatCell(z: number | null, lowerIsBetter: boolean): HTMLElement {
  const text = known(z) ? fixed(z, 1) : "–";
  const cell = h("td", { class: "num", "data-value": z }, known(z) && Number(text) > 0 ? `+${text}` : text);
  if (known(z)) {
    cell.classList.add(z >= 0 !== lowerIsBetter ? "up" : "down");
    cell.style.setProperty("--strength", `${Math.round(Math.min(1, Math.abs(z) / 2) * 45)}%`);
  }
  return cell;
}
