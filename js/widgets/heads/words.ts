/* Where the heads look, in words. */

import type { Matrix } from "../../kit/maths.ts";
import { named } from "../../kit/text.ts";
import { alike, type Case, favourites, type Pair } from "./maths.ts";

const ALIKE = 0.0005; // weights that differ by less are the same to three digits

export interface Labels {
  keys: string[];
  queries: string[];
}

/** The names of a case's queries and keys; a word that stands there twice gets its place. */
export function labelsOf({ tokens, queries, positions }: Case): Labels {
  const keys = named(tokens);
  return { keys, queries: positions ? positions.map((position) => keys[position]!) : named(queries) };
}

/** Where a row looks. */
export function describeRow(row: number[], query: string, keys: string[]): string {
  const { listed, others, rest } = favourites(row);
  const [first] = listed;
  if (!first) return `“${query}” looks nowhere: every key is masked for it, and all its weights are 0`;
  if (first[1] >= 1 - ALIKE) return `“${query}” looks only at “${keys[first[0]]}”`;
  const seen = row.filter((weight) => weight > 0);
  if (seen.length > 2 && Math.max(...seen) - Math.min(...seen) < ALIKE) {
    return `“${query}” looks equally at ${seen.length} words, ${seen[0]!.toFixed(3)} each`;
  }
  const words = listed.map(([j, weight]) => `“${keys[j]}” ${weight.toFixed(3)}`).join(", ");
  const shared = others === 1 ? `; one other has ${rest.toFixed(3)}` : `; ${others} others share ${rest.toFixed(3)}`;
  return `“${query}” looks at ${words}${rest < ALIKE ? "" : shared}`;
}

/** Where a row looks most, in a few words. */
export function describeBriefly(row: number[], keys: string[]): string {
  const [first] = favourites(row).listed;
  return first ? `most on “${keys[first[0]]}”, ${first[1].toFixed(2)}` : "nowhere";
}

/** How much the heads have in common. */
export function compareHeads(weights: Matrix[], i: number): string {
  if (weights.length < 2) return "";
  const { most, least } = alike(weights, i);
  const pair = ([a, b]: Pair) => `Heads ${a + 1} and ${b + 1}`;
  const same = `${most[2].toFixed(3)} of their weight lies on the same words`;
  if (weights.length === 2) return `${pair(most)}: ${same}`;
  return `${pair(most)} share most: ${same}. ${pair(least)} share least: ${least[2].toFixed(3)}`;
}

/** Every row, head by head. */
export const describeAll = (weights: Matrix[], shown: number[], labels: Labels): string[] =>
  shown.flatMap((h) =>
    weights[h]!.map((row, i) => `head ${h + 1}: ${describeRow(row, labels.queries[i]!, labels.keys)}`),
  );
