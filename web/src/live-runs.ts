// A page that is served follows its runs: it asks for newer data, and says how far the runs have come.
import type { PageData, RunInfo } from "./contract";
import { Data } from "./data";
import { fill, h } from "./dom";
import { count } from "./format";

const EVERY_MS = 2000;
const EVERY_MS_FINISHED = 10_000;

export class LiveRuns {
  readonly element = h("div", { class: "live-runs" });
  private readonly state = h("span", { role: "status" });
  private readonly counts = h("span", {});
  private readonly problem = h("span", { class: "bad" });
  private timer = 0;
  private asking = false;

  /** `renewed` is called with newer data. */
  constructor(
    private page: PageData,
    private readonly renewed: (data: Data) => void,
  ) {
    fill(this.element, h("i", { "aria-hidden": "true" }), this.counts, this.state, this.problem);
    this.say();
    this.later();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.ask();
    });
  }

  private later(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), running(this.page.runs) ? EVERY_MS : EVERY_MS_FINISHED);
  }

  private async ask(): Promise<void> {
    if (this.asking || document.hidden) return;
    this.asking = true;
    try {
      const address = `data?version=${encodeURIComponent(this.page.version)}`;
      const answer = await fetch(address).catch(() => null);
      if (!answer) this.complain("The server does not answer; these are the last numbers it gave.");
      else if (!answer.ok) this.complain((await answer.text()).trim() || `The server answered ${answer.status}.`);
      else {
        this.complain("");
        if (answer.status === 200) this.take((await answer.json()) as PageData);
      }
    } finally {
      this.asking = false;
      this.later();
    }
  }

  private complain(text: string): void {
    this.problem.textContent = text;
    this.problem.title = text;
  }

  private take(page: PageData): void {
    if (page.format !== this.page.format) {
      this.complain("The server is of another version now; load the page again.");
      return;
    }
    this.renewed(new Data(page));
    this.page = page;
    this.say();
  }

  /** "12 of 32 judged", and whether that goes on. */
  private say(): void {
    const { runs } = this.page;
    const judged = runs.reduce((sum, { n }) => sum + n, 0);
    const selected = runs.reduce((sum, { n, selected: wanted }) => sum + Math.max(n, wanted), 0);
    const state = running(runs) ? "running" : runs.every(finished) ? "finished" : "stopped";
    this.element.dataset.state = state;
    this.element.title = runs.map(sentence).join("\n");
    const where = runs.length > 1 ? ` in ${count(runs.length)} runs` : "";
    this.counts.textContent = `${count(judged)} of ${count(selected)} judged${where}, `;
    // Said aloud only when it changes.
    if (this.state.textContent !== state) this.state.textContent = state;
  }
}

function running(runs: RunInfo[]): boolean {
  return runs.some((run) => run.running);
}

function finished({ status, n, selected }: RunInfo): boolean {
  return status === "finished" && n >= selected;
}

function sentence(run: RunInfo): string {
  const state = run.running ? "running" : finished(run) ? "finished" : `stopped before its end (${run.status})`;
  return `${run.name}: ${count(run.n)} of ${count(Math.max(run.n, run.selected))} episodes judged, ${state}`;
}
