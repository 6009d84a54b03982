// An Estimate in a table: value, interval and n, with the rest in its tooltip.
import type { Est, MetricInfo } from "./contract";
import type { Data } from "./data";
import { h } from "./dom";
import { count, decimal, known, NONE, percent } from "./format";

type Shape = Pick<MetricInfo, "percent"> | undefined;

export function number(value: number | null, metric: Shape, digits = 1): string {
  return metric?.percent === false ? decimal(value) : percent(value, digits);
}

export function interval(estimate: Est, metric: Shape): string {
  const [, lo, hi] = estimate;
  return known(lo) && known(hi) ? `${number(lo, metric)} to ${number(hi, metric)}` : "no interval";
}

/** The tooltip of a cell. */
export function sentence(data: Data, label: string, estimate: Est, metric: Shape): string {
  const [value, , , n, clusters, coverage] = estimate;
  const unit = metric?.percent === false ? "" : " %";
  const parts = [
    `${label}: ${number(value, metric)}${known(value) ? unit : ""}`,
    interval(estimate, metric),
    `n = ${count(n)}`,
  ];
  if (clusters !== n) parts.push(`${count(clusters)} scenes`);
  if (known(coverage) && coverage < 1) parts.push(`coverage ${percent(coverage, 0)} %`);
  if (data.method(estimate)) parts.push(data.method(estimate));
  return parts.join(", ");
}

/** A table cell; `href` leads to its episodes. Its n is shown where it is not that of the row; `bare` has no interval. */
export function estimateCell(
  data: Data,
  label: string,
  estimate: Est | undefined,
  metric: Shape,
  href: string | null,
  { marked, rowN, digits = 1, bare }: { marked?: boolean; rowN?: number; digits?: number; bare?: boolean } = {},
): HTMLTableCellElement {
  if (!estimate) return h("td", { class: "est none", "data-label": label }, NONE);
  const [value, lo, hi, n] = estimate;
  const content = [
    n !== rowN && h("span", { class: "n" }, `n ${count(n)}`),
    h("span", { class: "value" }, number(value, metric, digits)),
    !bare &&
      h(
        "span",
        { class: "range" },
        known(lo) && known(hi) ? `${number(lo, metric, digits)}–${number(hi, metric, digits)}` : "no interval",
      ),
  ];
  const text = sentence(data, label, estimate, metric);
  return h(
    "td",
    {
      class: `est${marked ? " sorted" : ""}`,
      title: text,
      "data-label": label,
      "data-value": value,
      "data-lo": lo,
      "data-hi": hi,
      "data-n": n,
    },
    href && n ? h("a", { href, title: `${text}. Show the episodes.` }, content) : content,
  );
}
