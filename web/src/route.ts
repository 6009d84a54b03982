// The state of the page in its address after "#": `#/explorer/RUN/EPISODE/FRAME?sort=MP`. Every view can be linked to.

export interface Route {
  view: string;
  path: string[];
  options: Record<string, string>;
}

let current = ""; // the address as last read or written here

export function readRoute(): Route {
  current = location.hash;
  const [path, query = ""] = current.replace(/^#\/?/, "").split("?", 2);
  const parts = path
    .split("/")
    .map(decode)
    .filter((part, i) => i > 0 || part !== "");
  return {
    view: parts[0] ?? "",
    path: parts.slice(1),
    options: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function routeHash(view: string, path: (string | number)[] = [], options: Record<string, string> = {}): string {
  const query = new URLSearchParams(Object.entries(options).filter(([, value]) => value !== "")).toString();
  return `#/${[view, ...path].map((part) => encodeURIComponent(part)).join("/")}${query ? `?${query}` : ""}`;
}

/** Change the address without leaving the view; the back button does not stop at it. */
export function replaceRoute(hash: string): void {
  // A navigation to another address is under way, which must not be overwritten.
  if (location.hash !== current) return;
  history.replaceState(null, "", hash);
  current = location.hash;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
