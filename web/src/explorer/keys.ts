// Keyboard shortcuts of the explorer.
import type { Pane } from "./pane";

export const KEYS =
  "Space: play or pause. ← →: one frame (with Shift ten). Home, End: first, last frame. n, p: next, previous episode. d, s, g: largest drop, longest stall, largest disagreement. [ ]: speed. /: search, Esc leaves it. ?: these keys.";

export function onKey(event: KeyboardEvent, pane: Pane | null, go: (by: number) => void, controls: HTMLElement): void {
  const help = document.querySelector("details.keys");
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.key === "Escape" && target instanceof HTMLInputElement && controls.contains(target)) target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
  if (event.key === " " && target.closest("button, a, summary")) return;
  const far = event.shiftKey ? 10 : 1;
  const acts: Record<string, (() => void) | undefined> = {
    " ": () => pane?.player.toggle(),
    ArrowRight: () => pane?.player.step(far),
    ArrowLeft: () => pane?.player.step(-far),
    Home: () => pane?.seek(0),
    End: () => pane?.seek(Infinity),
    n: () => go(1),
    p: () => go(-1),
    d: () => pane?.jump("drop"),
    s: () => pane?.jump("stall"),
    g: () => pane?.jump("apart"),
    "[": () => pane?.changeSpeed(-1),
    "]": () => pane?.changeSpeed(1),
    "/": () => controls.querySelector("input")?.focus(),
    "?": () => help?.toggleAttribute("open"),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}
