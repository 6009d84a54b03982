// One episode: videos, curve, lanes, live metrics and details, all following one cursor.
import type { Context } from "../app";
import { FrameClock } from "../clock";
import type { Line } from "../curve";
import { largestDisagreement, largestDrop, longestStall, type CurveEvent } from "../curve-events";
import type { Item } from "../data";
import { choice, css, fill, h } from "../dom";
import { colourVariable } from "../names";
import { routeHash } from "../route";
import { worstTime as lookAt } from "../worst";
import { curveToggle, trendKey } from "./curve-legend";
import { details } from "./details";
import { episodeHead } from "./head";
import { clockOf, judgeCurves, valueRange, type JudgeCurve } from "./judge-curves";
import { lanes, stagesOf } from "./lanes";
import { verdictsOf } from "./list/selection";
import { livePanel, type LivePanel } from "./live";
import { Pane, type Moved } from "./pane";
import { showTraces, TraceSection } from "./traces/trace-section";
import { Share } from "./share";
import type { Jump } from "./transport";
import { worstTime } from "./worst";

export class EpisodePane extends Pane {
  readonly element: HTMLElement;
  private readonly judges: JudgeCurve[];
  /** The chosen judge, or the first that has a curve. */
  private readonly main: JudgeCurve;
  private readonly truth: { times: Float64Array; values: Float64Array; name: string; visible: boolean } | null;
  private readonly legend = h("div", { class: "judges", role: "group", "aria-label": "Curves shown" });
  private readonly live: LivePanel;
  private readonly traces: TraceSection;
  private readonly share: Share;
  private channel = "progress";

  /** Without a frame it opens at its worst time. `compareWith` is the control that adds another episode. */
  constructor(
    private readonly context: Context,
    item: Item,
    frame: number | null,
    moved: Moved,
    compareWith: HTMLElement | null,
  ) {
    const { data } = context;
    const judges = judgeCurves(context, item);
    const videos = data.videos(item.episode);
    super({
      clock: clockOf(videos, judges, data.duration(item.episode)),
      videos: videos.map((video) => ({
        name: video.view,
        src: video.src,
        startS: video.startS,
        note: video.unavailable || video.note,
        shown: video.shown,
        clock: new FrameClock(video.frames, video.fps, video.times),
      })),
      jumps: judges.filter(({ curve }) => curve).length > 1 ? ["drop", "stall", "apart"] : ["drop", "stall"],
      moved,
    });
    this.judges = judges;
    this.main = judges.find(({ curve }) => curve) ?? judges[0];
    const truth = data.truth(item.episode);
    this.truth = truth && { ...truth, visible: true };
    const done = data.runs[this.main.item.run].doneRule(this.main.item.row);
    this.live = livePanel(this.main, done, data.page.live_revisions, data.page.revision, this.main !== judges[0]);
    this.traces = new TraceSection(this.seeking);
    showTraces(this.traces, data.traces, item.episode);
    const run = data.page.runs[item.run];
    const id = data.page.episodes.id[item.episode];
    const first = videos.find((video) => video.src);
    this.share = new Share({
      hash: routeHash("explorer", [run.name, id]),
      run: run.path,
      episode: id,
      clock: this.clock,
      video: first?.src ? { name: `${id.replaceAll("/", "_")}_${first.view}.mp4`, src: first.src } : null,
      now: () => this.clock.time(this.player.frame),
      changed: (range) => (range ? this.plot.shade(...range) : this.plot.shade(0, 0)),
    });
    const items = judges.map((judge) => judge.item);
    const episodeDetails = details(context, items, videos);
    const labels = new Map(verdictsOf(data, item, "label"));
    const verdicts = judges
      .map(({ item: { run, row }, name }) => ({ judge: name, verdicts: data.runs[run].verdicts(row) }))
      .filter((one) => one.verdicts.length);
    this.element = h(
      "article",
      { class: "episode", "data-episode": data.page.episodes.id[item.episode] },
      episodeHead(context, item, this.main.curve?.inferred ?? false, compareWith),
      h("div", { class: "stage-area" }, this.player.element, this.live.element),
      this.transport.element,
      this.share.element,
      this.status,
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
      this.traces.element,
      episodeDetails.element,
    );
    this.draw();
    this.open(frame);
  }

  repaint(): void {
    this.draw();
  }

  /** Go to a frame; where that is the worst time, say so. */
  private open(frame: number | null): void {
    const { curve } = this.main;
    const worst = curve && worstTime({ times: curve.times, values: curve.progress });
    const at = worst ? [this.clock.at(worst.event.from), this.clock.at(worst.event.to)] : [];
    const { range } = this.share;
    if (range) {
      this.seek(this.clock.at(range[0]));
      this.plot.shade(...range);
      return;
    }
    this.seek(frame ?? at[0] ?? (curve ? this.clock.at(curve.times[0]) : 0));
    if (worst && this.player.frame > 0 && at.includes(this.player.frame)) this.explain(worst.event);
    else if (frame !== null && curve) this.sayShown(lookAt(curve.times, curve.progress));
  }

  /** Say what the overview shows of this episode, where its frame is the one on screen. */
  private sayShown(shown: ReturnType<typeof lookAt>): void {
    if (!shown || this.player.frame === 0 || this.clock.at(shown.time) !== this.player.frame) return;
    this.status.textContent = shown.text[0].toUpperCase() + shown.text.slice(1);
  }

  protected find(kind: Jump): CurveEvent | null {
    const curves = this.judges.flatMap(({ name, curve, visible }) =>
      curve && visible ? [{ name, times: curve.times, values: curve.progress }] : [],
    );
    if (kind === "apart") return curves.length > 1 ? largestDisagreement(curves) : null;
    const { curve } = this.main;
    if (!curve) return null;
    const own = { times: curve.times, values: curve.progress };
    return kind === "drop" ? largestDrop(own) : longestStall(own);
  }

  protected at(time: number): void {
    const range = this.share?.range;
    if (range && this.player.playing && time >= range[1]) this.seek(this.clock.at(range[0]));
    this.live.at(time, this.channel === "progress" ? this.plot.valueAt(time) : NaN);
    this.traces.at(time);
  }

  private draw(): void {
    const lines = this.judges.flatMap((judge): Line[] => {
      const { item, name, colour, curve, visible } = judge;
      if (!curve || !visible) return [];
      const values =
        this.channel === "progress" ? curve.progress : this.context.data.runs[item.run].channel(item.row, this.channel);
      const kind = judge === this.main ? "trend" : "plain";
      return [{ name, colour: css(`--c${colour}`), times: curve.times, values, kind }];
    });
    if (this.truth?.visible && this.channel === "progress")
      lines.push({ ...this.truth, colour: css("--truth"), kind: "truth" });
    this.plot.show(lines, this.channel === "progress" ? [0, 1] : valueRange(lines));
    this.plot.at(this.player.frame);
    this.drawLegend();
  }

  private drawLegend(): void {
    const channels = [...new Set(["progress", ...this.judges.flatMap(({ curve }) => curve?.channels ?? [])])];
    const { truth } = this;
    fill(
      this.legend,
      this.judges
        .filter(({ curve }) => curve)
        .map((judge) =>
          curveToggle(
            {
              name: judge.name,
              colour: colourVariable(judge.colour),
              visible: judge.visible,
              fixed: judge === this.main,
            },
            () => {
              judge.visible = !judge.visible;
              this.draw();
            },
          ),
        ),
      truth &&
        curveToggle({ name: truth.name, colour: "var(--truth)", visible: truth.visible, truth: true }, () => {
          truth.visible = !truth.visible;
          this.draw();
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
      this.main.curve && trendKey(),
    );
  }
}
