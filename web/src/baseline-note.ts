// The line that stands where a judge looked at no frame. It opens the limits of the overview, too.
import type { Leaderboard } from "./contract";
import { h } from "./dom";

export function baselineNote({ baseline, findings }: Leaderboard): HTMLElement | null {
  return baseline ? h("p", { class: "baseline-note" }, findings.opening.notes[0]) : null;
}
