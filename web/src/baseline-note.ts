// The line shown for a judge that looked at no frame. It also opens the limits of the overview.
import type { Leaderboard } from "./contract";
import { h } from "./dom";

export function baselineNote({ baseline, findings }: Leaderboard): HTMLElement | null {
  return baseline ? h("p", { class: "baseline-note" }, findings.opening.notes[0]) : null;
}
