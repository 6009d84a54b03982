// Names of groups: how they are displayed, coloured and written into an address.

export const UNKNOWN = "unknown";

/** A name to display; null means the source does not state one. */
export function displayName(name: string | null): string {
  return name ?? UNKNOWN;
}

/** A name in an address: "~" is the unknown one, and names that begin with "~" get one more. */
export function packName(name: string | null): string {
  if (name === null) return "~";
  return name.startsWith("~") ? `~${name}` : name;
}

export function unpackName(text: string | undefined): string | null | undefined {
  if (text === undefined || text === "") return undefined;
  if (text === "~") return null;
  return text.startsWith("~~") ? text.slice(1) : text;
}

/** Distinct values in the order of first use. */
export function distinct<T>(values: Iterable<T>): T[] {
  return [...new Set(values)];
}

const COLOURS = 8;

/** The colour of the i-th policy or judge, as a CSS variable. */
export function colourVariable(i: number): string {
  return `var(--c${((i % COLOURS) + COLOURS) % COLOURS})`;
}
