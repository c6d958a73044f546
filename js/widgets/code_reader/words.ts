/* What tokens and heads are called, and what is said about them. */

import { argmax } from "../../kit/maths.ts";
import { show } from "../../kit/text.ts";
import { BEGIN, type Head, isText, likely, type Model, type Place, textOf } from "./maths.ts";

export const LEAST = 0.05; // a weight below this has no arc

/** A text for the eye: spaces, line breaks and what has no shape of its own can be seen. */
export const visible = (text: string): string =>
  text
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replaceAll(" ", "·")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are shown
    .replace(/[\u0000-\u001f]/g, (character) => String.fromCodePoint(0x2400 + character.charCodeAt(0)));

/** A token for the eye; where it is only a part of a character, its bytes. */
export function nameOf(id: number, model: Model): string {
  if (id === BEGIN) return "(start)";
  const bytes = [...model.contents[id]!].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0"));
  return visible(textOf(id, model) ?? `<${bytes.join(" ")}>`);
}

export const sayHead = ([layer, head]: Head): string => `${layer}.${head}`;

export const sayHeads = (heads: readonly Head[]): string => {
  const all = heads.map(sayHead);
  const last = all.pop();
  return `head${all.length ? `s ${all.join(", ")} and` : ""} ${last}`;
};

/** The places whose token is less than half as likely as with all heads. */
export function harder(model: Model, now: readonly Place[], plain: readonly Place[]): Set<number> {
  const result = new Set<number>();
  for (let i = 1; i < now.length && now !== plain; i++) {
    const id = now[i]!.id;
    if (likely(model, now[i - 1]!)[id]! < likely(model, plain[i - 1]!)[id]! / 2) result.add(i);
  }
  return result;
}

/** The text of the likeliest token that has one. */
export function nextText(model: Model, place: Place): string {
  const numbers = likely(model, place);
  let found = -1;
  numbers.forEach((number, id) => {
    if (number > (numbers[found] ?? -1) && isText(id, model)) found = id;
  });
  return textOf(found, model)!;
}

/** The likeliest next token in words: “u” 0.896. */
export function sayLikeliest(model: Model, place: Place): string {
  const numbers = likely(model, place);
  const id = argmax(numbers);
  return `“${nameOf(id, model)}” ${show(numbers[id]!)}`;
}
