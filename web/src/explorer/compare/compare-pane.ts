// Several episodes side by side on one clock: their videos, their curves in one plot, one cursor for all.
import type { Context } from "../../app";
import { FrameClock } from "../../clock";
import { interpolate, largestDisagreement, largestDrop, longestStall, type CurveEvent } from "../../curve-events";
import type { Line } from "../../curve";
import type { Curve, Item, VideoRow } from "../../data";
import { choice, css, fill, h } from "../../dom";
import { percent, plural } from "../../format";
import { colourVariable, displayName } from "../../names";
import { numbers } from "../details";
import { curveToggle } from "../curve-legend";
import { changeOf } from "../change";
import { clockOf, judgeCurves } from "../judge-curves";
import { shared } from "../list/episode-list";
import { outcomeMarks, outcomesOf } from "../list/outcome";
import { shortId } from "../list/short-id";
import { Pane, type Moved } from "../pane";
import { TraceSection } from "../traces/trace-section";
import { compareTraces } from "../traces/compare-traces";
import type { Jump } from "../transport";

export const MAX_COMPARED = 6;

const NAME_ROOM = 24; // characters of an id

/** One of the episodes. */
interface Column {
  item: Item;
  name: string;
  colour: number;
  curve: Curve | null;
  clock: FrameClock;
  video: VideoRow | undefined;
  now: HTMLElement;
}

export interface CompareOptions {
  /** The camera to show; "" for the main one of each episode. */
  view: string;
  changeView: (view: string) => void;
  remove: (item: Item) => void;
  moved: Moved;
}

export class ComparePane extends Pane {
  readonly element: HTMLElement;
  private readonly columns: Column[];
  private readonly legend = h("div", { class: "judges", role: "group", "aria-label": "Curves shown" });
  private readonly traces: TraceSection;
  private truthShown = false;

  constructor(
    private readonly context: Context,
    items: Item[],
    frame: number,
    options: CompareOptions,
  ) {
    const columns = items.map((item, i) => column(context, item, i, options.view));
    super({
      clock: oneClock(columns),
      videos: columns.map((one) => ({
        name: one.name,
        src: one.video?.src ?? null,
        startS: one.video?.startS ?? 0,
        note: one.video ? one.video.unavailable || one.video.note : "This episode has no video on this page.",
        shown: one.video?.shown,
        clock: one.clock,
        head: columnHead(context, one, () => options.remove(one.item)),
      })),
      jumps: ["drop", "stall", "apart"],
      moved: options.moved,
    });
    this.columns = columns;
    this.traces = new TraceSection(this.seeking);
    void compareTraces(this.traces, context.data.traces, columns);
    const views = [...new Set(items.flatMap(({ episode }) => context.data.videos(episode).map(({ view }) => view)))];
    this.element = h(
      "article",
      {
        class: "episode compared",
        "data-episode": context.data.page.episodes.id[items[0].episode],
        "data-compared": items.length,
      },
      h(
        "div",
        { class: "episode-head" },
        h("h1", {}, `${plural(items.length, "episode")} side by side`),
        h(
          "p",
          { class: "instruction" },
          "One clock for all; a shorter one keeps its last frame. Ctrl-click another in the list to add it.",
        ),
      ),
      this.player.element,
      this.transport.element,
      this.status,
      this.legend,
      this.plot.element,
      this.traces.element,
      h(
        "section",
        { class: "details" },
        numbers(context, items, (item) => columns.find((one) => one.item === item)!.name),
      ),
    );
    if (views.length > 1)
      this.transport.more.prepend(
        choice(
          "Camera",
          views.map((name): [string, string] => [name, name]),
          options.view || views[0],
          options.changeView,
        ),
      );
    this.draw();
    this.seek(frame);
  }

  repaint(): void {
    this.draw();
  }

  protected find(kind: Jump): CurveEvent | null {
    const curves = this.columns.flatMap(({ name, curve }) =>
      curve ? [{ name, times: curve.times, values: curve.progress }] : [],
    );
    if (kind === "apart") return curves.length > 1 ? largestDisagreement(curves) : null;
    const found = curves.flatMap((curve) => {
      const event = kind === "drop" ? largestDrop(curve) : longestStall(curve);
      return event ? [{ ...event, text: `${curve.name}: ${event.text}` }] : [];
    });
    return found.sort((a, b) => b.size - a.size)[0] ?? null;
  }

  protected at(time: number): void {
    this.traces.at(time);
    for (const { curve, clock, now } of this.columns) {
      const end = clock.time(clock.frames - 1);
      const value = curve
        ? interpolate(
            { times: curve.times, values: curve.progress },
            Math.min(time, curve.times[curve.times.length - 1]),
          )
        : NaN;
      const over = time > end + 1e-6 ? ", ended" : "";
      now.textContent = curve
        ? Number.isFinite(value)
          ? `${percent(value, 0)} %${over}`
          : `no value yet${over}`
        : "no curve";
    }
  }

  private draw(): void {
    const lines = this.columns.flatMap(({ item, name, colour, curve }): Line[] => {
      const drawn = css(`--c${colour}`);
      const truth = this.truthShown ? this.context.data.truth(item.episode) : null;
      return [
        ...(curve
          ? [{ name, colour: drawn, times: curve.times, values: curve.progress, kind: "own" } satisfies Line]
          : []),
        ...(truth ? [{ ...truth, name: `${name}, labelled`, colour: drawn, kind: "truth" } satisfies Line] : []),
      ];
    });
    this.plot.show(lines);
    this.plot.at(this.player.frame);
    const hasTruth = this.columns.some(({ item }) => this.context.data.truth(item.episode));
    fill(
      this.legend,
      h("span", { class: "muted" }, `Progress by ${this.context.board.label}:`),
      this.columns.map(({ name, colour }) => {
        const mark = h("i", {});
        mark.style.setProperty("--colour", colourVariable(colour));
        return h("span", { class: "judge-toggle" }, mark, name);
      }),
      hasTruth &&
        curveToggle(
          { name: "labelled progress of each", colour: "var(--truth)", visible: this.truthShown, truth: true },
          () => {
            this.truthShown = !this.truthShown;
            this.draw();
          },
        ),
    );
  }
}

function column(context: Context, item: Item, i: number, view: string): Column {
  const { data } = context;
  const videos = data.videos(item.episode);
  const video = videos.find((one) => one.view === view) ?? videos[0];
  return {
    item,
    video,
    name: shortId(data.page.episodes.id[item.episode], shared(data), NAME_ROOM),
    colour: i,
    curve: data.runs[item.run].curve(item.row),
    clock: video?.frames
      ? new FrameClock(video.frames, video.fps, video.times)
      : clockOf(videos, judgeCurves(context, item), data.duration(item.episode)),
    now: h("output", {}),
  };
}

/** A clock that lasts as long as the longest episode, at the highest frame rate. */
function oneClock(columns: Column[]): FrameClock {
  const longest = columns.reduce((a, b) => (b.clock.duration > a.clock.duration + 1e-9 ? b : a)).clock;
  const step = Math.min(...columns.map(({ clock }) => clock.step));
  if (longest.step <= step * 1.01) return longest;
  return new FrameClock(Math.max(1, Math.round(longest.duration / step)), 1 / step);
}

function columnHead({ data }: Context, one: Column, remove: () => void): HTMLElement {
  const mark = h("i", {});
  mark.style.setProperty("--colour", colourVariable(one.colour));
  const id = data.page.episodes.id[one.item.episode];
  return h(
    "div",
    { class: "column-head" },
    h(
      "div",
      {},
      mark,
      h("strong", { title: id, dir: "auto" }, displayName(data.policy(one.item.episode))),
      h("span", { class: "muted", title: id, dir: "auto" }, ` ${one.name}`),
    ),
    changeOf(data, one.item.episode),
    h("div", { class: "row-marks" }, outcomeMarks(outcomesOf(data, one.item))),
    h("div", { class: "muted" }, "progress ", one.now),
    h(
      "button",
      {
        type: "button",
        class: "quiet remove-column",
        title: `Take ${id} away`,
        "aria-label": `Take ${id} away`,
        onclick: remove,
      },
      "✕",
    ),
  );
}
