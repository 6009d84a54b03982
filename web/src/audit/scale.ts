// An effect as a dot with its interval on a line, on which the good side of the bound is shaded.
import type { Est, ProbeData } from "../contract";
import type { Data } from "../data";
import { h } from "../dom";
import { sentence } from "../estimate";
import { decimal, known, NONE } from "../format";

export type Domain = [low: number, high: number];

/** From 0, or -1 where any end is below it, to 1; further where effects are. */
export function domainOf(probe: ProbeData): Domain {
  const estimates = [probe.effect, ...probe.trivial.flatMap((one) => (one ? [one[1]] : []))];
  const ends = [probe.bound, ...estimates.flatMap(([value, lo, hi]) => [value, lo, hi])].filter(known);
  const low = Math.min(0, ...ends);
  return [low < -1 ? low : low < 0 ? -1 : 0, Math.max(1, ...ends)];
}

export function effectScale(data: Data, label: string, probe: ProbeData, effect: Est, domain: Domain): HTMLElement {
  const [value, lo, hi] = effect;
  const text = `${sentence(data, label, effect, { percent: false })}; good ${goodText(probe)}`;
  const scale = h("span", { class: "effect-scale", role: "img", "aria-label": text, title: text });
  scale.append(
    probe.good === "above"
      ? placed("good", probe.bound, domain[1], domain)
      : placed("good", domain[0], probe.bound, domain),
    placed("bound", probe.bound, probe.bound, domain),
  );
  if (domain[0] < 0) scale.append(placed("zero", 0, 0, domain));
  if (known(lo) && known(hi)) scale.append(placed("range", lo, hi, domain));
  if (known(value)) scale.append(placed("dot", value, value, domain));
  return scale;
}

/** "0.90", and "0.89 to 0.91" below it. */
export function effectFigure(effect: Est): HTMLElement {
  const [value, lo, hi, n] = effect;
  return h(
    "span",
    { class: "figure", "data-value": value, "data-lo": lo, "data-hi": hi, "data-n": n },
    h("b", {}, known(value) ? decimal(value) : n ? "unknown" : NONE),
    known(value) && h("small", {}, known(lo) && known(hi) ? `${decimal(lo)} to ${decimal(hi)}` : "no interval"),
  );
}

/** "> 0.1". */
export function goodText({ good, bound }: ProbeData): string {
  return `${good === "above" ? ">" : "<"} ${bound}`;
}

function placed(name: string, from: number, to: number, [low, high]: Domain): HTMLElement {
  const share = (x: number): number => Math.min(1, Math.max(0, (x - low) / (high - low)));
  const mark = h("i", { class: name });
  mark.style.left = `${100 * share(from)}%`;
  if (to > from) mark.style.width = `${100 * (share(to) - share(from))}%`;
  return mark;
}
