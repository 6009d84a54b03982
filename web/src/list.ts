// A list of any length that draws only the visible rows.
import { h } from "./dom";

export interface ListOptions {
  label: string;
  rowHeight: number;
  /** Whether several rows may be selected. */
  several?: boolean;
  draw: (index: number) => HTMLElement;
  /** Whether a row is selected besides the chosen one. */
  marked?: (index: number) => boolean;
  /** A row was clicked, or reached with the keyboard (no event). */
  choose: (index: number, event: MouseEvent | null) => void;
}

export class VirtualList {
  readonly element: HTMLElement;
  private readonly space = h("div", {
    class: "list-space",
    role: "presentation",
    onpointerdown: () => this.press(),
  });
  private length = 0;
  private chosen = -1;
  private waiting = 0;
  private pressed = false;

  constructor(private readonly options: ListOptions) {
    this.element = h(
      "div",
      {
        class: "list",
        role: "listbox",
        tabindex: 0,
        "aria-label": options.label,
        "aria-multiselectable": options.several ? "true" : null,
        onscroll: () => this.later(),
        onkeydown: (event: KeyboardEvent) => this.key(event),
      },
      this.space,
    );
    new ResizeObserver(() => this.later()).observe(this.element);
  }

  /** Show `length` rows, of which `chosen` is marked. */
  show(length: number, chosen: number): void {
    this.length = length;
    this.space.style.height = `${length * this.options.rowHeight}px`;
    this.mark(chosen);
  }

  /** Show rows that were added or removed while the chosen one stays where it is on screen. */
  keep(length: number, chosen: number): void {
    const moved = chosen >= 0 && this.chosen >= 0 ? (chosen - this.chosen) * this.options.rowHeight : 0;
    this.length = length;
    this.chosen = chosen;
    this.space.style.height = `${length * this.options.rowHeight}px`;
    this.element.scrollTop += moved;
    this.draw();
  }

  /** Mark a row and scroll to it if it is out of sight. */
  mark(chosen: number): void {
    this.chosen = chosen;
    const { rowHeight } = this.options;
    const top = chosen * rowHeight;
    const view = this.element.clientHeight;
    if (chosen >= 0 && view && (top < this.element.scrollTop || top + rowHeight > this.element.scrollTop + view)) {
      this.element.scrollTop = top - view / 2;
    }
    this.draw();
  }

  private later(): void {
    if (!this.waiting)
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        this.draw();
      });
  }

  /** Draw nothing until the button is released: a row that is replaced while it is pressed would lose its click. */
  private press(): void {
    this.pressed = true;
    const released = (): void => {
      removeEventListener("pointerup", released);
      removeEventListener("pointercancel", released);
      this.pressed = false;
      setTimeout(() => this.draw()); // after the click
    };
    addEventListener("pointerup", released);
    addEventListener("pointercancel", released);
  }

  private draw(): void {
    if (this.pressed) return;
    const { rowHeight } = this.options;
    const first = Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - 5);
    const last = Math.min(this.length, first + Math.ceil(this.element.clientHeight / rowHeight) + 10);
    const rows: HTMLElement[] = [];
    for (let i = first; i < last; i += 1) {
      const row = this.options.draw(i);
      row.classList.add("list-row");
      row.id = `row-${i}`;
      row.setAttribute("role", "option");
      const selected = i === this.chosen || this.options.marked?.(i) === true;
      row.setAttribute("aria-selected", String(selected));
      row.setAttribute("aria-setsize", String(this.length));
      row.setAttribute("aria-posinset", String(i + 1));
      row.style.top = `${i * rowHeight}px`;
      row.style.height = `${rowHeight}px`;
      row.addEventListener("click", (event) => this.options.choose(i, event));
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
    if (this.chosen >= first && this.chosen < last)
      this.element.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.rowHeight) - 1);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const by = moves[event.key];
    if (!by || !this.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.options.choose(Math.min(this.length - 1, Math.max(0, this.chosen + by)), null);
  }
}
