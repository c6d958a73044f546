/* Masks made by rules, the weights that they leave, and what a task forbids. */

import { type Matrix, range, softmaxRows, sum, table } from "../../kit/maths.ts";

/** A named mask: `rule`, written in Python, says which keys are allowed. */
export interface Mask {
  name: string;
  label: string;
  rule: string;
}

export interface Task {
  name: string;
  label: string;
  note: string;
  queries?: string[];
  keys: string[];
  masks: string[];
  m: number;
  n: number;
  padding: number[];
}

export interface Named {
  name: string;
  label: string;
}

export interface Sizes {
  m: number;
  n: number;
  padding: number[];
  /** How many keys a window has. */
  window: number;
  /** How many words belong to the first text. */
  first: number;
}

export interface State {
  tasks: Task[];
  masks: Mask[];
  empties: Named[];
  largest: number;
  usual: { window: number; first: number };
  task: string;
  preset: string;
  cells: string[];
  padding: number[];
  window: number;
  first: number;
  scores: Matrix;
  empty: string;
  /** Empty, or the masks of the small form, which shows these alone with the weights and the judgement. */
  few: string[];
}

// ---- Rules --------------------------------------------------------------------------------------------------------

type Values = Record<string, number>;

/** Work out a sum such as "query - window + 1". */
export function total(text: string, values: Values): number {
  const term = (word: string) => values[word] ?? Number(word);
  const [first = "", ...rest] = text.trim().split(" ");
  return rest.reduce(
    (value, word, i) => (i % 2 ? value + (rest[i - 1] === "-" ? -1 : 1) * term(word) : value),
    term(first),
  );
}

/** Whether a rule holds: conditions joined by "and", alternatives by "or", as `made_mask` in Python reads them. */
export function holds(rule: string, values: Values): boolean {
  return rule.split(" or ").some((alternative) =>
    alternative.split(" and ").every((condition) => {
      const [left = "", sign = "", right = ""] = condition.split(/ (<=|<|=|>) /);
      const [a, b] = [total(left, values), total(right, values)];
      return { "<": a < b, "<=": a <= b, "=": a === b, ">": a > b }[sign] ?? false;
    }),
  );
}

/** A mask by its rule, true = may attend. In self-attention the queries are the newest m of the n positions. */
export function makeMask(rule: string, { m, n, padding, window, first }: Sizes): boolean[][] {
  const isReal = (position: number) => Number(!padding.includes(position));
  const textOf = (position: number) => (position < first ? 1 : 2);
  return table(m, n, (row, key) => {
    const query = row + n - m;
    return holds(rule, {
      row,
      query,
      key,
      window,
      query_real: isReal(query),
      key_real: isReal(key),
      query_text: textOf(query),
      key_text: textOf(key),
    });
  });
}

export const cellsOf = (allowed: boolean[][]): string[] =>
  allowed.map((row) => row.map((on) => (on ? "1" : "0")).join(""));

/** The masks that a task offers. Where there are as many queries as keys, both corners are the same. */
export function offered({ masks, tasks, task }: Pick<State, "masks" | "tasks" | "task">, { m, n }: Sizes): Mask[] {
  const names = tasks.find((one) => one.name === task)!.masks;
  return names
    .filter((name) => name !== "upper_left" || m !== n)
    .map((name) => masks.find((mask) => mask.name === name)!);
}

/** The name of the mask that has these cells, among those given; else "hand". */
export function recognise(cells: string[], masks: Mask[], sizes: Sizes): string {
  const wanted = cells.join(" ");
  return masks.find(({ rule }) => cellsOf(makeMask(rule, sizes)).join(" ") === wanted)?.name ?? "hand";
}

// ---- What the task forbids ----------------------------------------------------------------------------------------

export type Reason = "next" | "later" | "padding" | "text";

/** Whether somebody reads the output of each query: not where the query itself is padding. */
export function rowsRead(task: string, { m, n, padding }: Sizes): boolean[] {
  return range(m).map((i) => task === "translate" || !padding.includes(i + n - m));
}

/** Why the task forbids a key to a query, or null where it may look. */
export function forbidden(task: string, sizes: Sizes): (Reason | null)[][] {
  const { m, n, padding, first } = sizes;
  const read = rowsRead(task, sizes);
  return table(m, n, (i, j) => {
    const place = i + n - m;
    if (!read[i]) return null;
    if (padding.includes(j)) return "padding";
    if ((task === "write" || (task === "answer" && j >= first)) && j > place) return j === place + 1 ? "next" : "later";
    if (task === "pack" && place >= first !== j >= first) return "text";
    return null;
  });
}

// ---- The weights --------------------------------------------------------------------------------------------------

/** Softmax over the allowed keys of each row. `empty` says what a row without one gets: "zeros", "nan" or "sentinel". */
export function weightsOf(scores: Matrix, allowed: boolean[][], empty: string): Matrix {
  const masked = empty === "sentinel" ? -1e9 : -Infinity;
  const weights = softmaxRows(scores.map((row, i) => row.map((score, j) => (allowed[i]![j] ? score : masked))));
  return weights.map((row, i) => (empty === "nan" && !allowed[i]!.includes(true) ? row.map(() => NaN) : row));
}

/** Where NaN in the weights gets to. The second layer is self-attention under the same mask; else there is none. */
function spread(weights: Matrix, task: string, m: number, n: number) {
  const lost = weights.map((row) => row.some(Number.isNaN));
  const any = lost.includes(true);
  const again = task !== "translate" && m === n;
  return {
    weights: lost,
    output: lost,
    second: again ? lost.map(() => any) : null,
    gradients: weights[0]!.map(() => any),
  };
}

/** Everything that the widget shows, from its state. */
export function audit(state: Pick<State, "cells" | "padding" | "window" | "first" | "scores" | "task" | "empty">) {
  const allowed = state.cells.map((row) => [...row].map((cell) => cell === "1"));
  const [m, n] = [allowed.length, allowed[0]!.length];
  const sizes: Sizes = { m, n, padding: state.padding, window: state.window, first: state.first };
  const scores = table(m, n, (i, j) => state.scores[i]![j]!);
  const weights = weightsOf(scores, allowed, state.empty);
  const emptyRows = allowed.map((row) => !row.includes(true));
  const read = rowsRead(state.task, sizes);
  const why = forbidden(state.task, sizes);
  const filled = (i: number) => emptyRows[i]! && state.empty === "sentinel";
  const leaks = table(m, n, (i, j) => why[i]![j] !== null && (allowed[i]![j]! || filled(i)));
  const hidden = table(m, n, (i, j) => !allowed[i]![j] && read[i]! && why[i]![j] === null);
  const leaked = weights.map((row, i) => sum(row.map((weight, j) => (leaks[i]![j] ? weight : 0))));
  return {
    ...sizes,
    allowed,
    scores,
    weights,
    emptyRows,
    read,
    why,
    leaks,
    hidden,
    leaked,
    spread: spread(weights, state.task, m, n),
  };
}

export type Audit = ReturnType<typeof audit>;

/** The cells that a straight line from one cell to another passes, without the first. */
export function between([i, j]: readonly [number, number], [r, c]: readonly [number, number]): [number, number][] {
  const steps = Math.max(Math.abs(r - i), Math.abs(c - j));
  return range(steps).map((step) => {
    const share = (step + 1) / steps;
    return [Math.round(i + (r - i) * share), Math.round(j + (c - j) * share)];
  });
}
