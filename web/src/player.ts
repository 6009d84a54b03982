// The videos of one episode, or of several side by side, synchronised by time and addressed by frame.
//
// Frame i is on screen from start + its timestamp on. A seek targets the middle of that interval, where no rounding
// of timestamps can land on a neighbour; which frame is on screen comes from requestVideoFrameCallback.
import type { FrameClock } from "./clock";
import { h } from "./dom";

export interface VideoSource {
  name: string;
  src: string | null;
  /** Where the episode begins in its file, in seconds; one file may hold many episodes. */
  startS: number;
  clock: FrameClock;
  /** Why there is no video, or what to know of the one that is shown. */
  note: string;
  /** Where the frames are those of the file in another order: which, and the file's own clock. Such a video never plays;
   *  it is sought frame by frame. */
  shown?: { frames: Float64Array; clock: FrameClock } | null;
  /** Shown above the video, instead of its name on it. */
  head?: HTMLElement;
}

interface Screen {
  source: VideoSource;
  video: HTMLVideoElement;
  usable: boolean;
  /** The newest frame requested while the browser was still seeking. */
  pending: number | null;
  /** How often the last seek was repeated because its frame was not reported. */
  retries: number;
  /** It shows its last frame while longer ones play on. Another episode may follow in its file. */
  held: boolean;
}

/** Chromium sometimes finishes a seek without ever reporting the frame on screen: seek again after this time. */
const RETRY_AFTER_MS = 300;
const MAX_RETRIES = 5;

export class Player {
  readonly element: HTMLElement;
  frame = 0;
  playing = false;
  private screens: Screen[] = [];
  private speed = 1;
  private timer = 0;
  private closed = false;

  constructor(
    sources: VideoSource[],
    private readonly clock: FrameClock,
    private readonly changed: () => void,
  ) {
    this.element = h("div", { class: "screens", "data-count": Math.max(sources.length, 1) });
    for (const source of sources) this.element.append(this.screen(source));
    if (!sources.length) this.element.append(h("p", { class: "empty" }, "This episode has no video on this page."));
  }

  /** Show frame `i`; it is on every view as soon as the browser has decoded it. */
  seek(i: number): void {
    this.frame = Math.min(this.clock.frames - 1, Math.max(0, Math.round(i)));
    for (const screen of this.screens) {
      this.seekScreen(screen, this.frame);
      const last = this.frameOf(screen, this.frame) >= screen.source.clock.frames - 1;
      if (this.playing && plays(screen) && screen.held && !last) this.start(screen, screen === this.lead());
      screen.held &&= last;
    }
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
    for (const screen of this.screens) {
      screen.held = this.frameOf(screen, this.frame) >= screen.source.clock.frames - 1;
      if (plays(screen) && !screen.held) this.start(screen, screen === lead);
    }
    if (!lead || lead.held) this.tick();
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

  /** Release the files; the player is not used again. */
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

  private screen(source: VideoSource): HTMLElement {
    const caption = source.head ? null : h("figcaption", {}, h("span", {}, source.name));
    if (source.src === null) {
      return h(
        "figure",
        { class: "screen" },
        source.head,
        h("div", { class: "no-video" }, source.note || "The video is not part of this report."),
        caption,
      );
    }
    const video = h("video", {
      preload: "auto",
      playsinline: true,
      "aria-label": `Video, view ${source.name}`,
      tabindex: -1,
    });
    video.muted = true;
    video.disablePictureInPicture = true;
    const screen: Screen = { source, video, usable: true, pending: null, retries: 0, held: false };
    const note = source.note && h("p", { class: "video-note" }, source.note);
    const figure = h("figure", { class: "screen" }, source.head, video, caption, note);
    video.addEventListener("seeked", () => {
      if (screen.pending === null) setTimeout(() => this.retry(screen), RETRY_AFTER_MS);
      else this.seekScreen(screen, screen.pending);
    });
    video.addEventListener("error", () => {
      if (this.closed) return;
      screen.usable = false;
      video.replaceWith(
        h(
          "div",
          { class: "no-video" },
          source.note || "The browser cannot play this video. Try: stepscore report --copy-videos",
        ),
      );
      if (this.playing && !this.lead()) this.tick();
    });
    // A browser may pause a muted video automatically; playback continues until Pause is pressed.
    video.addEventListener("pause", () => {
      if (!this.playing || this.closed || document.hidden || screen.held || !plays(screen)) return;
      if (!video.ended) video.play().catch(() => undefined);
      else if (screen === this.lead()) this.ended(screen);
    });
    video.addEventListener("click", () => this.toggle());
    this.screens.push(screen);
    video.src = source.src;
    this.seekScreen(screen, 0);
    this.watch(screen);
    return figure;
  }

  /** The view that the cursor follows: the longest, so that it does not stop before the others end. */
  private lead(): Screen | undefined {
    const usable = this.screens.filter(plays);
    const longest = Math.max(...usable.map(({ source }) => source.clock.duration));
    return usable.find(({ source }) => source.clock.duration > longest - this.clock.step / 2);
  }

  /** One seek at a time: while the browser is seeking, only the newest request is kept. */
  private seekScreen(screen: Screen, frame: number): void {
    if (screen.video.seeking) {
      screen.pending = frame;
      return;
    }
    screen.pending = null;
    screen.retries = 0;
    screen.video.currentTime = this.target(screen, frame);
  }

  /** Seek again, a little off the middle, if a finished seek has not reported its frame. */
  private retry(screen: Screen): void {
    const { source, video } = screen;
    if (this.closed || this.playing || video.seeking || document.hidden || screen.retries >= MAX_RETRIES) return;
    const [clock, frame] = inFile(source, this.frameOf(screen, this.frame));
    if (video.dataset.frame === String(frame)) return;
    screen.retries += 1;
    const half = clock.middle(frame) - clock.time(frame);
    video.currentTime = this.target(screen, this.frame) + (screen.retries % 2 ? 0.4 : -0.4) * half;
  }

  /** The frame of a view that is on screen together with frame `frame` of the main view. */
  private frameOf({ source }: Screen, frame: number): number {
    return source.clock.at(this.clock.middle(frame));
  }

  /** The middle of the time for which that frame is on screen, in its file. */
  private target(screen: Screen, frame: number): number {
    const [clock, at] = inFile(screen.source, this.frameOf(screen, frame));
    return screen.source.startS + clock.middle(at);
  }

  private start(screen: Screen, leads: boolean): void {
    screen.video.playbackRate = this.speed;
    screen.video.play().catch((error: DOMException) => {
      // Only the leading view decides whether anything plays. An interrupted start is retried.
      if (!leads || !this.playing || !screen.video.paused) return;
      if (error.name === "AbortError") setTimeout(() => this.playing && this.start(screen, leads), 100);
      else this.pause();
    });
  }

  private watch(screen: Screen): void {
    const onFrame = (_now: number, meta: VideoFrameCallbackMetadata): void => {
      if (this.closed) return;
      const { clock } = screen.source.shown ?? screen.source;
      const frame = clock.nearest(meta.mediaTime - screen.source.startS);
      screen.video.dataset.frame = String(frame);
      if (this.playing && plays(screen) && !screen.video.seeking && !screen.held) {
        if (frame >= screen.source.clock.frames - 1) this.ended(screen);
        else if (screen === this.lead()) this.follow(this.clock.at(screen.source.clock.middle(frame)));
      }
      screen.video.requestVideoFrameCallback(onFrame);
    };
    screen.video.requestVideoFrameCallback(onFrame);
  }

  /** A view has come to its last frame, which it keeps; the cursor goes on to the end of the longest episode. */
  private ended(screen: Screen): void {
    const { clock } = screen.source;
    const leads = screen === this.lead();
    screen.held = true;
    screen.video.pause();
    if (leads) this.follow(this.clock.at(clock.middle(clock.frames - 1)));
    if (!this.playing) return;
    this.seekScreen(screen, this.clock.at(clock.middle(clock.frames - 1)));
    if (leads) this.tick();
  }

  /** The leading view shows `frame`: move the cursor there and synchronise the other views. */
  private follow(frame: number): void {
    this.frame = Math.min(this.clock.frames - 1, Math.max(0, frame));
    if (frame >= this.clock.frames - 1) {
      this.pause();
      return;
    }
    for (const screen of this.screens) {
      if (screen === this.lead() || !screen.usable || screen.held) continue;
      if (screen.source.shown) {
        this.seekScreen(screen, frame);
        continue;
      }
      const lag = this.target(screen, frame) - screen.video.currentTime;
      if (Math.abs(lag) > 2.5 * this.clock.step && !screen.video.seeking) screen.video.currentTime += lag;
    }
    this.changed();
  }

  /** Without a video the cursor moves with real time. */
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
        for (const screen of this.screens) if (screen.source.shown) this.seekScreen(screen, frame);
        this.changed();
        this.timer = requestAnimationFrame(run);
      }
    };
    this.timer = requestAnimationFrame(run);
  }
}

/** Whether the browser plays it, and it is not sought frame by frame. */
function plays(screen: Screen): boolean {
  return screen.usable && !screen.source.shown;
}

/** A frame of a view in its file, and the clock of the file. */
function inFile({ clock, shown }: VideoSource, frame: number): [FrameClock, number] {
  return shown ? [shown.clock, shown.frames[frame]] : [clock, frame];
}
