// The name of a metric with the arrow of its good direction.
import type { MetricInfo } from "./contract";
import { h } from "./dom";

type Better = MetricInfo["better"];

const MARKS: Record<Better, string> = { higher: "↑", lower: "↓", neither: "" };

export function directionText(better: Better): string {
  return better === "neither" ? "No direction is better" : `${better === "higher" ? "Higher" : "Lower"} is better`;
}

/** "MP ↑": the arrow says whether more or less is better. */
export function metricName(label: string, better: Better): (string | HTMLElement)[] {
  if (better === "neither") return [label];
  return [
    label,
    h("span", { class: "direction", title: directionText(better), "aria-hidden": "true" }, `\u00a0${MARKS[better]}`),
    h("span", { class: "aside" }, `, ${directionText(better).toLowerCase()}`),
  ];
}
