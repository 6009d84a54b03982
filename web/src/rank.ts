// Order of groups, and ranks that are tied where intervals overlap.
import type { Est, MetricInfo, Rank } from "./contract";
import { known } from "./format";

/** Whether `a` is wholly on the good side of `b`. */
function clearlyBetter(a: Est, b: Est, better: MetricInfo["better"]): boolean {
  const [, aLo, aHi] = a;
  const [, bLo, bHi] = b;
  if (!known(aLo) || !known(aHi) || !known(bLo) || !known(bHi)) return false;
  return better === "lower" ? aHi < bLo : aLo > bHi;
}

/** Ranks as the contract defines them, for columns that have none stored. */
export function ranks(cells: (Est | undefined)[], better: MetricInfo["better"]): Rank[] {
  const valued = cells.filter((cell): cell is Est => cell !== undefined && known(cell[0]));
  return cells.map((cell) => {
    if (!cell || !known(cell[0]) || better === "neither") return null;
    const above = valued.filter((other) => clearlyBetter(other, cell, better)).length;
    const below = valued.filter((other) => clearlyBetter(cell, other, better)).length;
    return [1 + above, valued.length - below];
  });
}

export function rankText(rank: Rank): string {
  if (!rank) return "";
  return rank[0] === rank[1] ? String(rank[0]) : `=${rank[0]}`;
}

export function rankTitle(rank: Rank): string {
  if (!rank) return "No value, so no rank";
  if (rank[0] === rank[1]) return `Rank ${rank[0]}: the intervals separate it from every other`;
  return `Tied: the intervals allow any rank from ${rank[0]} to ${rank[1]}`;
}

/** Compare by value; unknown is last in both directions. */
export function byValue<T>(value: (item: T) => number | null | undefined, descending: boolean): (a: T, b: T) => number {
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (!known(x) || !known(y)) return Number(known(y)) - Number(known(x));
    return descending ? y - x : x - y;
  };
}
