// How numbers read. Inside they are 0..1 and seconds; percent is for people.

export const NONE = "–";

export function known(x: number | null | undefined): x is number {
  return x !== null && x !== undefined && Number.isFinite(x);
}

/** 0.4567 as "45.7". */
export function percent(x: number | null | undefined, digits = 1): string {
  return known(x) ? fixed(100 * x, digits) : NONE;
}

export function seconds(x: number | null | undefined): string {
  if (!known(x)) return NONE;
  if (x >= 3600) return `${Math.floor(x / 3600)} h ${Math.round((x % 3600) / 60)} min`;
  if (x >= 60) return `${Math.floor(x / 60)} min ${Math.round(x % 60)} s`;
  return `${x.toFixed(x < 10 ? 2 : 1)} s`;
}

export function count(x: number | null | undefined): string {
  return known(x) ? x.toLocaleString("en") : NONE;
}

export function decimal(x: number | null | undefined, digits = 2): string {
  return known(x) ? fixed(x, digits) : NONE;
}

/** "1 episode", "2 episodes". */
export function plural(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** Rounded, without the sign that rounding leaves on a zero. */
export function fixed(x: number, digits: number): string {
  return x.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
}

/** What intervals of a board speak of, after a sentence: " Intervals speak of these 4 scenes and of no others." */
export function scopeText({ scope }: { scope: string }): string {
  return scope ? ` Intervals speak of ${scope.replace(/^on /, "")} and of no others.` : "";
}
