/* The weights of heads: their mean, what two of them have in common, and where a row looks most. */

import { decodeFloats, type Matrix, mean, range, sum, table } from "../../kit/maths.ts";

/** A model's weights for one sentence, as Python describes them. */
export interface Case {
  model: string;
  sentence: string;
  tokens: string[];
  queries: string[];
  /** Where the queries stand in the sentence; null if they are others. */
  positions: number[] | null;
  heads: number;
  weights: string;
  /** What the model answers, in a sentence. */
  answers?: string;
}

/** The weights of a case, as [head][query][key]. */
export function weightsOf({ heads, queries, tokens, weights }: Case): Matrix[] {
  const flat = decodeFloats(weights);
  const [m, n] = [queries.length, tokens.length];
  return range(heads).map((h) => table(m, n, (i, j) => flat[(h * m + i) * n + j]!));
}

/** The mean over the heads, [query][key]: what a layer that averages its heads would show. */
export const meanOfHeads = (weights: Matrix[]): Matrix =>
  weights[0]!.map((row, i) => row.map((_, j) => mean(weights.map((head) => head[i]![j]!))));

/** How much weight two rows have in common: 1 if they are the same average, 0 if they look at different keys. */
export const inCommon = (a: number[], b: number[]): number => sum(a.map((weight, j) => Math.min(weight, b[j]!)));

export type Pair = [head: number, other: number, weight: number];

/** The pairs of heads with the most and with the least weight in common, for one query. */
export function alike(weights: Matrix[], i: number): { most: Pair; least: Pair } {
  const pairs = weights.flatMap((head, a) =>
    weights.slice(a + 1).map((other, b): Pair => [a, a + 1 + b, inCommon(head[i]!, other[i]!)]),
  );
  pairs.sort((one, other) => other[2] - one[2]);
  return { most: pairs[0]!, least: pairs.at(-1)! };
}

export const FAVOURITE = 0.1; // a weight that is worth a word
const MOST_FAVOURITES = 4;

/** The keys that a row looks at most, as [key, weight], how many others have any weight, and how much these share. */
export function favourites(row: number[]) {
  const seen = row.map((weight, j): [key: number, weight: number] => [j, weight]).filter(([, weight]) => weight > 0);
  seen.sort((a, b) => b[1] - a[1]);
  const listed = seen.filter(([, weight], place) => place === 0 || (weight >= FAVOURITE && place < MOST_FAVOURITES));
  const others = seen.slice(listed.length);
  return { listed, others: others.length, rest: sum(others.map(([, weight]) => weight)) };
}
