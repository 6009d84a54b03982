// The videos of one episode, all views in step, addressed by frame.
//
// Frame i is on screen from start + its time on. A seek aims at the middle of that interval, where no rounding of
// time stamps can land on a neighbour; which frame is on screen comes from requestVideoFrameCallback.
import type { FrameClock } from "./clock";
import { h } from "./dom";

export interface Film {
  name: string;
  src: string | null;
  /** Where the episode begins in its file, in seconds; one file may hold many episodes. */
  startS: number;
  clock: FrameClock;
  /** Why there is no picture. */
  note: string;
}

interface Screen {
  film: Film;
  video: HTMLVideoElement;
  usable: boolean;
  /** The newest wish that came while the browser was at another seek. */
  wanted: number | null;
  /** How often the last seek was made again because its frame was not named. */
  again: number;
}

/** Chromium now and then finishes a seek without ever naming the frame it put on screen: after so long, ask again. */
const PATIENCE_MS = 300;
const MOST_AGAIN = 5;

export class Player {
  readonly element: HTMLElement;
  frame = 0;
  playing = false;
  private screens: Screen[] = [];
  private speed = 1;
  private timer = 0;
  private closed = false;

  constructor(
    films: Film[],
    private readonly clock: FrameClock,
    private readonly changed: () => void,
  ) {
    this.element = h("div", { class: "screens", "data-count": Math.max(films.length, 1) });
    for (const film of films) this.element.append(this.screen(film));
    if (!films.length) this.element.append(h("p", { class: "empty" }, "This episode has no video here."));
  }

  /** Show frame `i`; it is on every view as soon as the browser has decoded it. */
  seek(i: number): void {
    this.frame = Math.min(this.clock.frames - 1, Math.max(0, Math.round(i)));
    for (const screen of this.screens) this.aim(screen, this.frame);
    this.changed();
  }

  step(by: number): void {
    this.pause();
    this.seek(this.frame + by);
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  play(): void {
    if (this.frame >= this.clock.frames - 1) this.seek(0);
    this.playing = true;
    const lead = this.lead();
    if (lead) for (const screen of this.screens) if (screen.usable) this.start(screen, screen === lead);
    if (!lead) this.tick();
    this.changed();
  }

  pause(): void {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.timer);
    for (const { video } of this.screens) video.pause();
    this.seek(this.frame);
  }

  setSpeed(speed: number): void {
    this.speed = speed;
    for (const { video } of this.screens) video.playbackRate = speed;
  }

  /** Let go of the files; the player is not used again. */
  close(): void {
    this.closed = true;
    this.playing = false;
    cancelAnimationFrame(this.timer);
    for (const { video } of this.screens) {
      video.pause();
      video.removeAttribute("src");
      video.load();
    }
    this.screens = [];
  }

  private screen(film: Film): HTMLElement {
    const caption = h("figcaption", {}, h("span", {}, film.name));
    if (film.src === null) {
      return h(
        "figure",
        { class: "screen" },
        h("div", { class: "no-video" }, film.note || "The video is not part of this report."),
        caption,
      );
    }
    const video = h("video", {
      preload: "auto",
      playsinline: true,
      "aria-label": `Video, view ${film.name}`,
      tabindex: -1,
    });
    video.muted = true;
    video.disablePictureInPicture = true;
    const screen: Screen = { film, video, usable: true, wanted: null, again: 0 };
    const figure = h("figure", { class: "screen" }, video, caption);
    video.addEventListener("seeked", () => {
      if (screen.wanted === null) setTimeout(() => this.insist(screen), PATIENCE_MS);
      else this.aim(screen, screen.wanted);
    });
    video.addEventListener("error", () => {
      if (this.closed) return;
      screen.usable = false;
      video.replaceWith(
        h(
          "div",
          { class: "no-video" },
          film.note || "The browser cannot play this video. Try: stepscore report --copy-videos",
        ),
      );
      if (this.playing && !this.lead()) this.tick();
    });
    // A browser may pause a silent video by itself; whoever pressed Play wants it to go on.
    video.addEventListener("pause", () => {
      if (!this.playing || this.closed || document.hidden) return;
      if (!video.ended) video.play().catch(() => undefined);
      else if (screen === this.lead()) this.follow(this.clock.frames - 1);
    });
    video.addEventListener("click", () => this.toggle());
    this.screens.push(screen);
    video.src = film.src;
    this.aim(screen, 0);
    this.watch(screen);
    return figure;
  }

  private lead(): Screen | undefined {
    return this.screens.find((screen) => screen.usable);
  }

  /** One seek at a time: while the browser is at one, only the newest wish is kept. */
  private aim(screen: Screen, frame: number): void {
    if (screen.video.seeking) {
      screen.wanted = frame;
      return;
    }
    screen.wanted = null;
    screen.again = 0;
    screen.video.currentTime = this.aimOf(screen, frame);
  }

  /** Seek once more, a little beside the middle, where a finished seek has not named its frame. */
  private insist(screen: Screen): void {
    const { film, video } = screen;
    if (this.closed || this.playing || video.seeking || document.hidden || screen.again >= MOST_AGAIN) return;
    const frame = this.frameOf(screen, this.frame);
    if (video.dataset.shown === String(frame)) return;
    screen.again += 1;
    const half = film.clock.middle(frame) - film.clock.time(frame);
    video.currentTime = this.aimOf(screen, this.frame) + (screen.again % 2 ? 0.4 : -0.4) * half;
  }

  /** The frame of a view that goes with frame `frame` of the main view. */
  private frameOf({ film }: Screen, frame: number): number {
    return film.clock.at(this.clock.middle(frame));
  }

  /** The middle of the time for which it is shown, in its file. */
  private aimOf(screen: Screen, frame: number): number {
    return screen.film.startS + screen.film.clock.middle(this.frameOf(screen, frame));
  }

  private start(screen: Screen, leads: boolean): void {
    screen.video.playbackRate = this.speed;
    screen.video.play().catch((error: DOMException) => {
      // Only the leading view decides whether anything plays. An interrupted start is tried again.
      if (!leads || !this.playing || !screen.video.paused) return;
      if (error.name === "AbortError") setTimeout(() => this.playing && this.start(screen, leads), 100);
      else this.pause();
    });
  }

  private watch(screen: Screen): void {
    const shown = (_now: number, meta: VideoFrameCallbackMetadata): void => {
      if (this.closed) return;
      const frame = screen.film.clock.nearest(meta.mediaTime - screen.film.startS);
      screen.video.dataset.shown = String(frame);
      if (this.playing && screen === this.lead() && !screen.video.seeking)
        this.follow(this.clock.at(screen.film.clock.middle(frame)));
      screen.video.requestVideoFrameCallback(shown);
    };
    screen.video.requestVideoFrameCallback(shown);
  }

  /** The leading view shows `frame`: move the cursor there and pull the other views along. */
  private follow(frame: number): void {
    this.frame = Math.min(this.clock.frames - 1, Math.max(0, frame));
    if (frame >= this.clock.frames - 1) {
      this.pause();
      return;
    }
    for (const screen of this.screens) {
      if (screen === this.lead() || !screen.usable) continue;
      const behind = this.aimOf(screen, frame) - screen.video.currentTime;
      if (Math.abs(behind) > 2.5 * this.clock.step && !screen.video.seeking) screen.video.currentTime += behind;
    }
    this.changed();
  }

  /** Without a video the cursor runs by the clock. */
  private tick(): void {
    let before = performance.now();
    let position = this.clock.time(this.frame);
    const run = (now: number): void => {
      if (!this.playing || this.closed) return;
      position += (Math.max(0, now - before) / 1000) * this.speed;
      before = now;
      const frame = this.clock.at(position);
      this.frame = Math.min(this.clock.frames - 1, frame);
      if (frame >= this.clock.frames - 1) this.pause();
      else {
        this.changed();
        this.timer = requestAnimationFrame(run);
      }
    };
    this.timer = requestAnimationFrame(run);
  }
}
