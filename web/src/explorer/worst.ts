// Where to look first: the worst failure of some episodes, at its worst time.
import type { Context } from "../app";
import { largestDrop, longestStall, type CurveEvent } from "../curve-events";
import type { Data, Item } from "../data";
import { failed } from "./list/outcome";

const DROP = 0.1; // of progress: a smaller fall is not what an episode failed by

export interface WorstTime {
  kind: "drop" | "stall";
  event: CurveEvent;
}

/** Where a curve falls furthest; where it hardly falls, where it begins to stall for longest. */
export function worstTime(samples: { times: ArrayLike<number>; values: ArrayLike<number> }): WorstTime | null {
  const drop = largestDrop(samples);
  if (drop && drop.size >= DROP) return { kind: "drop", event: drop };
  const stall = longestStall(samples);
  return stall ? { kind: "stall", event: stall } : drop && { kind: "drop", event: drop };
}

/** The number of the worst failure in a list: the first of those that the overview shows; among others the one that falls
 *  furthest, else the one that stalls for longest; the first failure where no curve shows either; 0 where none failed. */
export function worstFailure({ data, board }: Context, items: Item[]): number {
  for (const { run, episode } of board.findings.worst) {
    const at = items.findIndex((item) => item.run === run && item.episode === episode);
    if (at >= 0) return at;
  }
  if (data.page.paged) return leastProgress(data, items);
  const found = items.flatMap((item, i) => {
    if (!failed(data, item)) return [];
    const curve = data.runs[item.run].curve(item.row);
    const worst = curve && worstTime({ times: curve.times, values: curve.progress });
    return [{ i, drop: worst?.kind === "drop" ? worst.event.size : 0, stall: worst?.event.size ?? 0 }];
  });
  found.sort((a, b) => b.drop - a.drop || b.stall - a.stall || a.i - b.i);
  return found[0]?.i ?? 0;
}

/** The failure that ends with the least progress: what is known without its curve. */
function leastProgress(data: Data, items: Item[]): number {
  let [found, least] = [-1, Infinity];
  items.forEach((item, i) => {
    if (!failed(data, item)) return;
    const last = data.runs[item.run].lastProgress(item.row);
    if (found < 0 || last < least) [found, least] = [i, Number.isFinite(last) ? last : Infinity];
  });
  return Math.max(0, found);
}
