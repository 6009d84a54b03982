// The opening: who is best, whether that is certain, and what limits it.
import type { Context } from "../app";
import { h } from "../dom";
import { plural } from "../format";
import { routeHash } from "../route";

export function headline({ data, board }: Context): HTMLElement {
  const { page } = data;
  const { sentences, notes } = board.findings.opening;
  const { task, policy, n } = page.episodes;
  const facts = [
    plural(n, "rollout"),
    plural(task.values.length, "task"),
    policy.values.length === 1 ? "1 policy" : `${policy.values.length} policies`,
    `judged by ${board.label}`,
  ];
  return h(
    "section",
    { class: "intro headline" },
    h(
      "h1",
      {},
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
