// The shell of the page: title, navigation, judge, colours; the views fill the rest.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./styles/live-runs.css";
import type { Context, View } from "./app";
import type { PageData } from "./contract";
import { readPage, type Data } from "./data";
import { choice, fill, h } from "./dom";
import { LiveRuns } from "./live-runs";
import { makeAnew } from "./make-anew";
import { readRoute, routeHash } from "./route";
import { themeButton } from "./theme";
import { audit } from "./views/audit";
import { needsOf, readFilter } from "./explorer/list/selection";
import { explorer } from "./views/explorer";
import { judges } from "./views/judges";
import { leaderboard } from "./views/leaderboard";
import { overview } from "./views/overview";
import { processView } from "./views/process";
import { subgoals } from "./views/subgoals";

interface Shown {
  title: string;
  make: (context: Context) => View;
  /** Load what the view needs of a page with parts; null where it is here. */
  needs?: (context: Context) => Promise<void> | null;
}
type Views = Record<string, Shown>;

const OF_RUNS: Views = {
  overview: {
    title: "Overview",
    make: overview,
    needs: ({ data, board }) => data.need(board.findings.worst.map((one) => ({ ...one, row: -1 }))),
  },
  leaderboard: {
    title: "Leaderboard",
    make: leaderboard,
    needs: ({ data, board, route: { options } }) => (options.task && options.success ? data.needColumns(board) : null),
  },
  subgoals: { title: "Subgoals", make: subgoals },
  process: { title: "Process", make: processView, needs: ({ data, board }) => data.needSample(board) },
  explorer: {
    title: "Explorer",
    make: explorer,
    needs: (context) => needsOf(context, readFilter(context.route.options)),
  },
};
/** Of an audit, whose runs hold changed episodes beside those they are changed from: no table is of both. */
const OF_AUDIT: Views = { audit: { title: "Audit", make: audit }, explorer: OF_RUNS.explorer };

const OF_BOARD: Views = { judges: { title: "Judges", make: judges } };

function viewsOf({ audit, judge_board, runs }: PageData): Views {
  if (judge_board) return OF_BOARD;
  if (!audit) return OF_RUNS;
  return runs.length ? OF_AUDIT : { audit: OF_AUDIT.audit };
}

function start(root: HTMLElement): void {
  let data: Data;
  try {
    data = readPage();
  } catch (error) {
    fill(root, h("p", { class: "empty", role: "alert" }, error instanceof Error ? error.message : String(error)));
    return;
  }
  const views = viewsOf(data.page);
  const [home] = Object.keys(views);
  let view: View | null = null;
  let name = "";
  let boardId: string | undefined; // none on the page of an audit without its runs
  const main = h("main", { id: "main", tabindex: -1 });
  const nav = h("nav", { "aria-label": "Views" });
  const judge = h("div", { class: "judge" });
  document.title = `${data.page.title} · StepScore`;
  fill(
    root,
    h(
      "a",
      {
        class: "skip",
        href: "#main",
        onclick: (event: Event) => {
          event.preventDefault();
          main.focus();
        },
      },
      "Skip to content",
    ),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: routeHash(home), title: data.page.title }, "StepScore"),
      nav,
      judge,
      themeButton(() => view?.repaint?.()),
    ),
    data.page.live && data.page.runs.length > 0 && new LiveRuns(data.page, renew).element,
    main,
  );

  function show(): void {
    const route = readRoute();
    const wanted = route.view in views ? route.view : home;
    const board = boardOf(data, route);
    const context: Context = { data, route, board };
    const need = views[wanted].needs?.(context);
    if (need) {
      if (!main.firstChild) fill(main, h("p", { class: "empty", role: "status" }, "Loading …"));
      need.then(show, complain);
      return;
    }
    if (wanted === name && board?.id === boardId && view?.update?.(context)) return;
    view?.close?.();
    if (wanted !== name) scrollTo(0, 0);
    [name, boardId] = [wanted, board?.id];
    drawFrame(boardId, carried(data, route, board));
    view = views[wanted].make(context);
    main.className = `view-${wanted}`;
    fill(main, view.element);
    document.body.dataset.ready = wanted;
  }

  function complain(error: Error): void {
    fill(main, h("p", { class: "empty", role: "alert" }, error.message));
    document.body.dataset.ready = "error";
  }

  /** Show newer data where the person is. */
  function renew(newer: Data): void {
    const old = data;
    const route = readRoute();
    const need = views[name].needs?.({ data: newer, route, board: boardOf(newer, route) });
    if (need) {
      need.then(() => renew(newer), complain);
      return;
    }
    data = newer;
    const board = boardOf(data, route);
    const context: Context = { data, route, board };
    if (old.page.boards.length !== data.page.boards.length || board?.id !== boardId)
      drawFrame((boardId = board?.id), carried(data, route, board));
    if (!view?.refresh?.(context))
      makeAnew(main, () => {
        view?.close?.();
        view = views[name].make(context);
        return view.element;
      });
  }

  function drawFrame(current: string | undefined, options: Record<string, string>): void {
    fill(
      nav,
      Object.entries(views).map(([key, { title }]) =>
        h("a", { href: routeHash(key, [], options), "aria-current": key === name ? "page" : null }, title),
      ),
    );
    const [here] = nav.querySelectorAll("[aria-current]");
    if (here instanceof HTMLElement) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - 60;
    fill(
      judge,
      data.page.boards.length < 2 || name === "audit"
        ? null
        : choice(
            "Judge",
            data.page.boards.map((board): [string, string] => [
              board.id,
              board.baseline ? `${board.label} (baseline)` : board.label,
            ]),
            current ?? "",
            (id) => {
              location.hash = routeHash(name, [], {
                ...(name === "explorer" ? {} : readRoute().options),
                judge: id,
              });
            },
          ),
    );
  }

  addEventListener("hashchange", show);
  show();
}

/** The judge in the address: by name, or the one of the run that an episode's address begins with. */
function boardOf(data: Data, route: Context["route"]): Context["board"] {
  const run = route.view === "explorer" ? data.page.runs.find(({ id }) => id === route.path[0]) : undefined;
  if (run) return data.page.boards[run.board];
  return route.view === "subgoals" && !route.options.judge ? data.verdictBoard() : data.board(route.options.judge);
}

/** The judge in links to other views: left out if it is the first, or one that the view chose automatically. */
function carried(data: Data, route: Context["route"], board: Context["board"]): Record<string, string> {
  const chosen = route.options.judge || route.view === "explorer";
  return chosen && board !== data.firstBoard() ? { judge: board.id } : {};
}

start(document.getElementById("app")!);
