// One row a policy: its success with an interval, how far its rollouts get, and where they fail first.
import type { Context } from "../app";
import type { Est, Group } from "../contract";
import { h } from "../dom";
import { sentence } from "../estimate";
import { known, NONE, percent, plural } from "../format";
import { metricName } from "../metric-name";
import { colourVariable, displayName, distinct, packName } from "../names";
import { routeHash } from "../route";

const MAX_POLICIES = 12; // rows; the leaderboard has all
const MAX_BARS = 10; // bars that have room for their numbers
const MILESTONES = ["MC25", "MC50", "MC75", "MC100"];

interface Funnel {
  names: string[];
  reached: Est[];
}

export function policySection(context: Context): HTMLElement | null {
  const { data, board } = context;
  const { opening, first_failures: phrases } = board.findings;
  const metric = data.metric(opening.metric);
  const groups = ordered(board.overall, opening.tiers.flat());
  if (!groups.length) return null;
  const policies = distinct(board.overall.map((group) => group.policy));
  const shown = groups.slice(0, MAX_POLICIES);
  const funnels = new Map(shown.map((group) => [group.policy, funnelOf(context, group)]));
  const drawn = [...funnels.values()].find(Boolean);
  const [each] = distinct(shown.map(({ episodes }) => episodes));
  const counted = (group: Group): number => group.cells[opening.metric]?.[3] ?? group.episodes;
  const equal = shown.every((group) => group.episodes === each && counted(group) === each);
  return h(
    "section",
    { class: "policies" },
    h(
      "h2",
      {},
      metric ? metricName(capital(metric.label), metric.better) : "Policies",
      drawn && (groups.length > 1 ? ", and how far each policy gets" : ", and how far the policy gets"),
    ),
    metric && h("p", { class: "muted" }, legendText(context, drawn, equal ? ofRollouts(each, groups.length) : "")),
    h(
      "ul",
      { class: "standings" },
      shown.map((group) => {
        const phrase = phrases.find(({ policy }) => policy === group.policy)?.phrase ?? "";
        const colour = colourVariable(policies.indexOf(group.policy));
        const row = h(
          "li",
          { "data-policy": displayName(group.policy) },
          policyName(context, group, equal ? "" : ofAll(counted(group), group.episodes)),
          dot(context, group, group.cells[opening.metric]),
          bars(context, group, funnels.get(group.policy)),
          h("span", { class: "phrase" }, phrase),
        );
        row.style.setProperty("--colour", colour);
        return row;
      }),
      metric &&
        h(
          "li",
          { class: "standings-axis", "aria-hidden": "true" },
          h("span", {}),
          h("span", { class: "axis" }, h("i", {}, "0"), h("i", {}, "50"), h("i", {}, "100 %")),
        ),
    ),
    groups.length > shown.length &&
      h(
        "p",
        { class: "more" },
        h(
          "a",
          { href: routeHash("leaderboard", [], { judge: board.id, sort: opening.metric }) },
          `${groups.length - shown.length} more in the leaderboard`,
        ),
      ),
  );
}

/** Best first, as the sentences have them; those of which nothing is known last. */
function ordered(groups: Group[], best: (string | null)[]): Group[] {
  const place = (group: Group): number => (best.includes(group.policy) ? best.indexOf(group.policy) : best.length);
  return [...groups].sort((a, b) => place(a) - place(b));
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "20 rollouts", or "9 of 20 rollouts" where the others' value is unknown. */
function ofAll(n: number, episodes: number): string {
  return n === episodes ? plural(n, "rollout") : `${n} of ${plural(episodes, "rollout")}`;
}

function policyName({ board }: Context, group: Group, count: string): HTMLElement {
  return h(
    "span",
    { class: "policy" },
    h("i", { class: "swatch", "aria-hidden": "true" }),
    h(
      "a",
      { href: routeHash("explorer", [], { judge: board.id, policy: packName(group.policy) }) },
      displayName(group.policy),
    ),
    count && h("small", { class: "muted" }, count),
  );
}

/** The value as a dot with its interval on a line from 0 to 100 %, and in figures. */
function dot({ data, board }: Context, group: Group, estimate: Est | undefined): HTMLElement {
  const metric = data.metric(board.findings.opening.metric);
  if (!estimate || !known(estimate[0]))
    return h("span", { class: "measure" }, h("span", { class: "scale" }), h("span", { class: "figure" }, NONE));
  const [value, lo, hi, n] = estimate;
  const text = sentence(data, `${displayName(group.policy)}, ${metric?.label ?? ""}`, estimate, metric);
  const scale = h("span", { class: "scale", role: "img", "aria-label": text, title: text });
  if (known(lo) && known(hi)) scale.append(placed("range", lo, hi));
  scale.append(placed("dot", value, value));
  return h(
    "span",
    { class: "measure", "data-value": value, "data-lo": lo, "data-hi": hi, "data-n": n },
    scale,
    h(
      "span",
      { class: "figure" },
      h("b", {}, known(value) ? `${percent(value, 0)} %` : NONE),
      h("small", {}, known(lo) && known(hi) ? `${percent(lo, 0)}–${percent(hi, 0)}` : "no interval"),
    ),
  );
}

function placed(name: string, from: number, to: number): HTMLElement {
  const mark = h("i", { class: name });
  mark.style.left = `${100 * from}%`;
  if (to > from) mark.style.width = `${100 * (to - from)}%`;
  return mark;
}

/** Subgoals, where there are verdicts or labels of them; else quarters of the judge's progress. */
function funnelOf({ board }: Context, group: Group): Funnel | undefined {
  const { funnels } = board.findings;
  if (funnels.length) return funnels.find(({ policy }) => policy === group.policy);
  const reached = MILESTONES.flatMap((name) => (group.cells[name] ? [group.cells[name]] : []));
  return reached.length === MILESTONES.length ? { names: MILESTONES.map(quarter), reached } : undefined;
}

function quarter(name: string): string {
  return `${name.slice(2)} % of progress`;
}

function bars({ data }: Context, group: Group, funnel: Funnel | undefined): HTMLElement {
  if (!funnel) return h("span", { class: "funnel" });
  const text = funnel.names.map((name, i) => sentence(data, name, funnel.reached[i], { percent: true })).join("\n");
  const columns = funnel.reached.map((estimate) => {
    const bar = h("i", { class: "bar" });
    bar.style.height = known(estimate[0]) ? `${100 * estimate[0]}%` : "0";
    return h(
      "span",
      { class: "column", "data-value": estimate[0] },
      h("span", { class: "room" }, bar),
      funnel.reached.length <= MAX_BARS && h("small", {}, percent(estimate[0], 0)),
    );
  });
  return h(
    "span",
    { class: "funnel", role: "img", title: text, "aria-label": `${displayName(group.policy)} reaches: ${text}` },
    columns,
  );
}

/** " of 8 rollouts each". */
function ofRollouts(n: number, policies: number): string {
  return ` of ${plural(n, "rollout")}${policies > 1 ? " each" : ""}`;
}

function legendText({ data, board }: Context, funnel: Funnel | undefined, of: string): string {
  const parts = [`Dot and 95 % interval${of}`];
  const found = board.findings.funnels[0];
  if (found) {
    const by = found.source === "label" ? "by label" : "by the judge";
    parts.push(`bars: share of rollouts that reach each of ${funnel?.names.length ?? 0} subgoals, in order, ${by}`);
    if (found.tasks > 1) parts.push(`${plural(found.tasks, "task")} pooled by place in the order`);
    const left = board.findings.funnels.reduce((sum, { left_out: n }) => sum + n, 0);
    if (left) parts.push(`${plural(left, "rollout")} with another number of subgoals left out`);
  } else if (funnel) {
    const state = board.runs.every((run) => data.page.runs[run].calibrated) ? "" : ", uncalibrated";
    parts.push(`bars: share of rollouts that reach 25, 50, 75 and 100 % of progress, by the judge${state}`);
  }
  return `${parts.join(" · ")}.`;
}
