// Ids of episodes in little room: what all of them share is left out, and what differs is kept.

const SEPARATOR = /[/\\_\-.:\s]/;

/** How many characters at the start and at the end every id shares, up to a separator. */
export interface SharedParts {
  start: number;
  end: number;
}

export function sharedParts(ids: string[]): SharedParts {
  if (ids.length < 2) return { start: 0, end: 0 };
  const [first] = ids;
  let start = first.length;
  for (const id of ids) {
    let i = 0;
    while (i < start && i < id.length && id[i] === first[i]) i += 1;
    start = i;
  }
  let end = first.length - start;
  for (const id of ids) {
    let i = 0;
    while (i < end && i < id.length - start && id[id.length - 1 - i] === first[first.length - 1 - i]) i += 1;
    end = i;
  }
  while (start > 0 && !SEPARATOR.test(first[start - 1])) start -= 1;
  while (end > 0 && !SEPARATOR.test(first[first.length - end])) end -= 1;
  return { start, end };
}

/** An id of at most `room` characters; the middle of the part that differs is cut last. */
export function shortId(id: string, { start, end }: SharedParts, room: number): string {
  const letters = [...id];
  if (letters.length <= room) return id;
  // A few characters of what is shared say what kind of name it is.
  const before = start > 4 ? `${id.slice(0, 3)}…` : id.slice(0, start);
  const after = end > 4 ? "…" : id.slice(id.length - end);
  const own = [...id.slice(start, id.length - end)];
  const left = room - before.length - after.length;
  if (own.length <= left) return before + own.join("") + after;
  const tail = Math.ceil((left - 1) / 2);
  return `${before}${own.slice(0, left - 1 - tail).join("")}…${own.slice(-tail).join("")}${after}`;
}
