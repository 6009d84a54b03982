// Which curves are drawn: a box to tick for each, and what their colours mean.
import { h } from "../dom";

export interface Drawn {
  name: string;
  /** A CSS colour. */
  colour: string;
  visible: boolean;
  truth?: boolean;
  /** It is always drawn. */
  fixed?: boolean;
}

export function curveToggle(drawn: Drawn, toggle: () => void): HTMLElement {
  const mark = h("i", { class: drawn.truth ? "dashed" : "" });
  mark.style.setProperty("--colour", drawn.colour);
  return h(
    "label",
    { class: "judge-toggle" },
    h("input", { type: "checkbox", checked: drawn.visible, disabled: drawn.fixed, onchange: toggle }),
    mark,
    drawn.name,
  );
}

/** The colours of what has been played. */
export function trendKey(): HTMLElement {
  return h(
    "span",
    { class: "trend-key" },
    ["rise", "fall", "stall"].map((way) => [h("i", { class: way }), way]).flat(),
  );
}
