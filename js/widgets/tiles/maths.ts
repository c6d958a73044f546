/* Softmax of a row that is read block by block, with a running maximum and running sums. */

import { range, softmaxRows, sum } from "../../kit/maths.ts";

export interface Row {
  name: string;
  scores: number[];
  values: number[];
  masked: number[];
  block: number;
  note: string;
}

export interface State {
  rows: Row[];
  limit: number;
  row: string;
  scores: number[];
  values: number[];
  masked: number[];
  block: number;
  step: number;
  forget: boolean;
  no_maximum: boolean;
  careless: boolean;
  predict: boolean;
}

export interface Step {
  /** The keys of the block: from `first`, before `end`. */
  first: number;
  end: number;
  /** The largest score of the block, the running maximum before and after it, and what was taken off the scores. */
  top: number;
  before: number;
  t: number;
  off: number;
  /** What everything before is multiplied by, and what it should be. */
  factor: number;
  due: number;
  /** The exponentials of the block, and the sum of each times its value. */
  exps: number[];
  gain: number;
  /** The running sums before and after, of the exponentials and of exponentials times values. */
  lBefore: number;
  uBefore: number;
  l: number;
  u: number;
  /** The output so far, and the weight of every key so far: 0 for keys not yet read. */
  o: number;
  weights: number[];
}

type Given = Pick<State, "scores" | "values" | "masked" | "block" | "forget" | "no_maximum" | "careless">;

/** The scores with minus infinity where a key is masked. */
export const maskedScores = ({ scores, masked }: Pick<State, "scores" | "masked">): number[] =>
  scores.map((score, j) => (masked.includes(j) ? -Infinity : score));

/** Read the whole row, block by block. */
export function readTiles(given: Given): Step[] {
  const { values, block, forget, no_maximum, careless } = given;
  const scores = maskedScores(given);
  let [t, l, u] = [-Infinity, 0, 0];
  let parts = scores.map(() => 0); // what each key has added to l
  return range(Math.ceil(scores.length / block)).map((b) => {
    const [first, end] = [b * block, Math.min((b + 1) * block, scores.length)];
    const here = scores.slice(first, end);
    const [before, lBefore, uBefore, top] = [t, l, u, Math.max(...here)];
    t = Math.max(before, top);
    const safe = t === -Infinity && !careless ? 0 : t;
    const off = no_maximum ? 0 : safe;
    const due = no_maximum ? 1 : Math.exp(before - safe);
    const factor = forget ? 1 : due;
    const exps = here.map((score) => Math.exp(score - off));
    parts = parts.map((part, j) => (j >= first && j < end ? exps[j - first]! : factor * part));
    l = factor * lBefore + sum(exps);
    const gain = sum(exps.map((e, i) => e * values[first + i]!));
    u = factor * uBefore + gain;
    const total = l === 0 && !careless ? 1 : l;
    return {
      first,
      end,
      top,
      before,
      t,
      off,
      factor,
      due,
      exps,
      gain,
      lBefore,
      uBefore,
      l,
      u,
      o: u / total,
      weights: parts.map((part) => part / total),
    };
  });
}

/** The softmax of the whole row at once, its largest score taken off, and its output. */
export function readWhole(given: Pick<State, "scores" | "values" | "masked">) {
  const weights = softmaxRows([maskedScores(given)])[0]!;
  return { weights, output: sum(weights.map((weight, j) => weight * given.values[j]!)) };
}

export function compute(state: State) {
  const steps = readTiles(state);
  const done = steps.slice(0, state.step);
  return { steps, done, now: done.at(-1) ?? null, whole: readWhole(state), finished: state.step === steps.length };
}

export type Computed = ReturnType<typeof compute>;

/** A state that fits together: places and steps that there are. */
export function settle(state: State): State {
  const n = state.scores.length;
  const block = Math.min(Math.max(state.block, 1), n);
  return {
    ...state,
    block,
    step: Math.min(Math.max(state.step, 0), Math.ceil(n / block)),
    masked: state.masked.filter((place) => place < n),
    values: range(n).map((j) => state.values[j] ?? j + 1),
  };
}
