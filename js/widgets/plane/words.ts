/* What is said about a word and about the output. */

import { count, minus, raised } from "../../kit/text.ts";
import type { Computed, State } from "./maths.ts";

/** A number of at most two decimals, or with a power of ten where it is huge or tiny. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size === 0 || (size >= 0.005 && size < 10_000)) return minus(String(Number(value.toFixed(2))));
  const [digits = "", power = ""] = value.toExponential(1).split("e");
  return `${minus(digits)} · 10${raised(Number(power))}`;
}

/** A point, rounded to two decimals. */
export const pair = (numbers: readonly number[]): string =>
  `(${numbers.map((one) => minus(String(Number(one.toFixed(2))))).join(", ")})`;

const inProduct = (value: number): string => (value < 0 ? `(${short(value)})` : short(value));

/** How the weight of a word came about, line by line; a power belongs to the name. */
export function arithmetic(state: State, all: Computed, j: number): { name: string; power?: string; sum: string }[] {
  const key = state.keys[j]!;
  const products = state.query.map((q, c) => `${inProduct(q)} · ${inProduct(key[c]!)}`).join(" + ");
  const by = state.divisor === "sqrt(d_k)" ? `√${key.length}` : short(all.tau);
  const score = short(all.scores[j]!);
  const off = state.masked.includes(j);
  const lifted = short(all.exponentials[j]!);
  return [
    { name: "qᵀk", sum: `${products} = ${short(all.raw[j]!)}` },
    { name: "score", sum: off ? `−∞ in place of ${score}: masked` : `${short(all.raw[j]!)} / ${by} = ${score}` },
    { name: "e", power: off ? "−∞" : score, sum: lifted },
    {
      name: "weight",
      sum: all.total ? `${lifted} / ${short(all.total)} = ${short(all.weights[j]!)}` : "0: no word is left",
    },
  ];
}

/** What a word gets. */
export const sayWeight = (state: State, { weights }: Computed, j: number): string =>
  state.masked.includes(j) ? "masked" : `weight ${short(weights[j]!)}`;

/** The output in a sentence. */
export function sayOutput({ words, learned }: State, { output, open }: Computed): string {
  if (open.length === 0) return `All ${words.length} words are masked: nothing is left to attend to.`;
  return `Output: ${learned.map((name, c) => `${name} ${short(output[c]!)}`).join(", ")}`;
}

/** Everything that the planes show, in sentences. */
export function describe(state: State, all: Computed): string[] {
  const { words, wanted, learned, query, keys, values, masked } = state;
  const features = (names: string[], numbers: number[]) =>
    names.map((name, c) => `${name} ${short(numbers[c]!)}`).join(", ");
  return [
    `The query: ${features(wanted, query)}.`,
    ...words.map(
      (word, j) =>
        `${word}: key ${features(wanted, keys[j]!)}; value ${features(learned, values[j]!)}; ` +
        (masked.includes(j) ? "masked." : `score ${short(all.scores[j]!)}, weight ${short(all.weights[j]!)}.`),
    ),
    `${sayOutput(state, all)}. ${all.open.length ? `It lies among the values of ${count(all.open.length, "word")}.` : ""}`.trim(),
  ];
}
