/* A widget's state in the fragment of an address, so that a link leads to what its reader sees: #plane--eyJxdWVye...
   It is JSON in base64, with the letters of names alone, since scripts of a page's frame take fragments for names. */

const LARGEST = 1000;

/** Whether a value that came by a link is of the kind of the state's own: a list of numbers, say, and none too large. */
function isAlike(given: unknown, own: unknown): boolean {
  if (Array.isArray(own))
    return Array.isArray(given) && given.length <= LARGEST && given.every((each) => isAlike(each, own[0] ?? 0));
  if (typeof own === "number") return typeof given === "number" && Math.abs(given) <= LARGEST;
  if (typeof own === "object" && own !== null) {
    if (typeof given !== "object" || given === null || Array.isArray(given)) return false;
    const [one] = Object.values(own);
    return Object.values(given).every((each) => isAlike(each, one));
  }
  return typeof given === typeof own;
}

/** How the fragments of a widget begin. */
export const markOf = (name: string): string => `#${name}--`;

/** The fragment that leads to these parts of a state. */
export function toFragment<S extends object>(name: string, state: S, parts: readonly (keyof S)[]): string {
  const sent = Object.fromEntries(parts.map((part) => [part, state[part]]));
  const bytes = new TextEncoder().encode(JSON.stringify(sent));
  const text = btoa(String.fromCharCode(...bytes));
  return markOf(name) + text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** What a fragment changes in a state: null if it is about something else, undefined if it cannot be read. */
export function fromFragment<S extends object>(
  fragment: string,
  name: string,
  state: S,
  parts: readonly (keyof S)[],
): Partial<S> | null | undefined {
  const mark = markOf(name);
  if (!parts.length || !fragment.startsWith(mark)) return null;
  try {
    const text = atob(fragment.slice(mark.length).replaceAll("-", "+").replaceAll("_", "/"));
    const given = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
    const own = Object.fromEntries(parts.map((part) => [part, state[part]]));
    const known = Object.keys(given).every((part) => Object.hasOwn(own, part) && isAlike(given[part], own[part]));
    return known ? given : undefined;
  } catch {
    return undefined;
  }
}
