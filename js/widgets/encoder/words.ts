/* What is said of a reading. */

import { argmax } from "../../kit/maths.ts";
import { nameOfHead, type Reading, type Senses, spell } from "./maths.ts";
import type { Head } from "./network.ts";

/** After which layer chapter 10 measures senses. */
export const SENSE_LAYER = 3;

export const two = (value: number): string => value.toFixed(2).replace("-", "−");

export const sayHeads = (heads: readonly Head[]): string => {
  const names = heads.map(nameOfHead);
  const last = names.pop();
  return names.length ? `heads ${names.join(", ")} and ${last}` : `head ${last}`;
};

/** Where a word looks most: “river” (0.69). */
export function sayLook(reading: Reading, word: number, head: Head): string {
  const weights = reading.looks(word, head);
  if (!weights || weights.every((weight) => weight === 0)) return "nowhere";
  const most = argmax(weights);
  return `at “${spell(reading, most)}” (${two(weights[most]!)})`;
}

/** The nearer sense after layer 3, and what the cosines were before something was taken away:
    is nearest to river (0.94, was 0.93; money 0.88, was 0.86). */
export function saySense({ names, path }: Senses, before: Senses | null = null): string {
  const cosines = path[SENSE_LAYER]!;
  const say = (sense: number) =>
    `${two(cosines[sense]!)}${before ? `, was ${two(before.path[SENSE_LAYER]![sense]!)}` : ""}`;
  if (two(cosines[0]) === two(cosines[1])) return `is as near to ${names[0]} (${say(0)}) as to ${names[1]} (${say(1)})`;
  const [near, far] = cosines[0] > cosines[1] ? [0, 1] : [1, 0];
  return `is nearest to ${names[near]!} (${say(near)}; ${names[far]!} ${say(far)})`;
}

/** Everything that a sentence's picture and its path show, in lines. */
export function describe(reading: Reading, word: number, head: Head): string[] {
  const name = spell(reading, word);
  const weights = reading.looks(word, head) ?? [];
  const looks = weights.map((weight, to) => `${spell(reading, to)} ${two(weight)}`);
  const senses = reading.senses(word);
  const path = (senses?.path ?? []).map(([one, other], layer) => {
    const when = layer ? `After layer ${layer}` : "Before the first layer";
    return `${when}, “${name}”: ${senses!.names[0]} ${two(one)}, ${senses!.names[1]} ${two(other)}.`;
  });
  return [`From “${name}”, head ${nameOfHead(head)}: ${looks.join(", ")}.`, ...path];
}
