// The bar below the videos: play, steps, speed, position, and jumps to what is worth seeing.
import type { FrameClock } from "../clock";
import { choice, h, icon } from "../dom";
import type { Player } from "../player";

const SPEEDS = [0.25, 0.5, 1, 2, 4];

export type Jump = "drop" | "stall" | "apart";

const JUMPS: Record<Jump, [text: string, title: string]> = {
  drop: ["Largest drop", "Go to where the largest drop begins (d)"],
  stall: ["Longest stall", "Go to where the longest stall begins (s)"],
  apart: ["Largest disagreement", "Go to where the curves differ most (g)"],
};

export class Transport {
  readonly element: HTMLElement;
  /** Speed and jumps, to which others may be added. */
  readonly more: HTMLElement;
  private readonly position = h("output", { class: "position" });
  private readonly playButton: HTMLButtonElement;
  private readonly select: HTMLElement;
  private speed = SPEEDS.indexOf(1);

  constructor(
    private readonly player: Player,
    private readonly clock: FrameClock,
    jumps: Jump[],
    jump: (kind: Jump) => void,
  ) {
    const button = (path: string, label: string, act: () => void): HTMLElement =>
      h("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick: act }, icon(path));
    this.playButton = h("button", { type: "button", class: "play", onclick: () => player.toggle() });
    this.select = choice(
      "Speed",
      SPEEDS.map((speed): [string, string] => [String(speed), `${speed}×`]),
      String(SPEEDS[this.speed]),
      (value) => this.changeSpeed(SPEEDS.indexOf(Number(value)) - this.speed),
    );
    this.more = h(
      "div",
      { class: "transport-more" },
      this.select,
      h("span", { class: "gap" }),
      jumps.map((kind) =>
        h(
          "button",
          { type: "button", "data-jump": kind, title: JUMPS[kind][1], onclick: () => jump(kind) },
          JUMPS[kind][0],
        ),
      ),
    );
    this.element = h(
      "div",
      { class: "transport", role: "group", "aria-label": "Playback" },
      h(
        "div",
        { class: "transport-main" },
        button("M3 2h2v12H3zM14 2v12L6 8z", "First frame (Home)", () => player.seek(0)),
        button("M11 3v10L4 8z", "One frame back (←)", () => player.step(-1)),
        this.playButton,
        button("M5 3v10l7-5z", "One frame forward (→)", () => player.step(1)),
        button("M11 2h2v12h-2zM2 2v12l8-6z", "Last frame (End)", () => player.seek(clock.frames - 1)),
        this.position,
      ),
      this.more,
    );
  }

  /** Show where the player is. */
  update(): void {
    const { frame, playing } = this.player;
    this.position.textContent = `${this.clock.time(frame).toFixed(2)} s · frame ${frame} of ${this.clock.frames}`;
    this.playButton.textContent = playing ? "Pause" : "Play";
    this.playButton.setAttribute("aria-pressed", String(playing));
  }

  /** Change the playback speed by a number of steps. */
  changeSpeed(by: number): void {
    this.speed = Math.min(SPEEDS.length - 1, Math.max(0, this.speed + by));
    this.player.setSpeed(SPEEDS[this.speed]);
    this.select.querySelector("select")!.value = String(SPEEDS[this.speed]);
  }
}
