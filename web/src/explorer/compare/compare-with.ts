// Episodes to compare one with: those of the same scene first, then those of the same task.
import type { Context } from "../../app";
import type { Item } from "../../data";
import { choice } from "../../dom";
import { displayName } from "../../names";
import { shared } from "../list/episode-list";
import { outcomesOf } from "../list/outcome";
import { shortId } from "../list/short-id";

const MAX_OFFERED = 40;
const WORDS = { yes: "succeeds", no: "fails", unknown: "not known" };

/** A menu of them; null where there are none. */
export function compareWith(context: Context, item: Item, compare: (others: Item[]) => void): HTMLElement | null {
  const { data, board } = context;
  const scene = data.scene(item.episode);
  const same = data
    .items(board)
    .filter(({ episode }) => episode !== item.episode && data.task(episode) === data.task(item.episode));
  const mates = scene === null ? [] : same.filter(({ episode }) => data.scene(episode) === scene);
  const others = same.filter((one) => !mates.includes(one)).slice(0, MAX_OFFERED);
  if (!mates.length && !others.length) return null;
  const text = (one: Item, why: string): string => {
    const { label, judge } = outcomesOf(data, one);
    const ends = WORDS[label === "unknown" ? judge : label];
    return `${displayName(data.policy(one.episode))}, ${shortId(data.page.episodes.id[one.episode], shared(data), 24)}: ${ends}${why}`;
  };
  const offered = [...mates, ...others];
  return choice(
    "Compare with",
    [
      ["", "…"],
      ...(mates.length > 1 ? [["scene", `all ${mates.length} of the same scene`] as [string, string]] : []),
      ...offered.map((one, i): [string, string] => [String(i), text(one, i < mates.length ? " (same scene)" : "")]),
    ],
    "",
    (value) => compare(value === "scene" ? mates : [offered[Number(value)]]),
    "compare",
  );
}
