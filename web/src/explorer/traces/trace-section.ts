// State and action below the curve: what is drawn can be chosen by signal and by dimension.
import { fill, h } from "../../dom";
import { plural } from "../../format";
import { colourVariable } from "../../names";
import type { Seeking } from "../../seek-by-dragging";
import type { EpisodeTraces, Traces } from "../../traces";
import { curveToggle } from "../curve-legend";
import { TraceLanes, type TraceLine } from "./trace-lanes";

const LANES_AT_FIRST = 8;
const COLOURS = [0, 1, 4, 2, 3, 6, 5, 7]; // of the palette

/** What a person chose to see, which stays as one goes from episode to episode. */
const chosen = {
  open: true,
  signals: new Map<string, boolean>(),
  lanes: new Map<string, boolean>(),
};

/** What is drawn over time, under the names to choose it by. */
export interface Drawable extends TraceLine {
  /** The signal, or the episode where several are compared. */
  group: string;
}

export class TraceSection {
  readonly element = h("div", { class: "traces", hidden: true });
  private readonly lanes: TraceLanes;
  private readonly groups = h("div", { class: "judges", role: "group", "aria-label": "Signals shown" });
  private readonly dimensions = h("div", {
    class: "trace-dimensions",
    role: "group",
    "aria-label": "Dimensions shown",
  });
  private readonly note = h("p", { class: "muted trace-note" });
  private lines: Drawable[] = [];

  constructor(seeking: Seeking) {
    this.lanes = new TraceLanes(seeking);
  }

  at(time: number): void {
    this.lanes.at(time);
  }

  /** Say why there is nothing to draw. */
  say(text: string): void {
    this.element.hidden = !text;
    fill(this.element, h("p", { class: "muted trace-note" }, text));
  }

  /** Draw lines; `extra` comes before the choices, `note` below the lanes. */
  show(lines: Drawable[], note: string, extra: HTMLElement | null = null): void {
    this.lines = lines;
    this.note.textContent = note;
    this.element.hidden = !lines.length;
    const details = h(
      "details",
      {
        open: chosen.open,
        ontoggle: () => {
          chosen.open = details.open;
        },
      },
      h("summary", {}, "State and action"),
      h("div", { class: "trace-choice" }, extra, this.groups),
      this.dimensions,
      this.lanes.element,
      this.note,
    );
    fill(this.element, details);
    this.draw();
  }

  private draw(): void {
    const groups = new Map(this.lines.map(({ group, colour }) => [group, colour]));
    const titles = [...new Set(this.lines.map(({ lane }) => lane))];
    const shown = (title: string): boolean => chosen.lanes.get(title) ?? titles.indexOf(title) < LANES_AT_FIRST;
    const visible = (group: string): boolean => chosen.signals.get(group) ?? true;
    this.lanes.show(this.lines.filter(({ lane, group }) => shown(lane) && visible(group)));
    fill(
      this.groups,
      [...groups].map(([name, colour]) =>
        curveToggle({ name, colour: colourVariable(colour), visible: visible(name) }, () => {
          chosen.signals.set(name, !visible(name));
          this.draw();
        }),
      ),
    );
    const many = titles.filter(shown).length;
    fill(
      this.dimensions,
      h("span", { class: "muted" }, `${many} of ${plural(titles.length, "dimension")} shown:`),
      titles.map((title) =>
        h(
          "button",
          {
            type: "button",
            class: "trace-toggle",
            dir: "auto",
            "aria-pressed": String(shown(title)),
            onclick: () => {
              chosen.lanes.set(title, !shown(title));
              this.draw();
              this.focus(title);
            },
          },
          title,
        ),
      ),
      titles.length > 1 &&
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => {
              for (const title of titles) chosen.lanes.set(title, many < titles.length);
              this.draw();
            },
          },
          many < titles.length ? "Show all" : "Hide all",
        ),
    );
  }

  /** Pressing a button redraws all of them; keep the keyboard focus on it. */
  private focus(title: string): void {
    for (const button of this.dimensions.querySelectorAll("button"))
      if (button.textContent === title) button.focus({ preventScroll: true });
  }
}

/** Fill a section with what was recorded of an episode, at once or when the server has answered. */
export function showTraces(section: TraceSection, traces: Traces, episode: number): void {
  const show = (found: EpisodeTraces | null): void => {
    if (found) section.show(drawables(found), noteOf(found));
    else section.say(traces.note(episode));
  };
  const found = traces.of(episode);
  if (found instanceof Promise)
    found.then(show, (error: Error) => section.say(`State and action cannot be shown. ${error.message}`));
  else show(found);
}

/** A signal's name as people say it. */
export function signalName(name: string): string {
  return name.replace(/^observation\./, "");
}

/** "12 of 900 recorded steps are drawn", and what is left out. */
export function noteOf({ times, steps, signals }: EpisodeTraces): string {
  const left = signals.filter(({ leftOut }) => leftOut > 0);
  return [
    times.length < steps
      ? `Lines are drawn through ${times.length} of ${plural(steps, "recorded step")}; unknown values are gaps.`
      : "Every recorded step is drawn; unknown values are gaps.",
    ...left.map(({ name, leftOut }) => `${plural(leftOut, "dimension")} of ${signalName(name)} not shown.`),
  ].join(" ");
}

/** A lane for each dimension; where state and action name one alike, they share it. */
function drawables({ times, signals }: EpisodeTraces): Drawable[] {
  return signals.flatMap(({ name, dimensions }, i) =>
    dimensions.map(({ name: dimension, values }) => ({
      lane: laneOf(name, dimension, dimensions.length),
      name: signalName(name),
      group: signalName(name),
      colour: COLOURS[i % COLOURS.length],
      times,
      values,
    })),
  );
}

/** Numbered dimensions of two signals have nothing in common, so the signal is named. */
export function laneOf(signal: string, dimension: string, dimensions: number): string {
  if (!/^\d+$/.test(dimension)) return dimension;
  return dimensions > 1 ? `${signalName(signal)} ${dimension}` : signalName(signal);
}
