// The explorer: the list of episodes on one side, the chosen episode on the other, keyboard control of both.
import "../styles/explorer.css";
import type { Context, View } from "../app";
import { CONDITIONS } from "../conditions";
import type { Item } from "../data";
import { choice, fill, h, searchBox } from "../dom";
import { episodeList } from "../explorer/episode-list";
import { KEYS, onKey } from "../explorer/keys";
import { EpisodePane } from "../explorer/pane";
import { NO_FILTER, readFilter, select, type Filter } from "../explorer/selection";
import { plural } from "../format";
import { distinct, packName, displayName } from "../names";
import { replaceRoute, routeHash } from "../route";

export function explorer(first: Context): View {
  let context = first;
  let filter = readFilter(context.route.options);
  let items = select(context, filter);
  let chosen = -1;
  let pane: EpisodePane | null = null;
  let writing = 0;
  const { data, board } = context;
  const controls = h("div", { class: "list-controls" });
  const counted = h("p", { class: "muted counted", role: "status" });
  const place = h("div", { class: "pane" });
  const list = episodeList(
    () => context,
    () => items,
    () => filter,
    (i) => open(i, 0),
  );
  const drawer = h("div", { class: "drawer" }, controls, counted, list.element);
  // In a narrow window the list opens over the episode; in a wide one it is always visible.
  const toggle = h(
    "button",
    {
      type: "button",
      class: "drawer-toggle",
      "aria-expanded": "false",
      onclick: () => {
        toggle.setAttribute("aria-expanded", String(drawer.classList.toggle("open")));
        list.show(items.length, chosen);
      },
    },
    "☰ Episodes",
  );

  function refilter(change: Partial<Filter>): void {
    const kept = items[chosen];
    filter = { ...filter, ...change };
    items = select(context, filter);
    const at = kept ? items.findIndex(({ run, row }) => run === kept.run && row === kept.row) : -1;
    drawControls("text" in change);
    if (at < 0) open(0, 0);
    else {
      chosen = at;
      list.show(items.length, at);
      remember();
    }
  }

  function drawControls(typing: boolean): void {
    counted.textContent = plural(items.length, "episode");
    if (typing) return;
    const tasks = distinct(data.items(board).map(({ episode }) => data.task(episode)));
    const policies = distinct(board.overall.map((group) => group.policy));
    const names = (values: (string | null)[]): [string, string][] => [
      ["", "All"],
      ...values.map((name): [string, string] => [packName(name), displayName(name)]),
    ];
    fill(
      controls,
      searchBox("id, task, policy, instruction", filter.text, (text) => refilter({ text })),
      policies.length > 1 && choice("Policy", names(policies), filter.policy, (policy) => refilter({ policy })),
      tasks.length > 1 && choice("Task", names(tasks), filter.task, (task) => refilter({ task })),
      choice(
        "Success",
        CONDITIONS.map(({ key, text }): [string, string] => [key, key ? text : "All"]),
        filter.success,
        (success) => refilter({ success }),
      ),
      choice(
        "Sort",
        [
          ["", "Episode"],
          ["duration", "Duration"],
          ...data.page.metrics.map(({ name, label }): [string, string] => [name, label]),
        ],
        filter.sort,
        (sort) => refilter({ sort, order: "" }),
      ),
      orderButton(filter, () => refilter({ order: filter.order ? "" : "reversed" })),
      hidden(filter).map(([text, change]) =>
        h(
          "button",
          {
            type: "button",
            class: "tag remove",
            title: "Remove this filter",
            onclick: () => refilter(change),
          },
          `${text} ✕`,
        ),
      ),
    );
  }

  function open(index: number, frame: number): void {
    chosen = items.length ? Math.min(items.length - 1, Math.max(0, index)) : -1;
    pane?.close();
    pane = null;
    list.show(items.length, chosen);
    if (chosen < 0) fill(place, h("p", { class: "empty" }, "No episode matches these filters."));
    else {
      pane = new EpisodePane(context, items[chosen], frame, (_frame, playing) => {
        if (!playing) remember();
      });
      fill(place, pane.element);
    }
    remember();
  }

  /** Write the episode, frame and filters into the address; browsers limit how often that is possible. */
  function remember(): void {
    clearTimeout(writing);
    writing = setTimeout(writeAddress, 120);
  }

  function writeAddress(): void {
    const { page } = data;
    const item = items[chosen];
    const options = Object.fromEntries(Object.entries(filter));
    replaceRoute(
      item
        ? routeHash("explorer", [page.runs[item.run].id, data.key(item.episode), pane?.player.frame ?? 0], options)
        : routeHash("explorer", [], { judge: board.id, ...options }),
    );
  }

  /** Open the episode and frame in the address; the first of the list if it names none. */
  function follow(): void {
    const [runId, key, frame] = context.route.path;
    const run = data.page.runs.findIndex(({ id }) => id === runId);
    const episode = key === undefined ? -1 : data.byKey(key);
    const fits = (item: Item): boolean =>
      (key === undefined || item.episode === episode) && (run < 0 || item.run === run);
    let at = items.findIndex(fits);
    if (at < 0 && episode >= 0 && run >= 0 && data.runs[run].rowOf(episode) >= 0) {
      // The address names an episode that its own filters exclude: the filters are dropped.
      filter = { ...NO_FILTER };
      items = select(context, filter);
      at = items.findIndex(fits);
    }
    drawControls(false);
    if (key !== undefined && at < 0) {
      list.show(items.length, (chosen = -1));
      fill(place, h("p", { class: "empty", role: "alert" }, `This report has no episode ${key} in run ${runId}.`));
    } else if (at === chosen && pane) pane.seek(Number(frame) || 0);
    else open(Math.max(0, at), Number(frame) || 0);
  }

  const keys = (event: KeyboardEvent): void => onKey(event, pane, (by) => open(chosen + by, 0), controls);
  addEventListener("keydown", keys);
  requestAnimationFrame(() => list.show(items.length, chosen));
  follow();
  return {
    element: h(
      "div",
      { class: "explorer" },
      h(
        "aside",
        {},
        toggle,
        drawer,
        h(
          "div",
          { class: "steps" },
          h("button", { type: "button", onclick: () => open(chosen - 1, 0) }, "‹ Previous"),
          h("button", { type: "button", onclick: () => open(chosen + 1, 0) }, "Next ›"),
        ),
        h("details", { class: "keys" }, h("summary", {}, "Keys"), h("p", { class: "muted" }, KEYS)),
      ),
      place,
    ),
    update: (next) => {
      clearTimeout(writing);
      context = next;
      filter = readFilter(next.route.options);
      items = select(context, filter);
      follow();
      return true;
    },
    repaint: () => pane?.repaint(),
    close: () => {
      clearTimeout(writing);
      removeEventListener("keydown", keys);
      pane?.close();
    },
  };
}

function orderButton({ sort, order }: Filter, reverse: () => void): HTMLElement {
  const [normal, reversed] = !sort
    ? ["First to last", "Last to first"]
    : sort === "duration"
      ? ["Shortest first", "Longest first"]
      : ["Best first", "Worst first"];
  return h(
    "button",
    { type: "button", class: "order", title: "Reverse the order", onclick: reverse },
    order ? `↑ ${reversed}` : `↓ ${normal}`,
  );
}

/** Filters that came with a link and have no control of their own. */
function hidden(filter: Filter): [string, Partial<Filter>][] {
  const found: [string, Partial<Filter>][] = [];
  if (filter.mode) found.push([filter.mode, { mode: "" }]);
  if (filter.subgoal) {
    const what = filter.answer === "first" ? "fails first" : filter.answer || "any verdict";
    found.push([
      `${filter.subgoal}: ${what}, by ${filter.source === "label" ? "label" : "judge"}`,
      { subgoal: "", answer: "", source: "" },
    ]);
  }
  return found;
}
