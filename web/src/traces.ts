// State, action and other numbers recorded with the videos: those on the page, or fetched from the server that serves it.
import type { TraceTable } from "./contract";
import { Numbers } from "./packed";

export interface Signal {
  name: string;
  dimensions: { name: string; values: Float64Array }[];
  /** Dimensions that are not on the page. */
  leftOut: number;
}

/** The signals of one episode; all dimensions share their times. */
export interface EpisodeTraces {
  times: Float64Array;
  /** How many steps were recorded; the times may be fewer. */
  steps: number;
  signals: Signal[];
}

const CODES = 65534;

export class Traces {
  private readonly rows: Map<number, number>;
  private readonly leftOut: Set<number>;
  private readonly asked = new Map<number, Promise<EpisodeTraces | null>>();

  constructor(private readonly table: TraceTable) {
    this.rows = new Map(table.episode.map((episode, row) => [episode, row]));
    this.leftOut = new Set(table.left_out);
  }

  /** Why an episode has none on this page; "" if they are on the page, or none were recorded. */
  note(episode: number): string {
    if (this.leftOut.has(episode))
      return "State and action of this episode are not on this page because of its size; stepscore view shows them.";
    const reason = this.table.unavailable[String(episode)];
    return reason ? `State and action cannot be shown. ${reason}` : "";
  }

  /** Whether anything may be known of an episode's signals. */
  has(episode: number): boolean {
    return this.rows.has(episode) || this.note(episode) !== "" || (this.table.served?.[episode] ?? -1) >= 0;
  }

  /** Those on the page at once; those of the server when they come. Null where there are none. */
  of(episode: number): EpisodeTraces | null | Promise<EpisodeTraces | null> {
    const row = this.rows.get(episode);
    if (row !== undefined) return decode(this.table, row);
    const number = this.table.served?.[episode] ?? -1;
    if (number < 0) return null;
    let found = this.asked.get(episode);
    if (!found) this.asked.set(episode, (found = load(number)));
    // What failed may come at the next try.
    found.catch(() => this.asked.delete(episode));
    return found;
  }
}

async function load(number: number): Promise<EpisodeTraces | null> {
  const answer = await fetch(`traces/${number}`);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `The server answered ${answer.status}.`);
  const table = (await answer.json()) as TraceTable;
  return table.episode.length ? decode(table, 0) : null;
}

const starts = new WeakMap<TraceTable, { points: number; dimensions: number; values: number }[]>();
const numbers = new WeakMap<TraceTable, Record<"times" | "low" | "high" | "values", Numbers>>();

/** Where the points, dimensions and values of each row begin in the concatenated columns. */
function startsOf(table: TraceTable): { points: number; dimensions: number; values: number }[] {
  let found = starts.get(table);
  if (!found) {
    found = [{ points: 0, dimensions: 0, values: 0 }];
    for (const [row, length] of table.length.entries()) {
      const width = table.layouts[table.layout[row]].reduce((sum, { dimensions }) => sum + dimensions.length, 0);
      const { points, dimensions, values } = found[row];
      found.push({ points: points + length, dimensions: dimensions + width, values: values + length * width });
    }
    starts.set(table, found);
  }
  return found;
}

function decode(table: TraceTable, row: number): EpisodeTraces {
  let columns = numbers.get(table);
  if (!columns) {
    const { times, low, high, values } = table;
    columns = {
      times: new Numbers(times),
      low: new Numbers(low),
      high: new Numbers(high),
      values: new Numbers(values),
    };
    numbers.set(table, columns);
  }
  const start = startsOf(table)[row];
  const length = table.length[row];
  let dimension = 0;
  const signals = table.layouts[table.layout[row]].map(({ signal, dimensions, left_out }) => ({
    name: signal,
    leftOut: left_out,
    dimensions: dimensions.map((name) => {
      const low = columns.low.get(start.dimensions + dimension);
      const high = columns.high.get(start.dimensions + dimension);
      const from = start.values + dimension * length;
      dimension += 1;
      const values = columns.values.slice(from, from + length).map((q) => low + (q / CODES) * (high - low));
      return { name, values };
    }),
  }));
  return { times: columns.times.slice(start.points, start.points + length), steps: table.steps[row], signals };
}
