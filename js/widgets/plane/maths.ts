/* Attention with two features: scores, weights and output of one query, and the hull of the values. */

import { type Matrix, matmul, range, softmaxRows, sum, transpose } from "../../kit/maths.ts";
import { type Divisor, temperatureOf } from "../temperature/maths.ts";

export type Point = readonly [number, number];
export type Points = "keys" | "values";

export interface State {
  words: string[];
  /** What the two features of queries and keys are called, and those of values. */
  wanted: string[];
  learned: string[];
  /** Which feature of values is left out. */
  note: string;
  /** The numbers to begin with, and those that a reader moves. */
  first: { queries: number[][]; keys: number[][]; values: number[][] };
  query: number[];
  keys: number[][];
  values: number[][];
  divisors: Divisor[];
  divisor: string;
  masked: number[];
  /** The word whose arithmetic is shown. */
  word: number;
}

/** How far queries and keys, and values, can be moved. */
export const LIMITS = { keys: [-1.5, 4.5], values: [-0.25, 1.25] } as const;

const settlePoint = (given: unknown, [least, most]: readonly [number, number], first: number[]): number[] =>
  first.map((old, c) => {
    const number = Array.isArray(given) ? given[c] : null;
    return Number.isFinite(number) ? Math.round(Math.min(Math.max(number, least), most) * 100) / 100 : old;
  });

/** A state with two numbers of two decimals for each point, within the limits; what is none is as it was at first. */
export function settle(state: State): State {
  const { words, first, divisors } = state;
  const settleAll = (name: Points) => first[name].map((old, j) => settlePoint(state[name]?.[j], LIMITS[name], old));
  const places = range(words.length);
  return {
    ...state,
    query: settlePoint(state.query, LIMITS.keys, [0, 0]),
    keys: settleAll("keys"),
    values: settleAll("values"),
    divisor: divisors.some(({ name }) => name === state.divisor) ? state.divisor : divisors[0]!.name,
    masked: places.filter((j) => state.masked.includes(j)),
    word: places.includes(state.word) ? state.word : 0,
  };
}

/** All numbers of one query. Where every word is masked, weights and output are zeros, as in the package. */
export function compute({ query, keys, values, divisors, divisor, masked }: State) {
  const tau = temperatureOf(divisors, divisor, query.length);
  const raw = matmul([query], transpose(keys))[0]!;
  const scores = raw.map((score) => score / tau);
  const open = range(keys.length).filter((j) => !masked.includes(j));
  const weights = softmaxRows([scores.map((score, j) => (masked.includes(j) ? -Infinity : score))])[0]!;
  const exponentials = scores.map((score, j) => (masked.includes(j) ? 0 : Math.exp(score)));
  const output = matmul([weights], values)[0]!;
  return { tau, raw, scores, exponentials, total: sum(exponentials), weights, output, open };
}

export type Computed = ReturnType<typeof compute>;

/** The corners of the smallest convex area around points, one after the other. */
export function hull(points: Matrix): Matrix {
  const sorted = [...points].sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!);
  const turn = (a: number[], b: number[], c: number[]) =>
    (b[0]! - a[0]!) * (c[1]! - a[1]!) - (b[1]! - a[1]!) * (c[0]! - a[0]!);
  const half = (all: Matrix) => {
    const chain: Matrix = [];
    for (const point of all) {
      while (chain.length > 1 && turn(chain.at(-2)!, chain.at(-1)!, point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  return sorted.length < 2 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}

/** Where the perpendicular from a key meets the line of the query; null where there is no such line. */
export function footOf([x, y]: number[], [a, b]: number[]): Point | null {
  const square = a! * a! + b! * b!;
  const share = (x! * a! + y! * b!) / square;
  return square > 0 ? [share * a!, share * b!] : null;
}
