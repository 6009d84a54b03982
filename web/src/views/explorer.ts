// Find an episode and look at it: the list on one side, the episode on the other, the keyboard for both.
import type { Context, View } from "../app";
import { CONDITIONS } from "../conditions";
import type { Item } from "../data";
import { choice, fill, h, searchBox } from "../dom";
import { episodeList } from "../explorer/episode-list";
import { KEYS, onKey } from "../explorer/keys";
import { EpisodePane } from "../explorer/pane";
import { NO_FILTER, readFilter, select, type Filter } from "../explorer/selection";
import { plural } from "../format";
import { distinct, packName, shown } from "../names";
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
  // On a narrow window the list opens over the episode's place; on a wide one it is always there.
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
      ...values.map((name): [string, string] => [packName(name), shown(name)]),
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
      orderButton(filter, () => refilter({ order: filter.order ? "" : "turned" })),
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
    if (chosen < 0) fill(place, h("p", { class: "empty" }, "No episode fits these filters."));
    else {
      pane = new EpisodePane(context, items[chosen], frame, (_frame, playing) => {
        if (!playing) remember();
      });
      fill(place, pane.element);
    }
    remember();
  }

  /** Write what is shown into the address; browsers allow that only so often. */
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

  /** The episode and frame of the address; the first of the list where it names none. */
  function follow(): void {
    const [runId, key, frame] = context.route.path;
    const run = data.page.runs.findIndex(({ id }) => id === runId);
    const episode = key === undefined ? -1 : data.byKey(key);
    const fits = (item: Item): boolean =>
      (key === undefined || item.episode === episode) && (run < 0 || item.run === run);
    let at = items.findIndex(fits);
    if (at < 0 && episode >= 0 && run >= 0 && data.runs[run].rowOf(episode) >= 0) {
      // The address names an episode that its own filters hide: the episode wins.
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

function orderButton({ sort, order }: Filter, turn: () => void): HTMLElement {
  const [usual, turned] = !sort
    ? ["From the first", "From the last"]
    : sort === "duration"
      ? ["Shortest first", "Longest first"]
      : ["Best first", "Worst first"];
  return h(
    "button",
    { type: "button", class: "order", title: "Turn the order round", onclick: turn },
    order ? `↑ ${turned}` : `↓ ${usual}`,
  );
}

/** Filters that came with a link and have no control of their own. */
function hidden(filter: Filter): [string, Partial<Filter>][] {
  const found: [string, Partial<Filter>][] = [];
  if (filter.fingerprint) found.push([filter.fingerprint, { fingerprint: "" }]);
  if (filter.subgoal) {
    const what = filter.answer === "first" ? "fails first" : filter.answer || "any verdict";
    found.push([
      `${filter.subgoal}: ${what}, by ${filter.source === "label" ? "label" : "judge"}`,
      { subgoal: "", answer: "", source: "" },
    ]);
  }
  return found;
}
