// One signal of several episodes: a lane for each dimension, a line for each episode.
import type { Item } from "../../data";
import { choice } from "../../dom";
import type { EpisodeTraces, Traces } from "../../traces";
import { laneOf, signalName, type Drawable, type TraceSection } from "./trace-section";

export interface Compared {
  item: Item;
  name: string;
  colour: number;
}

let last = ""; // the signal that was looked at last

/** Fill a section with what was recorded of the episodes, when all of it is there. */
export async function compareTraces(section: TraceSection, traces: Traces, columns: Compared[]): Promise<void> {
  const missing: string[] = [];
  const found = await Promise.all(
    columns.map(async ({ item, name }) => {
      const none = (why: string): null => {
        if (why) missing.push(`${name}: ${why}`);
        return null;
      };
      try {
        return (await traces.of(item.episode)) ?? none(traces.note(item.episode));
      } catch (error) {
        return none(error instanceof Error ? error.message : String(error));
      }
    }),
  );
  const signals = [...new Set(found.flatMap((one) => one?.signals.map(({ name }) => name) ?? []))];
  const show = (): void => {
    const signal = signals.includes(last) ? last : (signals[0] ?? "");
    const menu = choice(
      "Signal",
      signals.map((name): [string, string] => [name, signalName(name)]),
      signal,
      (name) => {
        last = name;
        show();
      },
    );
    section.show(linesOf(signal, columns, found), missing.join(" "), menu);
  };
  if (signals.length) show();
  else section.say(missing.join(" "));
}

function linesOf(signal: string, columns: Compared[], found: (EpisodeTraces | null)[]): Drawable[] {
  return columns.flatMap(({ name, colour }, i) => {
    const own = found[i]?.signals.find((one) => one.name === signal);
    return (own?.dimensions ?? []).map((dimension) => ({
      lane: laneOf(signal, dimension.name, own!.dimensions.length),
      name,
      group: name,
      colour,
      times: found[i]!.times,
      values: dimension.values,
    }));
  });
}
