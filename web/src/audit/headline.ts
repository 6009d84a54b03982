// The numbers to look at first, with the trivial judges beside the judge: what they pass, a judge passes without knowing
// anything.
import type { Context } from "../app";
import type { AuditData, Est, ProbeData } from "../contract";
import { h } from "../dom";
import { plural } from "../format";
import { outcomeKey, outcomeMark, trivialName } from "./outcome";
import { domainOf, effectFigure, effectScale, goodText } from "./scale";

export function judgeName({ judge, model }: AuditData): string {
  return model ? `${judge} ${model}` : judge;
}

/** "NAME passes 20 of 30 probes and fails 1." */
export function opening(audit: AuditData): HTMLElement {
  const { pass, fail, warn, undecided } = audit.counts;
  const asked = pass + fail + warn + undecided;
  const rest = [warn && `${warn} ${warn === 1 ? "warns" : "warn"}`, undecided && `${undecided} undecided`].filter(
    Boolean,
  );
  const title =
    pass + fail + warn === 0
      ? `These episodes decide none of ${plural(asked, "probe")} of ${judgeName(audit)}.`
      : `${judgeName(audit)} passes ${pass} of ${plural(asked, "probe")}${fail ? ` and fails ${fail}` : " and fails none"}${rest.length ? `; ${rest.join(", ")}` : ""}.`;
  const facts = [
    plural(audit.episodes, "episode"),
    plural(audit.tasks.length, "task"),
    plural(audit.cameras.length, "camera"),
    audit.cost !== null && `cost ${audit.cost.toFixed(1)} times judging them once`,
    audit.full ? "every probe on every episode" : "each probe on a subset",
    `seed ${audit.seed}`,
    `protocol ${audit.protocol}`,
    `${audit.created.slice(0, 16).replace("T", " ")}`,
  ].filter(Boolean);
  return h(
    "section",
    { class: "intro headline" },
    h("h1", {}, title),
    audit.sentences.map((text) => h("p", { class: "limits" }, text)),
    !audit.labelled &&
      h("p", { class: "limits" }, "No episode has a success label: probes of successes took all episodes."),
    h("p", { class: "muted facts", dir: "auto" }, facts.join(" · ")),
    h("p", { class: "muted facts", dir: "auto" }, `from ${audit.source || "a source that is not stated"}`),
  );
}

export function headlineSection(context: Context, audit: AuditData): HTMLElement | null {
  const rows = audit.headline.flatMap(({ probe, title }) => {
    const found = audit.probes.find((one) => one.probe === probe);
    return found ? [row(context, audit, title, found)] : [];
  });
  if (!rows.length) return null;
  return h(
    "section",
    { class: "audit-headline" },
    h("h2", {}, "Headline"),
    h(
      "p",
      { class: "muted" },
      audit.trivial.length
        ? "Mean effect as a dot with its 95 % interval; the good side of the bound is shaded. Trivial judges are listed below: a judge can pass whatever they pass without knowing anything."
        : "Mean effect as a dot with its 95 % interval; the good side of the bound is shaded. No trivial judge was audited beside it.",
    ),
    outcomeKey(),
    h("ul", { class: "headline-rows" }, rows),
  );
}

function row({ data }: Context, audit: AuditData, title: string, probe: ProbeData): HTMLElement {
  const domain = domainOf(probe);
  const line = (name: string, effect: Est, own: boolean): HTMLElement =>
    h(
      "div",
      { class: own ? "effect-line own" : "effect-line", "data-judge": name },
      h("span", { class: "who", title: name }, name),
      effectScale(data, `${title}, ${name}`, probe, effect, domain),
      effectFigure(effect),
    );
  return h(
    "li",
    { "data-probe": probe.probe },
    h(
      "div",
      { class: "headline-what" },
      h("b", {}, title.charAt(0).toUpperCase() + title.slice(1)),
      outcomeMark(probe.outcome),
      h("small", {}, `good ${goodText(probe)}, n ${probe.effect[3]}`),
      h("p", { class: "muted" }, probe.reason ? `Not applied: ${probe.reason}` : probe.expectation),
    ),
    h(
      "div",
      {},
      line(judgeName(audit), probe.effect, true),
      probe.trivial.map((one, i) => one && line(trivialName(audit.trivial[i]), one[1], false)),
      h(
        "div",
        { class: "effect-axis", "aria-hidden": "true" },
        h("span", { class: "who" }),
        h("span", { class: "axis" }, h("i", {}, short(domain[0])), h("i", {}, short(domain[1]))),
        h("span", { class: "figure" }),
      ),
    ),
  );
}

function short(x: number): string {
  return String(Math.round(100 * x) / 100);
}
