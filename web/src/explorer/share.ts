// Sharing an episode: a range on the timeline, a link to it, the command that makes a clip of it, and its video.
import type { FrameClock } from "../clock";
import { h } from "../dom";
import { readRoute } from "../route";

export type Range = [from: number, to: number];

export interface Shared {
  /** Address of the episode on this page, without a range. */
  hash: string;
  /** The run's folder and the episode's id, for the command. */
  run: string;
  episode: string;
  clock: FrameClock;
  /** Name and address of the first video that can be downloaded. */
  video: { name: string; src: string } | null;
  /** Time of the frame on screen. */
  now: () => number;
  changed: (range: Range | null) => void;
}

export class Share {
  readonly element: HTMLElement;
  range: Range | null = null;
  private readonly shown = h("output", { class: "range" });
  private readonly said = h("span", { class: "muted", role: "status" });

  constructor(private readonly shared: Shared) {
    const button = (text: string, title: string, act: () => void): HTMLElement =>
      h("button", { type: "button", title, onclick: act }, text);
    const { video } = shared;
    this.element = h(
      "div",
      { class: "share", role: "group", "aria-label": "Share" },
      button("Start here", "Begin the range at the frame on screen", () => this.begin(shared.now())),
      button("End here", "End the range at the frame on screen", () => this.end(shared.now())),
      this.shown,
      button("Clear", "Remove the range", () => this.set(null)),
      h("span", { class: "gap" }),
      button("Copy link", "Copy a link to this episode and range", () => void this.copy(this.link(), "Link copied.")),
      button(
        "Copy clip command",
        "Copy the command that makes a GIF and an mp4 of this range",
        () => void this.copy(this.command(), "Command copied."),
      ),
      video && h("a", { class: "button", href: video.src, download: video.name }, "Download video"),
      this.said,
    );
    this.set(rangeOf(readRoute().options.clip, shared.clock.duration));
  }

  /** The link to the episode, with the range if there is one. */
  link(): string {
    const { hash } = this.shared;
    const clip = this.range && `clip=${text(this.range)}`;
    return `${location.href.split("#")[0]}${hash}${clip ? `${hash.includes("?") ? "&" : "?"}${clip}` : ""}`;
  }

  command(): string {
    const around = this.range ? ` --around ${text(this.range)}` : "";
    const { run, episode } = this.shared;
    return `stepscore plot ${quoted(run)} --kind clip --episode ${quoted(episode)}${around} --format mp4,gif -o clips`;
  }

  private begin(time: number): void {
    const { duration } = this.shared.clock;
    this.set([time, this.range && this.range[1] > time ? this.range[1] : duration]);
  }

  private end(time: number): void {
    const { clock } = this.shared;
    const end = Math.min(clock.duration, clock.time(clock.at(time)) + clock.step);
    this.set([this.range && this.range[0] < end ? this.range[0] : 0, end]);
  }

  private set(range: Range | null): void {
    this.range = range;
    this.shown.textContent = range ? `${range[0].toFixed(2)} to ${range[1].toFixed(2)} s` : "whole episode";
    this.shared.changed(range);
  }

  private async copy(content: string, said: string): Promise<void> {
    this.said.textContent = (await copied(content)) ? said : content;
  }
}

/** The range of an address, `1.50-4.00`; null if it is not a range within the episode. */
export function rangeOf(stated: string | undefined, duration: number): Range | null {
  const parts = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(stated ?? "");
  if (!parts) return null;
  const [from, to] = [Number(parts[1]), Math.min(Number(parts[2]), duration)];
  return from < to ? [from, to] : null;
}

function text([from, to]: Range): string {
  return `${from.toFixed(2)}-${to.toFixed(2)}`;
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** A page opened from disk may have no clipboard: then a selected text is copied, as browsers did before. */
async function copied(content: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    const area = h("textarea", { readonly: true, "aria-label": "Text to copy" });
    area.value = content;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
