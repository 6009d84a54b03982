// Stages and verdicts below the curve, on the same time axis.
import type { Context } from "../app";
import type { Item } from "../data";
import { h } from "../dom";
import { known } from "../format";
import type { VerdictRow } from "../run-page";

const SIGNS = { yes: "✓", no: "✗", unknown: "?" };

export interface JudgeVerdicts {
  judge: string;
  verdicts: VerdictRow[];
}

/** Annotated stages of an episode: [name, from, to]. */
export function stagesOf({ data }: Context, item: Item): [string, number, number][] {
  const { stages, stage_names } = data.page.episodes;
  const found = data.page.paged
    ? data.runs[item.run].stages(item.row)
    : stages.filter(([episode]) => episode === item.episode).map(([, name, from, to]) => [name, from, to] as const);
  return found.map(([name, from, to]) => [stage_names[name], from ?? NaN, to ?? NaN]);
}

export function lanes(
  stages: [string, number, number][],
  judges: JudgeVerdicts[],
  labels: Map<string, string>,
  duration: number,
  seek: (time: number) => void,
  showReason: (judge: string, subgoal: string) => void,
): HTMLElement {
  return h(
    "div",
    { class: "lanes" },
    stages.length > 0 && h("p", { class: "lane-title" }, "Stages, as labelled"),
    stages.length > 0 &&
      h(
        "div",
        { class: "lane stages", role: "group", "aria-label": "Annotated stages" },
        stages.map(([name, from, to], i) => {
          const begin = known(from) ? from : 0;
          const end = known(to) ? to : duration;
          const part = h(
            "button",
            {
              type: "button",
              class: `stage s${i % 2}`,
              title: `Stage: ${name}, ${begin.toFixed(1)} to ${end.toFixed(1)} s`,
              onclick: () => seek(begin),
            },
            name,
          );
          part.style.left = `${(100 * begin) / duration}%`;
          part.style.width = `${(100 * (end - begin)) / duration}%`;
          return part;
        }),
      ),
    judges.map(({ judge, verdicts }, i) => {
      const rows = verdicts.map((verdict) => verdictLane(judge, verdict, labels, duration, seek, showReason));
      return i
        ? h("details", { class: "other-lanes" }, h("summary", {}, `Subgoals, by ${judge}`), rows)
        : h("div", { class: "own-lanes" }, h("p", { class: "lane-title" }, `Subgoals, by ${judge}`), rows);
    }),
  );
}

function verdictLane(
  judge: string,
  verdict: VerdictRow,
  labels: Map<string, string>,
  duration: number,
  seek: (time: number) => void,
  showReason: (judge: string, subgoal: string) => void,
): HTMLElement {
  const { subgoal, answer, whenS, score } = verdict;
  const label = labels.get(subgoal);
  const since = h("i", { class: "since" });
  if (known(whenS)) since.style.left = `${(100 * whenS) / duration}%`;
  else since.classList.add(answer === "yes" ? "whole" : "nowhere");
  const facts = [
    known(whenS) ? `at ${whenS.toFixed(1)} s` : "",
    known(score) ? `score ${score.toFixed(2)}` : "",
    label && label !== "unknown" && label !== answer ? `label: ${label}` : "",
  ]
    .filter(Boolean)
    .join(", ");
  return h(
    "button",
    {
      type: "button",
      class: `lane verdict ${answer}`,
      title: verdict.why || "No reason given",
      "data-subgoal": subgoal,
      "data-answer": answer,
      onclick: () => {
        if (known(whenS)) seek(whenS);
        showReason(judge, subgoal);
      },
    },
    since,
    h("span", { class: "lane-text" }, h("b", {}, SIGNS[answer]), ` ${subgoal}`, h("small", {}, facts)),
  );
}
