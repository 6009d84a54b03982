// Replace a view by a newer one of the same kind, so that a person who reads it notices the numbers only.
import { fill } from "./dom";

const CONTROLS = "a, button, input, select, summary, [tabindex]";

export function makeAnew(place: HTMLElement, make: () => HTMLElement): void {
  const [left, top] = [scrollX, scrollY];
  const opened = [...place.querySelectorAll("details")].map((details) => details.open);
  const scrolled = [...place.querySelectorAll<HTMLElement>(".scroll")].map(({ scrollLeft }) => scrollLeft);
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement!) : "";
  fill(place, make());
  const details = [...place.querySelectorAll("details")];
  if (details.length === opened.length) details.forEach((one, i) => (one.open = opened[i]));
  place.querySelectorAll<HTMLElement>(".scroll").forEach((one, i) => (one.scrollLeft = scrolled[i] ?? 0));
  const again = focused && [...place.querySelectorAll<HTMLElement>(CONTROLS)].find((one) => nameOf(one) === focused);
  if (again) again.focus({ preventScroll: true });
  scrollTo(left, top);
}

/** The name by which a rebuilt control is found again. */
function nameOf(control: Element): string {
  const name = control.getAttribute("name") ?? control.getAttribute("aria-label") ?? control.textContent;
  return `${control.tagName} ${control.getAttribute("href") ?? ""} ${name}`;
}
