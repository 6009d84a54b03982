// Which item is which, also after newer data came.
import type { Data, Item } from "../data";

export function sameItem(a: Item, b: Item): boolean {
  return a.run === b.run && a.row === b.row;
}

/** An episode of one run in newer data of the same runs; nothing if it is no longer there. */
export function sameIn(data: Data, old: Data, { run, episode }: Item): Item[] {
  const again = data.page.runs.findIndex(({ id }) => id === old.page.runs[run].id);
  const place = data.byKey(old.key(episode));
  const row = again < 0 || place < 0 ? -1 : data.runs[again].rowOf(place);
  return row < 0 ? [] : [{ run: again, row, episode: place }];
}

/** What the runs say of an episode, to notice that it changed. */
export function judged(data: Data, item: Item | undefined): string {
  if (!item) return "";
  return data.runs
    .map((run) => {
      const row = run.rowOf(item.episode);
      return row < 0 ? "" : [run.points(row), run.lastProgress(row), run.successScore(row), run.error(row)].join();
    })
    .join(";");
}
