/* What happens at an output step, in sentences. Steps are counted from 1. */

import { argmax } from "../../kit/maths.ts";
import { count, show } from "../../kit/text.ts";
import type { Network, Seen, Wrote } from "./maths.ts";

export type Names = Record<Network, string>;

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** About the step, the network with one vector, and the one with attention; and all of it in a short sentence. */
export function describeStep(seen: Seen, step: number, names: Names) {
  if (step <= 0) return describeReading(seen, seen.read.length + step, names);
  const i = step - 1;
  const row = seen.weights[i]!;
  const j = argmax(row);
  const verdict = (name: string, { wrote, right }: Wrote) =>
    `${capital(name)}: writes ${wrote[i]}, which is ${right[i] ? "right" : "wrong"}.`;
  return {
    wanted: `Step ${step} of ${seen.wanted.length}: the ${seen.unit} to write is ${seen.wanted[i]}.`,
    plain: verdict(names.plain, seen.plain),
    attentive: `${verdict(names.attentive, seen.attentive)} It looks most at ${seen.unit} ${j + 1}, ${seen.read[j]}, with weight ${show(row[j]!)}.`,
    short: `${capital(names.plain)} writes “${seen.plain.wrote[i]}”. ${capital(names.attentive)} looks most at “${seen.read[j]}” and writes “${seen.attentive.wrote[i]}”.`,
  };
}

/** The same while the networks read. */
function describeReading({ read, unit }: Seen, taken: number, names: Names) {
  const wanted = taken
    ? `${capital(unit)} ${taken} of ${read.length} is read: ${read[taken - 1]}.`
    : "Nothing is read yet.";
  const full = taken === read.length ? " It has to hold all of them now." : "";
  return {
    wanted,
    plain: `${capital(names.plain)}: the same vector takes in every ${unit}.${full}`,
    attentive: `${capital(names.attentive)}: a vector for each ${unit} is kept.`,
    short: taken
      ? `${capital(names.plain)} takes in “${read[taken - 1]}”${full && `, all ${read.length} by now`}. ${capital(names.attentive)} keeps a vector for each ${unit}.`
      : wanted,
  };
}

/** All weights of a step. */
export function weightsInWords(seen: Seen, step: number): string {
  const row = seen.weights[step - 1]!;
  return `Weights of step ${step}: ${row.map((weight, j) => `${seen.read[j]} ${show(weight)}`).join(", ")}.`;
}

/** How many letters or words each network wrote right. */
export function sumUp({ unit, wanted, plain, attentive }: Seen, names: Names): string {
  const english = plain.glosses.some(Boolean) ? " Below each Italian word is its English." : "";
  return `Of ${count(wanted.length, unit)}, ${names.plain} gets ${plain.count} right, ${names.attentive} ${attentive.count}.${english}`;
}

/** What a network wrote, in one go: with its English if there is any, and how many letters or words are right. */
export function wroteInWords(name: string, { wrote, glosses, count: right }: Wrote): string {
  const english = glosses.filter(Boolean).join(" ");
  return `${capital(name)}: wrote ${wrote.join(" ")}${english && `, word by word: ${english}`}; ${right} of ${wrote.length} right.`;
}
