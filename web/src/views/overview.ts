// The overview: who is best and is that certain, where each policy fails, what to look at, how far to trust the judge.
import "../styles/overview.css";
import type { Context, View } from "../app";
import { h } from "../dom";
import { plural } from "../format";
import { agreementTables } from "../judge-agreement";
import { headline } from "../overview/headline";
import { policyNumbers } from "../overview/policy-numbers";
import { policySection } from "../overview/policies";
import { protocolDetails, runsTable } from "../overview/runs-table";
import { trustSection } from "../overview/trust";
import { warningLine } from "../overview/warnings";
import { failureSection } from "../overview/worst-failures";

export function overview(context: Context): View {
  return {
    element: h(
      "div",
      { class: "stack" },
      headline(context),
      warningLine(context.data.page.warnings),
      policySection(context),
      failureSection(context),
      trustSection(context),
      details(context),
    ),
  };
}

/** Everything else, folded. */
function details(context: Context): HTMLElement {
  const { page } = context.data;
  const agreement = agreementTables(context);
  return h(
    "div",
    { class: "folded" },
    folded(`Metrics of each policy, by ${context.board.label}`, policyNumbers(context)),
    agreement && folded("Agreement of judges with labels", agreement),
    folded(`${plural(page.runs.length, "run")}: episodes, coverage, calls, cost, time`, runsTable(context)),
    folded(
      `${plural(page.boards.length, "protocol")}, OPD revision ${page.revision}, written by StepScore ${page.written.stepscore}`,
      h("div", {}, page.runs.map(protocolDetails)),
    ),
  );
}

function folded(title: string, content: HTMLElement): HTMLElement {
  return h("details", {}, h("summary", {}, h("h2", {}, title)), content);
}
