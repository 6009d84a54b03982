// The opening: who is best, whether that is certain, and what limits it.
import type { Context } from "../app";
import { h } from "../dom";
import { plural } from "../format";
import { routeHash } from "../route";

const LONG = 200; // characters from which the sentences are set smaller

export function headline({ data, board }: Context): HTMLElement {
  const { page } = data;
  const { sentences, notes } = board.findings.opening;
  const { task, n } = page.episodes;
  const policies = board.overall.length;
  const long = sentences.join(" ").length > LONG;
  const facts = [
    plural(n, "rollout"),
    plural(task.values.length, "task"),
    policies === 1 ? "1 policy" : `${policies} policies`,
    `judged by ${board.label}`,
  ];
  return h(
    "section",
    { class: "intro headline" },
    h(
      "h1",
      { class: long ? "long" : "" },
      sentences.flatMap((sentence, i) => [i > 0 && " ", h("span", {}, sentence)]),
    ),
    notes.length > 0 && h("p", { class: "limits" }, notes.join(" ")),
    h(
      "p",
      { class: "muted" },
      facts.join(" · "),
      " · ",
      h("a", { href: routeHash("leaderboard", [], { judge: board.id }) }, "every number"),
    ),
  );
}
