// Elements made from values. Text only ever enters as text: nothing here parses markup.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `onclick` and the like are listeners, `class` its classes, the rest attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  return dressed(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): SVGElementTagNameMap[K] {
  return dressed(document.createElementNS(SVG, tag), attributes, children);
}

function dressed<E extends Element>(element: E, attributes: Attributes, children: (Child | Child[])[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element: Element, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** A small drawing in the colour of the text. */
export function icon(path: string): SVGElement {
  return s(
    "svg",
    { viewBox: "0 0 16 16", width: 14, height: 14, fill: "currentColor", "aria-hidden": "true" },
    s("path", { d: path }),
  );
}

/** The element with these children instead of the ones it had. */
export function fill<E extends Element>(element: E, ...children: (Child | Child[])[]): E {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A labelled select; `options` are [value, text] pairs. */
export function choice(
  label: string,
  options: [string, string][],
  value: string,
  change: (value: string) => void,
  name = "",
): HTMLLabelElement {
  const select = h(
    "select",
    { name: name || label.toLowerCase(), onchange: () => change(select.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
  );
  select.value = value;
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A box to type a filter into. */
export function searchBox(label: string, value: string, change: (value: string) => void): HTMLLabelElement {
  const input = h("input", {
    type: "search",
    name: "text",
    value,
    spellcheck: "false",
    autocomplete: "off",
    placeholder: label,
    "aria-label": label,
    oninput: () => change(input.value),
  });
  return h("label", { class: "field grow" }, h("span", {}, "Find"), input);
}

/** Buttons of which one is pressed. */
export function segmented(
  label: string,
  options: [string, string][],
  value: string,
  change: (value: string) => void,
): HTMLElement {
  return h(
    "div",
    { class: "segmented", role: "group", "aria-label": label },
    options.map(([key, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(key === value),
          "data-value": key,
          onclick: () => change(key),
        },
        text,
      ),
    ),
  );
}

/** The value of a CSS variable, for canvases. */
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
