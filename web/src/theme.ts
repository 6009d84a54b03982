// Light, dark, or as the system says. The root element always carries the one in use.
import { h } from "./dom";

const ORDER = ["auto", "light", "dark"];
const MARKS: Record<string, string> = { auto: "◐", light: "○", dark: "●" };
const SYSTEM = matchMedia("(prefers-color-scheme: dark)");

/** A button that goes through the three; `changed` is called when colours may have changed. */
export function themeButton(changed: () => void): HTMLButtonElement {
  let theme = remembered();
  const mark = h("span", { "aria-hidden": "true" });
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet theme",
      onclick: () => {
        theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
        remember(theme);
        show();
        changed();
      },
    },
    mark,
  );
  function show(): void {
    document.documentElement.dataset.theme = theme === "auto" ? (SYSTEM.matches ? "dark" : "light") : theme;
    mark.textContent = MARKS[theme];
    button.title = `Colours: ${theme}`;
    button.setAttribute("aria-label", button.title);
  }
  SYSTEM.addEventListener("change", () => {
    show();
    changed();
  });
  show();
  return button;
}

// A page opened from disk may be denied storage; the choice then lasts as long as the page.
function remember(theme: string): void {
  try {
    localStorage.setItem("stepscore-theme", theme);
  } catch {
    /* not remembered */
  }
}

function remembered(): string {
  try {
    const theme = localStorage.getItem("stepscore-theme") ?? "auto";
    return theme in MARKS ? theme : "auto";
  } catch {
    return "auto";
  }
}
