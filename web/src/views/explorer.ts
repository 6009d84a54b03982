// The explorer: the list of episodes on one side, the chosen ones on the other, keyboard control of both.
import "../styles/explorer.css";
import "../styles/traces.css";
import type { Context, View } from "../app";
import type { Item } from "../data";
import { fill, h } from "../dom";
import { ComparePane, MAX_COMPARED } from "../explorer/compare/compare-pane";
import { compareWith } from "../explorer/compare/compare-with";
import { EpisodePane } from "../explorer/episode-pane";
import { KEYS, onKey } from "../explorer/keys";
import { filterControls } from "../explorer/list/controls";
import { episodeList } from "../explorer/list/episode-list";
import { needsOf, NO_FILTER, readFilter, select, type Filter } from "../explorer/list/selection";
import type { Pane } from "../explorer/pane";
import { judged, sameIn, sameItem } from "../explorer/same-item";
import { worstFailure } from "../explorer/worst";
import { plural } from "../format";
import { replaceRoute, routeHash } from "../route";

const SEPARATOR = "|"; // between the episodes of a comparison in the address

export function explorer(first: Context): View {
  let context = first;
  let filter = readFilter(context.route.options);
  let items = select(context, filter);
  let chosen = -1;
  let others: Item[] = []; // shown beside the chosen one
  let view = context.route.options.view ?? "";
  let comparing = false;
  let pane: Pane | null = null;
  let writing = 0;
  let asked = 0; // counts what was asked for, so that what comes late is not shown
  let closed = false;
  const controls = h("div", { class: "list-controls" });
  const counted = h("p", { class: "muted counted", role: "status" });
  const place = h("div", { class: "pane" });
  const list = episodeList(
    {
      context: () => context,
      items: () => items,
      filter: () => filter,
      compared: (item) => others.some((other) => sameItem(item, other)),
    },
    (i, event) => {
      const add = comparing || (event !== null && (event.ctrlKey || event.metaKey || event.shiftKey));
      if (add && chosen >= 0) toggleCompared(items[i]);
      else open(i, 0);
    },
  );
  const compareButton = h(
    "button",
    {
      type: "button",
      class: "compare-toggle",
      title: `Show up to ${MAX_COMPARED} episodes side by side: press this, then click them; or ctrl-click them`,
      "aria-pressed": "false",
      onclick: () => {
        comparing = !comparing;
        compareButton.setAttribute("aria-pressed", String(comparing));
        count();
      },
    },
    "Compare",
  );
  const drawer = h(
    "div",
    { class: "drawer" },
    controls,
    h("div", { class: "list-head" }, counted, compareButton),
    list.element,
  );
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
    const next = { ...filter, ...change };
    const need = needsOf(context, next);
    if (need) wait(need, () => refilter(change));
    else applyFilter(next, "text" in change);
  }

  function applyFilter(next: Filter, typing: boolean): void {
    const kept = items[chosen];
    filter = next;
    items = select(context, filter);
    const at = kept ? items.findIndex((item) => sameItem(item, kept)) : -1;
    drawControls(typing);
    if (at < 0) openWorst();
    else {
      chosen = at;
      list.show(items.length, at);
      remember();
    }
  }

  function count(): void {
    counted.textContent = comparing ? "Click episodes to add or remove" : plural(items.length, "episode");
  }

  function drawControls(typing: boolean): void {
    count();
    if (!typing) fill(controls, filterControls(context, filter, refilter));
  }

  function openWorst(): void {
    open(worstFailure(context, items), null);
  }

  /** Go on when something is loaded, unless something else was asked for since. */
  function wait(need: Promise<void>, then: () => void): void {
    const mine = (asked += 1);
    need.then(
      () => mine === asked && !closed && then(),
      (error: Error) => {
        if (mine === asked && !closed) fill(place, h("p", { class: "empty", role: "alert" }, error.message));
      },
    );
  }

  /** Open an episode of the list at a frame, or at its worst time (null), with others beside it. */
  function open(index: number, frame: number | null, beside: Item[] = []): void {
    chosen = items.length ? Math.min(items.length - 1, Math.max(0, index)) : -1;
    others = chosen < 0 ? [] : beside;
    pane?.close();
    pane = null;
    list.show(items.length, chosen);
    asked += 1;
    const shown = chosen < 0 ? [] : [items[chosen], ...others];
    const need = context.data.need(shown);
    if (need) {
      fill(place, h("p", { class: "empty", role: "status" }, "Loading …"));
      wait(need, () => draw(shown[0], frame));
    } else draw(shown[0], frame);
  }

  /** Show an episode whose data are here. */
  function draw(item: Item | undefined, frame: number | null): void {
    if (!item) fill(place, h("p", { class: "empty" }, nothing()));
    else {
      pane = makePane(item, frame);
      fill(place, pane.element);
    }
    remember();
  }

  function nothing(): string {
    const some = context.data.items(context.board).length > 0;
    return some ? "No episode matches these filters." : "No episode is judged yet.";
  }

  function makePane(item: Item, frame: number | null): Pane {
    const moved = (_frame: number, playing: boolean): void => {
      if (!playing) remember();
    };
    if (!others.length) {
      const menu = compareWith(context, item, (added) => openCompared([item, ...added]));
      return new EpisodePane(context, item, frame, moved, menu);
    }
    return new ComparePane(context, [item, ...others], frame ?? 0, {
      view,
      changeView: (name) => {
        view = name;
        open(chosen, pane?.player.frame ?? 0, others);
      },
      remove: toggleCompared,
      moved,
    });
  }

  function toggleCompared(item: Item): void {
    const shown = [items[chosen], ...others];
    const without = shown.filter((one) => !sameItem(one, item));
    openCompared(without.length < shown.length ? without : [...shown, item]);
  }

  function openCompared(wanted: Item[]): void {
    const [main, ...beside] = wanted.slice(0, MAX_COMPARED);
    if (!main) return;
    const time = pane ? pane.player.frame : 0;
    const at = items.findIndex((item) => sameItem(item, main));
    open(at < 0 ? chosen : at, time, beside);
  }

  /** Write the episodes, frame and filters into the address; browsers limit how often that is possible. */
  function remember(): void {
    clearTimeout(writing);
    writing = setTimeout(writeAddress, 120);
  }

  function writeAddress(): void {
    const { data, board } = context;
    const item = items[chosen];
    const compared = others.map(({ episode }) => encodeURIComponent(data.key(episode))).join(SEPARATOR);
    const options = { ...filter, with: compared, view };
    replaceRoute(
      item
        ? routeHash("explorer", [data.page.runs[item.run].id, data.key(item.episode), pane?.player.frame ?? 0], options)
        : routeHash("explorer", [], { judge: board.id, ...options }),
    );
  }

  /** The episodes that the address wants beside the chosen one. */
  function besides(): Item[] {
    const { data, board, route } = context;
    const every = route.options.with ? data.items(board) : [];
    return (route.options.with ?? "")
      .split(SEPARATOR)
      .filter(Boolean)
      .flatMap((key) => every.find(({ episode }) => data.key(episode) === decode(key)) ?? [])
      .slice(0, MAX_COMPARED - 1);
  }

  /** Open the episode and frame in the address; the worst failure if it names none. */
  function follow(): void {
    const { data } = context;
    const [runId, key, frame] = context.route.path;
    const run = data.page.runs.findIndex(({ id }) => id === runId);
    const episode = key === undefined ? -1 : data.byKey(key);
    const fits = (item: Item): boolean => item.episode === episode && (run < 0 || item.run === run);
    let at = items.findIndex(fits);
    if (at < 0 && episode >= 0 && run >= 0 && data.runs[run].rowOf(episode) >= 0) {
      // The address names an episode that its own filters exclude: the filters are dropped.
      filter = { ...NO_FILTER };
      items = select(context, filter);
      at = items.findIndex(fits);
    }
    view = context.route.options.view ?? "";
    drawControls(false);
    const beside = besides();
    const same = beside.length === others.length && beside.every((item, i) => sameItem(item, others[i]));
    if (key === undefined) openWorst();
    else if (at < 0) {
      list.show(items.length, (chosen = -1));
      fill(place, h("p", { class: "empty", role: "alert" }, `This report has no episode ${key} in run ${runId}.`));
    } else if (at === chosen && pane && same) pane.seek(Number(frame) || 0);
    else open(at, Number(frame) || 0, beside);
  }

  /** Newer data: the list grows around the episode on screen, which stays as it is unless it was judged again. */
  function refresh(next: Context): boolean {
    const before = context;
    const kept = chosen < 0 ? [] : [items[chosen], ...others];
    context = next;
    items = select(context, filter);
    if (!controls.contains(document.activeElement)) drawControls(false);
    count();
    const again = (item: Item): Item[] => sameIn(next.data, before.data, item);
    const [main, ...beside] = kept.flatMap(again);
    const at = main ? items.findIndex((item) => sameItem(item, main)) : -1;
    if (at < 0) {
      openWorst();
      return true;
    }
    others = beside;
    chosen = at;
    list.keep(items.length, at);
    const changed = kept.some((item) => judged(before.data, item) !== judged(next.data, again(item)[0]));
    if (changed && pane) {
      const { frame, playing } = pane.player;
      open(at, frame, others);
      if (playing) pane.player.play();
    }
    return true;
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
    refresh,
    repaint: () => pane?.repaint(),
    close: () => {
      closed = true;
      clearTimeout(writing);
      removeEventListener("keydown", keys);
      pane?.close();
    },
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
