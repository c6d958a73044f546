/* Attention on a small example: every matrix, from the numbers that a reader can change. */

import { allowedKeys, type Matrix, matmul, softmaxRows, transpose } from "../../kit/maths.ts";

/** The matrices that hold given numbers, and all matrices. */
export type Given = "x" | "w_q" | "w_k" | "w_v" | "q" | "k" | "v";
export type Name = Given | "kT" | "raw" | "scaled" | "masked" | "weights" | "output";
export type Numbers = Partial<Record<Given, Matrix>>;

/** An example: its words, and its numbers, which are X and the projections or Q, K and V. */
export interface Sentence extends Numbers {
  name: string;
  queries: string[];
  keys: string[];
  values?: string[];
  features: string[];
  /** What the columns of keys and of values mean, where the example's own projections say more than the features. */
  wanted?: string[];
  learned?: string[];
  focus: number;
  note: string;
}

export interface State {
  sentences: Sentence[];
  step_names: string[];
  sentence: string;
  source: "x" | "qkv";
  numbers: Numbers;
  step: string;
  scaling: boolean;
  causal: boolean;
  padding: number[];
  predict: boolean;
}

export interface Computed extends Record<Exclude<Name, "x" | "w_q" | "w_k" | "w_v">, Matrix>, Numbers {
  q: Matrix;
  k: Matrix;
  v: Matrix;
  allowed: boolean[][];
  fromX: boolean;
}

export function compute(state: Pick<State, "numbers" | "source" | "scaling" | "causal" | "padding">): Computed {
  const { numbers, source, scaling, causal, padding } = state;
  const fromX = source === "x";
  const [q, k, v] = (["q", "k", "v"] as const).map((name) =>
    fromX ? matmul(numbers.x!, numbers[`w_${name}`]!) : numbers[name]!,
  ) as [Matrix, Matrix, Matrix];
  const kT = transpose(k);
  const raw = matmul(q, kT);
  const factor = scaling ? 1 / Math.sqrt(k[0]!.length) : 1;
  const scaled = raw.map((row) => row.map((score) => score * factor));
  const allowed = allowedKeys(q.length, k.length, causal, padding);
  const masked = scaled.map((row, i) => row.map((score, j) => (allowed[i]![j] ? score : -Infinity)));
  const weights = softmaxRows(masked);
  return { ...numbers, q, k, v, kT, raw, scaled, allowed, masked, weights, output: matmul(weights, v), fromX };
}

function isIdentity(matrix: Matrix): boolean {
  return matrix.every((row, i) => row.length === matrix.length && row.every((value, j) => value === Number(i === j)));
}

/** The names of a projection's columns: those of the example while it is the example's, those of the features while it
 * changes nothing; else numbers, since nobody knows what they mean. */
function meaningOf(made: "w_k" | "w_v", sentence: Sentence, all: Computed): string[] {
  const [own, names] = [sentence[made], made === "w_k" ? sentence.wanted : sentence.learned];
  const matrix = all[made];
  if (all.fromX && matrix && own && names && isSame(matrix, own)) return names;
  if (all.fromX && matrix && isIdentity(matrix)) return sentence.features;
  return all[made === "w_k" ? "k" : "v"][0]!.map((_, j) => String(j + 1));
}

const isSame = (a: Matrix, b: Matrix) => a.every((row, i) => row.every((value, j) => value === b[i]![j]));

/** Which word a row and a column of a matrix stand for. */
export function labels(name: Name, sentence: Sentence, all: Computed): [rows: string[], columns: string[]] {
  const keyFeatures = meaningOf("w_k", sentence, all);
  const valueFeatures = meaningOf("w_v", sentence, all);
  switch (name) {
    case "x":
      return [sentence.keys, sentence.features];
    case "w_q":
    case "w_k":
      return [sentence.features, keyFeatures];
    case "w_v":
      return [sentence.features, valueFeatures];
    case "q":
      return [sentence.queries, keyFeatures];
    case "k":
      return [sentence.keys, keyFeatures];
    case "kT":
      return [keyFeatures, sentence.keys];
    case "v":
      return [sentence.values ?? sentence.keys, valueFeatures];
    case "output":
      return [sentence.queries, valueFeatures];
    default:
      return [sentence.queries, sentence.keys];
  }
}

export type Cell = readonly [name: Name, row: number, column: number];

/** The cells of other matrices that a cell was made from. */
export function origins([name, i, j]: Cell, source: State["source"], all: Computed): Cell[] {
  const row = (matrix: Name, r: number): Cell[] => all[matrix]![r]!.map((_, l) => [matrix, r, l]);
  const column = (matrix: Name, c: number): Cell[] => all[matrix]!.map((_, l) => [matrix, l, c]);
  if ((name === "q" || name === "k" || name === "v") && source === "x")
    return [...row("x", i), ...column(`w_${name}`, j)];
  if (name === "raw") return [...row("q", i), ...column("kT", j)];
  if (name === "scaled") return [["raw", i, j]];
  if (name === "masked") return [["scaled", i, j]];
  if (name === "weights") return row("masked", i);
  if (name === "output") return [...row("weights", i), ...column("v", j)];
  return [];
}
