// What one episode and several side by side have in common: videos, curves and one cursor that all of them follow.
import type { FrameClock } from "../clock";
import { CurvePlot } from "../curve";
import type { CurveEvent } from "../curve-events";
import { h } from "../dom";
import { Player, type VideoSource } from "../player";
import type { Seeking } from "../seek-by-dragging";
import { Transport, type Jump } from "./transport";

export type Moved = (frame: number, playing: boolean) => void;

export interface PaneParts {
  clock: FrameClock;
  videos: VideoSource[];
  jumps: Jump[];
  moved: Moved;
}

const NOTHING: Record<Jump, string> = {
  drop: "Progress never falls here.",
  stall: "Progress never stalls here.",
  apart: "There is no second curve to compare with.",
};

export abstract class Pane {
  abstract readonly element: HTMLElement;
  readonly player: Player;
  protected readonly clock: FrameClock;
  protected readonly plot: CurvePlot;
  protected readonly transport: Transport;
  /** Where the curve and the lanes below it are pressed or dragged. */
  protected readonly seeking: Seeking;
  protected readonly status = h("p", { class: "jump-status muted", role: "status" });
  private readonly moved: Moved;
  private resume = false;

  constructor({ clock, videos, jumps, moved }: PaneParts) {
    this.clock = clock;
    this.moved = moved;
    this.seeking = { clock, seek: (to) => this.seek(to), hold: (held) => this.hold(held) };
    this.plot = new CurvePlot(this.seeking);
    this.player = new Player(videos, clock, () => this.follow());
    this.transport = new Transport(this.player, clock, jumps, (kind) => this.jump(kind));
  }

  /** Draw everything again, for example in other colours. */
  abstract repaint(): void;

  /** Where to jump to; null if there is no such place. */
  protected abstract find(kind: Jump): CurveEvent | null;

  /** Update what depends on the time of the cursor. */
  protected abstract at(time: number): void;

  seek(frame: number): void {
    this.player.seek(frame);
  }

  changeSpeed(by: number): void {
    this.transport.changeSpeed(by);
  }

  jump(kind: Jump): void {
    const event = this.find(kind);
    if (!event) {
      this.status.textContent = NOTHING[kind];
      return;
    }
    this.player.pause();
    this.seek(this.clock.at(event.from));
    this.explain(event);
  }

  /** Shade an event and say what it is. */
  explain(event: CurveEvent): void {
    this.plot.shade(event.from, event.to);
    this.status.textContent = event.text;
  }

  close(): void {
    this.player.close();
    this.plot.close();
  }

  /** Update everything that follows the cursor. */
  private follow(): void {
    const { frame, playing } = this.player;
    this.plot.at(frame);
    this.transport.update();
    this.element.dataset.frame = String(frame);
    this.at(this.clock.time(frame));
    this.moved(frame, playing);
  }

  /** While the cursor is dragged, playback pauses. */
  private hold(held: boolean): void {
    if (held) {
      this.resume = this.player.playing;
      this.player.pause();
    } else if (this.resume) this.player.play();
  }
}
