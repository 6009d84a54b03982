// Every probe, by what it changes: expectation, effect, bound, n, outcome, and the episodes it is worst on.
import type { Context } from "../app";
import type { AuditData, ProbeData } from "../contract";
import { h } from "../dom";
import { count, decimal } from "../format";
import { distinct } from "../names";
import { routeHash } from "../route";
import { outcomeMark, trivialName } from "./outcome";
import { domainOf, effectFigure, effectScale, goodText } from "./scale";

export function probeSections(context: Context, audit: AuditData): HTMLElement[] {
  return distinct(audit.probes.map(({ family }) => family)).map((family) => {
    const probes = audit.probes.filter((one) => one.family === family);
    const applied = probes.filter(({ reason }) => !reason);
    const left = probes.filter(({ reason }) => reason);
    return h(
      "section",
      { class: "probes", "data-family": family },
      h("h2", {}, `Probes: ${family}`),
      applied.length > 0 && table(context, audit, applied),
      left.map(({ probe, reason }) =>
        h("p", { class: "muted not-applied" }, h("b", {}, probe), ` not applied: ${reason}`),
      ),
    );
  });
}

function table(context: Context, audit: AuditData, probes: ProbeData[]): HTMLElement {
  const heads = ["Probe", "Outcome", "", "Effect", "Good", "n", ...audit.trivial.map(trivialName)];
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Probes" },
    h(
      "table",
      { class: "numbers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head, i) =>
            head ? h("th", { scope: "col", class: i >= 3 && i <= 5 ? "num" : "" }, head) : h("td", {}),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        probes.flatMap((probe) => rows(context, audit, probe)),
      ),
    ),
  );
}

function rows(context: Context, audit: AuditData, probe: ProbeData): HTMLElement[] {
  const [, , , n] = probe.effect;
  const row = h(
    "tr",
    { "data-probe": probe.probe, "data-outcome": probe.outcome },
    h("th", { scope: "row" }, probe.probe, h("small", { class: "expected" }, probe.expectation)),
    h("td", {}, outcomeMark(probe.outcome)),
    h("td", { class: "drawn" }, effectScale(context.data, probe.probe, probe, probe.effect, domainOf(probe))),
    h("td", { class: "est", title: probe.what }, effectFigure(probe.effect)),
    h("td", { class: "num" }, goodText(probe)),
    h(
      "td",
      {
        class: "num",
        title: `${count(n)} episodes with a known effect, of ${count(probe.eligible)} that it could take`,
      },
      count(n),
    ),
    probe.trivial.map((one) => h("td", {}, one ? outcomeMark(one[0]) : "–")),
  );
  return probe.worst.length ? [row, worstRow(context, audit, probe)] : [row];
}

/** The episodes to look at; each opens the explorer with the recorded and the changed one side by side. */
function worstRow(context: Context, audit: AuditData, probe: ProbeData): HTMLElement {
  return h(
    "tr",
    { class: "worst", "data-probe": probe.probe },
    h(
      "td",
      { colspan: 6 + audit.trivial.length },
      "Worst episodes, ",
      probe.what || "effect",
      ": ",
      probe.worst.flatMap((one, i) => [i > 0 && ", ", worstLink(context, audit, one)]),
    ),
  );
}

function worstLink(
  { data }: Context,
  audit: AuditData,
  { id, episode, changed, effect }: ProbeData["worst"][number],
): HTMLElement {
  const run = data.page.runs[audit.runs.judge];
  const content = [id, h("small", {}, ` ${decimal(effect)}`)];
  if (episode < 0 || !run) return h("span", { dir: "auto" }, content);
  const beside = changed >= 0 && changed !== episode ? encodeURIComponent(data.key(changed)) : "";
  return h(
    "a",
    { href: routeHash("explorer", [run.id, data.key(episode), 0], { with: beside }), dir: "auto" },
    content,
  );
}
