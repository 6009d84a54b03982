// Success by label and by judge, in words that need no legend.
import type { Data, Item } from "../../data";
import { h } from "../../dom";

const WORDS = { yes: "succeeds", no: "fails", unknown: "unknown" } as const;
const SIGNS = { yes: "✓", no: "✗", unknown: "?" } as const;

type Outcome = keyof typeof WORDS;

export function outcome(value: number): Outcome {
  return value === 1 ? "yes" : value === 0 ? "no" : "unknown";
}

export interface Outcomes {
  label: Outcome;
  judge: Outcome;
}

export function outcomesOf(data: Data, { run, row, episode }: Item): Outcomes {
  return {
    label: outcome(data.page.episodes.success[episode]),
    judge: outcome(data.runs[run].value("success_judge", row)),
  };
}

/** Whether an episode failed: by its label, or by the judge where there is no label. */
export function failed(data: Data, item: Item): boolean {
  const { label, judge } = outcomesOf(data, item);
  return (label === "unknown" ? judge : label) === "no";
}

/** "✗ fails by label and judge", or one mark for each where they differ. */
export function outcomeMarks({ label, judge }: Outcomes): HTMLElement[] {
  if (label === judge)
    return [mark(label, label === "unknown" ? "unknown if it succeeds" : `${WORDS[label]} by label and judge`)];
  return [
    mark(label, label === "unknown" ? "no label" : `${WORDS[label]} by label`),
    mark(judge, judge === "unknown" ? "no verdict by judge" : `${WORDS[judge]} by judge`),
  ];
}

function mark(kind: Outcome, text: string): HTMLElement {
  return h("span", { class: `mark ${kind}` }, h("b", { "aria-hidden": "true" }, SIGNS[kind]), ` ${text}`);
}
