// How far the judge may be trusted here, in the sentences of stepscore.analysis.judge_trust.
import type { Context } from "../app";
import type { Leaderboard } from "../contract";
import { h } from "../dom";
import { plural } from "../format";
import { routeHash } from "../route";

export function trustSection({ data, board }: Context): HTMLElement {
  const { text, notes, aspects } = board.findings.trust;
  const others = data.page.boards.filter((other) => other !== board && !other.baseline);
  const answered = aspects.some(({ answer }) => answer !== "unknown");
  return h(
    "section",
    { class: "trust" },
    h("h2", {}, "Can the judge be trusted here?"),
    answered
      ? h(
          "ul",
          { class: "aspects" },
          aspects.map(({ headline, sentence, answer, n, aspect }) =>
            h(
              "li",
              { "data-aspect": aspect, "data-answer": answer, title: n ? plural(n, NOUNS[aspect]) : null },
              h("b", {}, headline),
              h("span", {}, sentence),
            ),
          ),
        )
      : h("p", { class: "aspects-none" }, text),
    notes.length > 0 && h("p", { class: "muted" }, notes.join(" ")),
    others.length > 0 &&
      h(
        "p",
        { class: "muted" },
        "Other judges: ",
        others.flatMap((other, i) => [i > 0 && "; ", otherJudge(other)]),
      ),
  );
}

const NOUNS = { success: "rollout", progress: "curve", order: "rollout", subgoals: "verdict" } as const;

const ANSWERS = { yes: "yes for", no: "not for", unknown: "unknown for" } as const;

/** "NAME: yes for success and order, not for progress". */
function otherJudge(board: Leaderboard): HTMLElement {
  const { aspects, text } = board.findings.trust;
  const said = (Object.keys(ANSWERS) as (keyof typeof ANSWERS)[]).flatMap((answer) => {
    const found = aspects.filter((one) => one.answer === answer).map(({ aspect }) => aspect);
    return found.length ? `${ANSWERS[answer]} ${listed(found)}` : [];
  });
  return h(
    "span",
    { title: text },
    h("a", { href: routeHash("overview", [], { judge: board.id }) }, board.label),
    said.length > 0 && `: ${said.join(", ")}`,
  );
}

function listed(names: string[]): string {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names[0];
}
