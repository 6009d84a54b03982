// The runs of the page: judge, model, protocol, coverage, calls, cost and time.
import type { Context } from "../app";
import type { RunInfo } from "../contract";
import { h } from "../dom";
import { estimateCell } from "../estimate";
import { count, NONE, seconds } from "../format";
import { routeHash } from "../route";

export function runsTable({ data }: Context): HTMLElement {
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
            estimateCell(data, "Coverage", run.coverage, { percent: true }, null, {
              rowN: run.coverage[3],
              bare: run.coverage[1] === null,
            }),
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

export function protocolDetails(run: RunInfo): HTMLElement {
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
