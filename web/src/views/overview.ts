// Warnings, policies, runs with their cost, agreement of judges with labels, protocols.
import type { Context, View } from "../app";
import type { RunInfo, Warning } from "../contract";
import { h } from "../dom";
import { estimateCell } from "../estimate";
import { count, NONE, plural, seconds } from "../format";
import { routeHash } from "../route";
import { agreementSection } from "../judge-agreement";

export function overview(context: Context): View {
  const { page } = context.data;
  const judges = page.boards.filter((board) => !board.baseline).length;
  return {
    element: h(
      "div",
      { class: "stack" },
      h(
        "section",
        { class: "intro" },
        h("h1", {}, page.title),
        h(
          "p",
          { class: "muted" },
          `${plural(page.episodes.n, "episode")}, ${plural(page.episodes.task.values.length, "task")}, ` +
            `${page.episodes.policy.values.length === 1 ? "1 policy" : `${page.episodes.policy.values.length} policies`}, ` +
            `${plural(judges, "judge")}. OPD revision ${page.revision}. Written ${day(page.written.created)} by StepScore ${page.written.stepscore}.`,
        ),
      ),
      page.warnings.map(warning),
      policies(context),
      h("section", {}, h("h2", {}, "Runs"), runsTable(context)),
      agreementSection(context),
      h("section", {}, h("h2", {}, "Protocols"), page.runs.map(protocol)),
    ),
  };
}

const MAX_OPEN_DETAILS = 4; // details of a warning beyond which they are folded

function lines(details: string[]): HTMLElement {
  return h(
    "ul",
    {},
    details.map((line) => h("li", {}, line)),
  );
}

function warning({ text, details, kind }: Warning): HTMLElement {
  return h(
    "div",
    { class: "warning", role: "note", "data-kind": kind },
    h("strong", {}, text),
    details.length > 0 &&
      (details.length > MAX_OPEN_DETAILS
        ? h("details", {}, h("summary", {}, plural(details.length, "detail")), lines(details))
        : lines(details)),
  );
}

/** The headline: success and progress of each policy under the chosen judge. */
function policies({ data, board }: Context): HTMLElement {
  const names = ["success_label", "success_judge", "MP", "PPL", "CRA", "STR"].filter(
    (name) => data.metric(name) && board.overall.some((group) => group.cells[name]),
  );
  return h(
    "section",
    {},
    h("h2", {}, `Policies, by ${board.label}`),
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
            names.map((name) =>
              h("th", { scope: "col", class: "num", title: data.metric(name)!.summary }, data.metric(name)!.label),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          board.overall.map((group) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, group.policy ?? "unknown"),
              names.map((name) =>
                estimateCell(data, data.metric(name)!.label, group.cells[name], data.metric(name), null),
              ),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "more" },
      h("a", { href: routeHash("leaderboard", [], { judge: board.id }) }, "Leaderboard"),
      " · ",
      h("a", { href: routeHash("explorer", [], { judge: board.id }) }, "Episodes"),
    ),
  );
}

function runsTable({ data }: Context): HTMLElement {
  const heads = [
    "Run",
    "Judge",
    "Model",
    "Protocol",
    "Episodes",
    "Errors",
    "Coverage",
    "Calibrated",
    "Calls",
    "Tokens in / out",
    "Cost",
    "Time",
  ];
  return h(
    "div",
    { class: "scroll", tabindex: 0 },
    h(
      "table",
      { class: "numbers runs" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head, i) => h("th", { scope: "col", class: i > 3 ? "num" : "" }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        data.page.runs.map((run) =>
          h(
            "tr",
            { "data-run": run.id },
            h(
              "th",
              { scope: "row", title: `${run.path}\nfrom ${run.source}` },
              h("a", { href: routeHash("explorer", [run.id], {}) }, run.name),
              run.status !== "finished" && h("span", { class: "tag warn" }, run.status),
            ),
            h("td", {}, run.judge, run.baseline && h("span", { class: "tag" }, "baseline")),
            h("td", {}, run.model ?? NONE),
            h("td", {}, h("code", { title: "Hash of all that can change a number" }, run.protocol)),
            h(
              "td",
              { class: "num", "data-value": run.n },
              run.n === run.selected ? count(run.n) : `${count(run.n)} of ${count(run.selected)}`,
            ),
            h("td", { class: run.errors ? "num bad" : "num", "data-value": run.errors }, count(run.errors)),
            estimateCell(data, "Coverage", run.coverage, { percent: true }, null),
            h("td", { class: "num" }, run.calibrated === null ? NONE : run.calibrated ? "yes" : "no"),
            ...usage(run),
          ),
        ),
      ),
    ),
  );
}

function usage({ usage: used }: RunInfo): HTMLElement[] {
  const latency =
    used.p50_s === null ? "" : `A call takes ${seconds(used.p50_s)} (median), ${seconds(used.p95_s)} (95th percentile)`;
  return [
    h(
      "td",
      {
        class: "num",
        title: `${count(used.attempts)} attempts, ${count(used.cached)} from the cache, ${count(used.images)} images`,
      },
      count(used.calls),
    ),
    h("td", { class: "num" }, used.calls ? `${count(used.tokens_in)} / ${count(used.tokens_out)}` : NONE),
    h("td", { class: "num" }, used.cost === null ? NONE : `$${used.cost.toFixed(used.cost < 1 ? 4 : 2)}`),
    h("td", { class: "num", title: latency }, seconds(used.wall_s ?? used.seconds)),
  ];
}

function protocol(run: RunInfo): HTMLElement {
  return h(
    "details",
    {},
    h("summary", {}, h("code", {}, run.protocol), ` ${run.name}: ${run.judge}${run.model ? `, ${run.model}` : ""}`),
    h(
      "p",
      { class: "muted" },
      `${run.path}, started ${day(run.created)}, last written ${day(run.updated)}. ` +
        Object.entries(run.versions)
          .map(([name, version]) => `${name} ${version}`)
          .join(", "),
    ),
    h("pre", { tabindex: 0 }, run.protocol_json),
  );
}

function day(iso: string): string {
  return iso.slice(0, 16).replace("T", " ");
}
