/* The little language: cutting a text into words, what is near an unknown one, and the right translation. */

import type { Grammar, Machine } from "./machine.ts";

/** Cut a text into words, commas and question marks, in small letters; an apostrophe ends its word. */
export const splitWords = (text: string): string[] =>
  text
    .toLowerCase()
    .replaceAll("’", "'")
    .match(/[\p{L}\p{N}]+'?|[^\p{L}\p{N}_\s]/gu) ?? [];

/** The words that the machine reads: a full stop or an exclamation mark says nothing. */
export const wordsOf = (text: string): string[] => splitWords(text).filter((word) => word !== "." && word !== "!");

/** Write words as a text: no space after an apostrophe or before a comma or a question mark. */
export const joinWords = (words: readonly string[]): string =>
  words.join(" ").replaceAll("' ", "'").replaceAll(" ,", ",").replaceAll(" ?", "?");

/** How many letters must be put in, left out, exchanged, or swapped with the next, to make one word of another. */
export function distance(a: string, b: string): number {
  const d = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array<number>(b.length).fill(0)]);
  for (let j = 0; j <= b.length; j++) d[0]![j] = j;
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      d[i]![j] = Math.min(d[i - 1]![j]! + 1, d[i]![j - 1]! + 1, d[i - 1]![j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        d[i]![j] = Math.min(d[i]![j]!, d[i - 2]![j - 2]! + 1);
      }
    }
  }
  return d[a.length]![b.length]!;
}

const isNumber = (word: string) => /^\d+$/.test(word);

/** Up to three words of a list of which one that is not in it may be a misspelling; for a number the nearest numbers. */
export function nearest(word: string, known: readonly string[]): string[] {
  const far = isNumber(word)
    ? (other: string) => (isNumber(other) ? Math.abs(Number(other) - Number(word)) : Infinity)
    : (other: string) => (isNumber(other) ? Infinity : distance(word, other));
  const limit = isNumber(word) ? Infinity : Math.floor(word.length / 3);
  return known
    .map((other, place) => [far(other), place, other] as const)
    .filter(([steps]) => steps <= limit && steps < Infinity)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .slice(0, 3)
    .map(([, , other]) => other);
}

export const MOST_WORDS = 40;

/** What is wrong with a text, or null where the machine can read it. */
export type Trouble =
  | null
  | { kind: "empty" }
  | { kind: "long"; words: number }
  | { kind: "unknown"; words: { word: string; near: string[] }[] };

export function troubleIn(text: string, machine: Machine): Trouble {
  const words = wordsOf(text);
  if (words.length === 0) return { kind: "empty" };
  const known = machine.english.slice(1);
  const unknown = [...new Set(words)].filter((word) => !known.includes(word));
  if (unknown.length) return { kind: "unknown", words: unknown.map((word) => ({ word, near: nearest(word, known) })) };
  return words.length > MOST_WORDS ? { kind: "long", words: words.length } : null;
}

/** Put a word in the place of another, everywhere in a text. */
export function replaceWord(text: string, word: string, other: string): string {
  const plain = text.replaceAll("’", "'");
  const parts = plain.match(/[\p{L}\p{N}]+'?|[^\p{L}\p{N}]/gu) ?? [];
  return parts.map((part) => (part.toLowerCase() === word ? other : part)).join("");
}

export const idsOf = (text: string, machine: Machine): number[] =>
  wordsOf(text).map((word) => machine.english.indexOf(word));

// ---- The grammar --------------------------------------------------------------------------------------------------

/** What the grammar says of a sentence: its Italian words, and whether its noun and verb were kept from training. */
export interface Parsed {
  italian: string[];
  heldOut: boolean;
  noun: string;
  verb: string;
  answer: boolean;
}

const feminine = (word: string) => (word.endsWith("o") ? `${word.slice(0, -1)}a` : word);

/** A sentence by the grammar; null where it is none. */
export function parse(words: readonly string[], grammar: Grammar): Parsed | null {
  const pattern = new RegExp(`^(?:${grammar.pattern.replaceAll("(?P<", "(?<")})$`);
  const text = words.join(" ");
  const found = pattern.exec(text)?.groups;
  if (!found) return null;
  const year = Number(found.year);
  const past = grammar.past.includes(year);
  if (!past && !grammar.future.includes(year)) return null;
  if (!!found.answer !== !!found.question || !` ${text} `.includes(past ? " was " : " will be ")) return null;

  const noun = (english: string) => grammar.nouns.find(([own]) => own === english)!;
  const the = ([, italian, isFeminine]: Grammar["nouns"][number], of = false) => {
    const vowel = /^[aeiou]/.test(italian);
    const article = vowel ? "l'" : isFeminine ? "la" : /^(s[^aeiou]|z)/.test(italian) ? "lo" : "il";
    return [of ? { "l'": "dell'", la: "della", lo: "dello", il: "del" }[article]! : article, italian];
  };
  const subject = noun(found.subject!);
  const verb = found.verb!;
  const agreeing = (word: string) => (subject[2] ? feminine(word) : word);
  const [adjective, leading, of, user] = [found.adjective, found.leading, found.of, found.user];
  const answer = !!found.answer;
  const italian = [
    ...(!answer && leading ? ["dopo", ...the(noun(leading)), ","] : []),
    ...(answer ? [] : the(subject)),
    ...(!answer && adjective ? [agreeing(grammar.adjectives[adjective]!)] : []),
    ...(!answer && of ? the(noun(of), true) : []),
    ...(!answer && user ? ["che", ...the(noun(user)), grammar.relatives[found.relation!]!] : []),
    ...(past ? ["è", agreeing("stato")] : ["verrà"]),
    agreeing(grammar.verbs[verb]!),
    "nel",
    String(year),
  ];
  const places = grammar.nouns.indexOf(subject) + Object.keys(grammar.verbs).indexOf(verb);
  return { italian, heldOut: places % grammar.held_out_of === 0, noun: subject[0], verb, answer };
}
