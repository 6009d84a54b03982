// The outcome of a probe: a word and a sign, never only a colour.
import type { Outcome } from "../contract";
import { h } from "../dom";

const SIGNS: Record<Outcome, string> = { pass: "✓", warn: "!", fail: "✗", undecided: "?" };
const TITLES: Record<Outcome, string> = {
  pass: "The 95 % interval lies on the good side of the bound",
  fail: "The 95 % interval lies wholly beyond the bound",
  warn: "The bound lies in the 95 % interval: these episodes do not decide",
  undecided: "Too few episodes with a known effect, or no interval",
};

export function outcomeMark(outcome: Outcome): HTMLElement {
  return h(
    "span",
    { class: `outcome ${outcome}`, title: TITLES[outcome] },
    h("b", { "aria-hidden": "true" }, SIGNS[outcome]),
    ` ${outcome}`,
  );
}

/** What the four words mean. */
export function outcomeKey(): HTMLElement {
  return h(
    "p",
    { class: "muted" },
    "pass: the 95 % interval lies on the good side of the bound · fail: wholly beyond it · warn: the bound lies in it · undecided: too few episodes, or no interval.",
  );
}

const NAMES: Record<string, string> = { "linear-time": "clock", "image-difference": "image difference" };

/** What a trivial judge is called. */
export function trivialName(judge: string): string {
  return NAMES[judge] ?? judge;
}
