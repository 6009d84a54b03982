// Parts of a page that holds many episodes: asked for when they are looked at, and forgotten when others were since.
//
// A page on disk may load nothing but scripts, so a part is a script that calls `stepscorePart`; a served page asks for JSON.

const MAX_KEPT = 48; // parts, of about a third of a megabyte each

type Waiting = { promise: Promise<void>; done: (text: string) => void };

const waiting = new Map<string, Waiting>();

declare global {
  interface Window {
    stepscorePart?: (name: string, text: string) => void;
  }
}

window.stepscorePart = (name, text) => waiting.get(name)?.done(text);

export class Parts {
  private readonly kept = new Map<string, unknown>();

  /** `folder` is that of a page on disk; null for a page that is served. */
  constructor(private readonly folder: string | null) {}

  /** A part that is here. */
  get<T>(name: string): T | undefined {
    const found = this.kept.get(name);
    if (found === undefined) return undefined;
    this.kept.delete(name); // the last one looked at is forgotten last
    this.kept.set(name, found);
    return found as T;
  }

  /** Load what is not here yet; null where nothing is missing. */
  load(names: string[]): Promise<void> | null {
    const missing = [...new Set(names)].filter((name) => this.get(name) === undefined);
    if (!missing.length) return null;
    return Promise.all(missing.map((name) => this.ask(name))).then(() => undefined);
  }

  private keep(name: string, part: unknown): void {
    this.kept.set(name, part);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= MAX_KEPT) break;
      this.kept.delete(oldest);
    }
  }

  private async ask(name: string): Promise<void> {
    if (this.folder === null) {
      const answer = await fetch(`parts/${name}`);
      if (!answer.ok) throw new Error(`The server has no part ${name}; load the page again.`);
      this.keep(name, await answer.json());
      return;
    }
    let asked = waiting.get(name);
    if (!asked) waiting.set(name, (asked = script(`${this.folder}/${name}.js`, name, (part) => this.keep(name, part))));
    await asked.promise;
  }
}

function script(src: string, name: string, keep: (part: unknown) => void): Waiting {
  let done: Waiting["done"] = () => undefined;
  const promise = new Promise<void>((resolve, reject) => {
    const element = document.createElement("script");
    const end = (): void => {
      element.remove();
      waiting.delete(name);
    };
    done = (text) => {
      keep(JSON.parse(text));
      end();
      resolve();
    };
    element.onerror = () => {
      end();
      reject(new Error(`${src} cannot be loaded. The page needs the folder beside it: move both or neither.`));
    };
    element.src = src.split("/").map(encodeURIComponent).join("/");
    document.head.append(element);
  });
  return { promise, done };
}
