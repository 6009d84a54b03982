// Press or drag anywhere over a time axis to seek.
import type { FrameClock } from "./clock";

export interface Seeking {
  clock: FrameClock;
  seek: (frame: number) => void;
  /** Called before and after a drag, so that playback can pause. */
  hold?: (held: boolean) => void;
}

/** `axis` is where the time axis is on screen; null while it is not drawn. */
export function seekByDragging(
  element: HTMLElement,
  axis: () => { left: number; width: number } | null,
  { clock, seek, hold }: Seeking,
): void {
  element.addEventListener("pointerdown", (press) => {
    if (press.button !== 0 || !axis()) return;
    press.preventDefault();
    if (element.tabIndex >= 0) element.focus({ preventScroll: true });
    element.setPointerCapture(press.pointerId);
    hold?.(true);
    const go = (event: PointerEvent): void => {
      const box = axis();
      if (box) seek(clock.at(((event.clientX - box.left) / box.width) * clock.duration));
    };
    go(press);
    const done = (): void => {
      element.removeEventListener("pointermove", go);
      hold?.(false);
    };
    element.addEventListener("pointermove", go);
    element.addEventListener("lostpointercapture", done, { once: true });
  });
}
