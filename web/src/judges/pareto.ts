// Accuracy against cost: judges that no other one beats in both are on the front.
import type { JudgeBoard, JudgeRow } from "../contract";
import type { Data } from "../data";
import { h, s } from "../dom";
import { sentence } from "../estimate";
import { count, known, seconds } from "../format";

const [WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT] = [640, 300, 46, 34, 150];

const [ROOM, LINE] = [120, 13]; // of a name

/** Tokens of a video; null where they are not counted. */
export function tokensOf({ cost }: JudgeRow): number | null {
  if (cost.tokens_in === null && cost.tokens_out === null) return null;
  return ((cost.tokens_in ?? 0) + (cost.tokens_out ?? 0)) / Math.max(1, cost.videos ?? 1);
}

const perVideo = (total: number | null, { cost }: JudgeRow): number | null =>
  total === null ? null : total / Math.max(1, cost.videos ?? 1);

/** The cost that the front was made by; where the board does not state it, tokens, else seconds. */
function axis(board: JudgeBoard): {
  of: (row: JudgeRow) => number | null;
  what: string;
  shown: (cost: number) => string;
} {
  if (board.front_cost === "money")
    return { of: (row) => perVideo(row.cost.cost, row), what: "cost of a video", shown: (cost) => cost.toPrecision(2) };
  if (board.front_cost === "images")
    return { of: (row) => perVideo(row.cost.images, row), what: "images a video", shown: (cost) => cost.toFixed(1) };
  if (board.front_cost === "tokens" || board.rows.some((row) => (tokensOf(row) ?? 0) > 0))
    return { of: tokensOf, what: "tokens a video", shown: (cost) => count(Math.round(cost)) };
  return { of: (row) => row.cost.seconds_per_episode, what: "seconds an episode", shown: seconds };
}

/** Null where fewer than two judges have an accuracy and a cost. */
export function paretoPlot(data: Data, board: JudgeBoard): HTMLElement | null {
  const metric = board.metrics.find(({ name }) => name === board.front) ?? board.metrics[0];
  if (!metric) return null;
  const { of: costOf, what, shown } = axis(board);
  const points = board.rows.flatMap((row) => {
    const [estimate, cost] = [row.estimates[metric.name], costOf(row)];
    return estimate && known(estimate[0]) && known(cost) ? [{ row, estimate, cost, value: estimate[0] }] : [];
  });
  if (points.length < 2) return null;
  const most = Math.max(...points.map(({ cost }) => cost), 1e-9);
  const values = points.flatMap(({ estimate: [value, lo, hi] }) => [value, lo, hi]).filter(known);
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)];
  const x = (cost: number): number =>
    LEFT + (WIDTH - LEFT - RIGHT) * (Math.log1p((999 * cost) / most) / Math.log(1000));
  const y = (value: number): number => 10 + (HEIGHT - BOTTOM - 10) * (1 - (value - low) / (high - low));
  const front = points.filter(({ row }) => row.pareto).sort((a, b) => a.cost - b.cost);
  return h(
    "section",
    { class: "pareto" },
    h("h2", {}, `${metric.title} against ${what}`),
    h(
      "p",
      { class: "muted" },
      "The line joins judges that no other one beats in both (filled marks); the axis of cost is logarithmic, from 0.",
    ),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "Pareto plot" },
      s(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          role: "img",
          "aria-label": points
            .map(
              ({ row, estimate, cost }) =>
                `${sentence(data, row.label, estimate, metric)}, ${shown(cost)} ${what}${row.pareto ? ", on the front" : ""}`,
            )
            .join("; "),
        },
        [low, (low + high) / 2, high]
          .map((value) => [
            s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
            s(
              "text",
              { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" },
              metric.percent ? `${Math.round(100 * value)} %` : value.toFixed(1),
            ),
          ])
          .flat(),
        s("polyline", { class: "front", points: front.map(({ cost, value }) => `${x(cost)},${y(value)}`).join(" ") }),
        points.flatMap(({ row, estimate: [, lo, hi], cost, value }) => [
          known(lo) && known(hi) && s("line", { class: "interval", x1: x(cost), x2: x(cost), y1: y(lo), y2: y(hi) }),
          s("circle", {
            class: row.pareto ? "on" : row.trivial ? "trivial" : "off",
            cx: x(cost),
            cy: y(value),
            r: 5,
            "data-judge": row.label,
          }),
        ]),
        labels(points.map(({ row, cost, value }) => ({ name: row.label, x: x(cost), y: y(value) }))),
        s("text", { x: LEFT, y: HEIGHT - 10 }, "0"),
        s("text", { x: WIDTH - RIGHT, y: HEIGHT - 10, "text-anchor": "end" }, `${shown(most)} ${what}`),
      ),
    ),
  );
}

/** The names next to their marks; names that would overlap are put one below the other. */
function labels(marks: { name: string; x: number; y: number }[]): SVGElement[] {
  const placed: { x: number; y: number }[] = [];
  return marks.map(({ name, x, y }) => {
    const at = { x, y };
    while (placed.some((other) => Math.abs(other.x - at.x) < ROOM && Math.abs(other.y - at.y) < LINE)) at.y += LINE;
    placed.push(at);
    return s("text", { x: at.x + 8, y: at.y + 4 }, name.slice(0, 24));
  });
}
