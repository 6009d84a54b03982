// One episode: videos, curve, lanes, live metrics and details, all following one cursor.
import type { Context } from "../app";
import { FrameClock } from "../clock";
import { CurvePlot, type Line } from "../curve";
import type { Item } from "../data";
import { choice, css, fill, h, icon } from "../dom";
import { colourVariable } from "../names";
import { largestDisagreement, largestDrop, longestStall, type CurveEvent } from "../curve-events";
import { Player } from "../player";
import { details } from "./details";
import { episodeHead } from "./head";
import { clockOf, judgeCurves, valueRange, type JudgeCurve } from "./judge-curves";
import { lanes, stagesOf } from "./lanes";
import { livePanel } from "./live";
import { verdictsOf } from "./selection";

const SPEEDS = [0.25, 0.5, 1, 2, 4];

export class EpisodePane {
  readonly element: HTMLElement;
  readonly player: Player;
  private readonly clock: FrameClock;
  private readonly plot: CurvePlot;
  private readonly judges: JudgeCurve[];
  private readonly moved: (frame: number, playing: boolean) => void;
  private readonly position = h("output", { class: "position" });
  private readonly playButton = h("button", {
    type: "button",
    class: "play",
    onclick: () => this.player.toggle(),
  });
  private readonly status = h("p", { class: "jump-status muted", role: "status" });
  private readonly legend = h("div", { class: "judges", role: "group", "aria-label": "Curves shown" });
  private readonly live: { element: HTMLElement; at: (time: number, progress: number) => void };
  private channel = "progress";
  private speed = 2;
  private resume = false;

  constructor(
    private readonly context: Context,
    item: Item,
    frame: number,
    moved: (frame: number, playing: boolean) => void,
  ) {
    const { data } = context;
    this.moved = moved;
    this.judges = judgeCurves(context, item);
    const videos = data.videos(item.episode);
    this.clock = clockOf(videos, this.judges, data.duration(item.episode));
    const first = this.judges[0];
    const done = data.runs[first.item.run].doneRule(first.item.row);
    this.live = livePanel(first.curve, done, data.page.live_revisions, data.page.revision);
    this.plot = new CurvePlot({
      clock: this.clock,
      seek: (to) => this.seek(to),
      hold: (held) => this.hold(held),
    });
    this.player = new Player(
      videos.map((video) => ({
        name: video.view,
        src: video.src,
        startS: video.startS,
        note: video.unavailable,
        clock: new FrameClock(video.frames, video.fps, video.times),
      })),
      this.clock,
      () => this.follow(),
    );
    const episodeDetails = details(
      context,
      this.judges.map((judge) => judge.item),
      videos,
    );
    const labels = new Map(verdictsOf(data, item, "label"));
    const verdicts = this.judges
      .map(({ item: { run, row }, name }) => ({ judge: name, verdicts: data.runs[run].verdicts(row) }))
      .filter((one) => one.verdicts.length);
    this.element = h(
      "article",
      { class: "episode", "data-episode": data.page.episodes.id[item.episode] },
      episodeHead(context, item, this.judges[0].curve?.inferred ?? false),
      h("div", { class: "stage-area" }, this.player.element, this.live.element),
      this.transport(),
      this.legend,
      this.plot.element,
      lanes(
        stagesOf(context, item),
        verdicts,
        labels,
        this.clock.duration,
        (time) => this.seek(this.clock.at(time)),
        episodeDetails.showReason,
      ),
      this.status,
      episodeDetails.element,
    );
    this.draw();
    this.player.seek(frame);
  }

  seek(frame: number): void {
    this.player.seek(frame);
  }

  /** Change the playback speed by a number of steps. */
  changeSpeed(by: number): void {
    this.speed = Math.min(SPEEDS.length - 1, Math.max(0, this.speed + by));
    this.player.setSpeed(SPEEDS[this.speed]);
    const select = this.element.querySelector<HTMLSelectElement>("select[name=speed]");
    if (select) select.value = String(SPEEDS[this.speed]);
  }

  jump(kind: "drop" | "stall" | "apart"): void {
    const event = this.find(kind);
    if (!event) {
      this.status.textContent = {
        drop: "This curve never falls.",
        stall: "This curve never stalls.",
        apart: "There is no second curve to compare with.",
      }[kind];
      return;
    }
    this.player.pause();
    this.plot.shade(event.from, event.to);
    this.seek(this.clock.at(event.from));
    this.status.textContent = event.text;
  }

  repaint(): void {
    this.draw();
  }

  close(): void {
    this.player.close();
    this.plot.close();
  }

  private find(kind: "drop" | "stall" | "apart"): CurveEvent | null {
    const curves = this.judges.flatMap(({ name, curve, visible }) =>
      curve && visible ? [{ name, times: curve.times, values: curve.progress }] : [],
    );
    if (kind === "apart") return curves.length > 1 ? largestDisagreement(curves) : null;
    if (!this.judges[0].curve) return null;
    const own = { times: this.judges[0].curve.times, values: this.judges[0].curve.progress };
    return kind === "drop" ? largestDrop(own) : longestStall(own);
  }

  private transport(): HTMLElement {
    const button = (path: string, label: string, act: () => void): HTMLElement =>
      h("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick: act }, icon(path));
    return h(
      "div",
      { class: "transport", role: "group", "aria-label": "Playback" },
      button("M3 2h2v12H3zM14 2v12L6 8z", "First frame (Home)", () => this.seek(0)),
      button("M11 3v10L4 8z", "One frame back (←)", () => this.player.step(-1)),
      this.playButton,
      button("M5 3v10l7-5z", "One frame forward (→)", () => this.player.step(1)),
      button("M11 2h2v12h-2zM2 2v12l8-6z", "Last frame (End)", () => this.seek(this.clock.frames - 1)),
      this.position,
      choice(
        "Speed",
        SPEEDS.map((speed): [string, string] => [String(speed), `${speed}×`]),
        String(SPEEDS[this.speed]),
        (value) => this.changeSpeed(SPEEDS.indexOf(Number(value)) - this.speed),
      ),
      h("span", { class: "gap" }),
      h(
        "button",
        {
          type: "button",
          "data-jump": "drop",
          title: "Go to where the largest drop begins (d)",
          onclick: () => this.jump("drop"),
        },
        "Largest drop",
      ),
      h(
        "button",
        {
          type: "button",
          "data-jump": "stall",
          title: "Go to where the longest stall begins (s)",
          onclick: () => this.jump("stall"),
        },
        "Longest stall",
      ),
      this.judges.filter(({ curve }) => curve).length > 1 &&
        h(
          "button",
          {
            type: "button",
            "data-jump": "apart",
            title: "Go to where the judges disagree most (g)",
            onclick: () => this.jump("apart"),
          },
          "Largest disagreement",
        ),
    );
  }

  /** Update everything that follows the cursor. */
  private follow(): void {
    const { frame, playing } = this.player;
    const time = this.clock.time(frame);
    this.plot.at(frame);
    this.live.at(time, this.progressAt(time));
    this.position.textContent = `${time.toFixed(2)} s · frame ${frame} of ${this.clock.frames}`;
    this.element.dataset.frame = String(frame);
    this.playButton.textContent = playing ? "Pause" : "Play";
    this.playButton.setAttribute("aria-pressed", String(playing));
    this.moved(frame, playing);
  }

  private progressAt(time: number): number {
    return this.channel === "progress" ? this.plot.valueAt(time) : NaN;
  }

  private hold(held: boolean): void {
    if (held) {
      this.resume = this.player.playing;
      this.player.pause();
    } else if (this.resume) this.player.play();
  }

  private draw(): void {
    const lines = this.judges.flatMap(({ item, name, colour, curve, visible }): Line[] => {
      if (!curve || !visible) return [];
      const values =
        this.channel === "progress" ? curve.progress : this.context.data.runs[item.run].channel(item.row, this.channel);
      return [{ name, colour: css(`--c${colour}`), times: curve.times, values }];
    });
    this.plot.show(lines, this.channel === "progress" ? [0, 1] : valueRange(lines));
    this.plot.at(this.player.frame);
    this.drawLegend();
  }

  private drawLegend(): void {
    const channels = [...new Set(["progress", ...this.judges.flatMap(({ curve }) => curve?.channels ?? [])])];
    fill(
      this.legend,
      this.judges
        .filter(({ curve }) => curve)
        .map((judge, i) => {
          const mark = h("i", {});
          mark.style.background = colourVariable(judge.colour);
          return h(
            "label",
            { class: "judge-toggle" },
            h("input", {
              type: "checkbox",
              checked: judge.visible,
              disabled: i === 0,
              onchange: () => {
                judge.visible = !judge.visible;
                this.draw();
              },
            }),
            mark,
            judge.name,
          );
        }),
      channels.length > 1 &&
        choice(
          "Values",
          channels.map((name): [string, string] => [name, name]),
          this.channel,
          (name) => {
            this.channel = name;
            this.draw();
          },
        ),
      h(
        "span",
        { class: "trend-key" },
        h("i", { class: "rise" }),
        "rise",
        h("i", { class: "fall" }),
        "fall",
        h("i", { class: "stall" }),
        "stall",
      ),
    );
  }
}
