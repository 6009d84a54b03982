// What a reader must know before comparing numbers: one line that unfolds.
import type { Warning } from "../contract";
import { h } from "../dom";
import { plural } from "../format";

const MAX_LINES = 12; // details of a warning beyond which they are folded once more

export function warningLine(warnings: Warning[]): HTMLElement | null {
  if (!warnings.length) return null;
  const [first] = warnings;
  const many = warnings.length > 1;
  return h(
    "details",
    { class: "warnings" },
    h(
      "summary",
      {},
      h("span", { class: "warnings-mark", "aria-hidden": "true" }, "!"),
      h("strong", {}, many ? `${plural(warnings.length, "warning")}: ` : "", first.text),
    ),
    warnings.map((warning, i) => unfolded(warning, many || i > 0)),
  );
}

function unfolded({ text, details, kind }: Warning, named: boolean): HTMLElement {
  return h(
    "div",
    { class: "warning", "data-kind": kind },
    named && h("p", {}, text),
    details.length > MAX_LINES
      ? h("details", {}, h("summary", {}, `${plural(details.length, "detail")}`), lines(details))
      : details.length > 0 && lines(details),
  );
}

function lines(details: string[]): HTMLElement {
  return h(
    "ul",
    {},
    details.map((line) => h("li", {}, line)),
  );
}
