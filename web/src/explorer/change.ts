// What an audit changed of an episode, in words.
import type { Data } from "../data";
import { h } from "../dom";

/** Null on a page that is not of an audit. */
export function changeOf(data: Data, episode: number): HTMLElement | null {
  const { audit } = data.page;
  if (!audit) return null;
  const change = audit.changes[String(episode)];
  return h("span", { class: "tag", dir: "auto", title: change ?? null }, change ? `changed: ${change}` : "as recorded");
}
