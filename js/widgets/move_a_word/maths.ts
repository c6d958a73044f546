/* Scores of two words at any two places, under each kind of position. */

import { type Matrix, memoizeLast, range, table } from "../../kit/maths.ts";
import { readFeatures } from "../temperature/maths.ts";

export { readFeatures };

export type Kind = "none" | "sinusoidal" | "learned" | "rotary" | "alibi";
export const KINDS: readonly Kind[] = ["none", "sinusoidal", "learned", "rotary", "alibi"];
export type Pairing = "halves" | "interleaved";

/** What positions are made of. */
export interface Setting {
  base: number;
  pairing: Pairing;
  slope: number;
  /** Learned positions, one a row. A place beyond them has none. */
  rows: Matrix;
}

/** By how many radians each pair of features turns from one place to the next. */
export const frequencies = (d: number, base: number): number[] => range(d / 2).map((i) => base ** ((-2 * i) / d));

/** The position vector of sines and cosines, to be added to a word. */
export const sinusoidal = (place: number, d: number, base: number): number[] =>
  frequencies(d, base).flatMap((omega) => [Math.sin(place * omega), Math.cos(place * omega)]);

/** A word whose pairs of features are turned by its place. */
export function rotate(x: readonly number[], place: number, pairing: Pairing, base: number): number[] {
  const d = x.length;
  const turned = [...x];
  frequencies(d, base).forEach((omega, i) => {
    const [first, second] = pairing === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + d / 2];
    const [cos, sin] = [Math.cos(place * omega), Math.sin(place * omega)];
    turned[first] = x[first]! * cos - x[second]! * sin;
    turned[second] = x[first]! * sin + x[second]! * cos;
  });
  return turned;
}

/** A word at a place, as its dot products see it; null where the place has no position. */
export function placed(kind: Kind, x: readonly number[], place: number, setting: Setting): number[] | null {
  if (kind === "sinusoidal") {
    const p = sinusoidal(place, x.length, setting.base);
    return x.map((value, c) => value + p[c]!);
  }
  if (kind === "learned") {
    const row = setting.rows[place];
    return row ? x.map((value, c) => value + row[c]!) : null;
  }
  return kind === "rotary" ? rotate(x, place, setting.pairing, setting.base) : [...x];
}

type Scores = (number | null)[][];

/** Scores of words at m places with words at n places: rows are queries; null where one of the two has no position. */
export function scores(
  kind: Kind,
  [queries, at]: readonly [Matrix, readonly number[]],
  [keys, to]: readonly [Matrix, readonly number[]],
  setting: Setting,
): Scores {
  const x = queries.map((one, i) => placed(kind, one, at[i]!, setting));
  const y = keys.map((one, j) => placed(kind, one, to[j]!, setting));
  const width = queries[0]!.length;
  const root = Math.sqrt(width);
  return table(x.length, y.length, (i, j) => {
    const [a, b] = [x[i], y[j]];
    if (!a || !b) return null;
    let total = 0;
    for (let c = 0; c < width; c++) total += a[c]! * b[c]!;
    return total / root - (kind === "alibi" ? setting.slope * Math.abs(at[i]! - to[j]!) : 0);
  });
}

/** The largest difference between two tables of scores, where both have one. */
export function largestChange(now: Scores, before: Scores): number {
  const changes = now.flatMap((row, i) => row.map((s, j) => [s, before[i]![j]!] as const));
  return Math.max(0, ...changes.map(([a, b]) => (a === null || b === null ? 0 : Math.abs(a - b))));
}

/** What scores lie between at a distance, wherever the two words stand; null where no place has one. */
export type Band = readonly ([least: number, most: number] | null)[];

/** The least and the largest score at each distance from 1 − n to n − 1. */
export function band(all: Scores): Band {
  const n = all.length;
  return range(2 * n - 1).map((d) => {
    const distance = d - (n - 1);
    let [least, most] = [Infinity, -Infinity];
    for (let t = Math.max(0, -distance); t < Math.min(n, n - distance); t++) {
      const score = all[t]![t + distance]!;
      if (score === null) continue;
      least = Math.min(least, score);
      most = Math.max(most, score);
    }
    return least <= most ? [least, most] : null;
  });
}

export interface State {
  kinds: Record<Kind, string>;
  sentences: string[];
  words: string;
  table: string;
  table_size: number;
  letters: string;
  widths: number[];
  bases: number[];
  contents: number[];
  lengths: number[];
  slopes: number[];
  sentence: string;
  places: number[];
  shift: number;
  query: number;
  key: number;
  d_k: number;
  base: number;
  pairing: Pairing;
  head: number;
  content: number;
  length: number;
  predict: boolean;
  compact: boolean;
}

const drawn = memoizeLast((words: string, rows: string, width: number, letters: string) => ({
  words: readFeatures(words, width, letters),
  rows: readFeatures(rows, width, letters),
}));

/** The features of the words of a sentence as they count; equal words have equal ones. */
export function featuresOf(state: State): Matrix {
  const { words } = drawn(state.words, state.table, Math.max(...state.widths), state.letters);
  const all = state.sentence.split(" ");
  const kinds = [...new Set(all)];
  return all.map((word) => words[kinds.indexOf(word)]!.slice(0, state.d_k).map((value) => state.content * value));
}

export function settingOf(state: State): Setting {
  const { rows } = drawn(state.words, state.table, Math.max(...state.widths), state.letters);
  return {
    base: state.base,
    pairing: state.pairing,
    slope: state.slopes[state.head - 1]!,
    rows: rows.map((row) => row.slice(0, state.d_k).map((value) => state.table_size * value)),
  };
}

/** What each kind of position makes of the two words at every two places: it does not change while they move. */
const everywhere = memoizeLast((asked: string) => {
  const state: State = JSON.parse(asked);
  const [x, setting, places] = [featuresOf(state), settingOf(state), range(state.length)];
  const [queries, keys] = [state.query, state.key].map((word) => places.map(() => x[word]!)) as [Matrix, Matrix];
  const made = KINDS.map((kind) => {
    const all = scores(kind, [queries, places], [keys, places], setting);
    return [kind, { all, band: band(all) }] as const;
  });
  return { x, setting, of: Object.fromEntries(made) as Record<Kind, { all: Scores; band: Band }> };
});

/** The score of query and key where they stand. */
export function scoreOf(kind: Kind, state: State): number | null {
  const x = featuresOf(state);
  const at = (word: number) => [[x[word]!], [state.places[word]!]] as const;
  const [query, key] = [at(state.query), at(state.key)];
  return scores(kind, [[...query[0]], query[1]], [[...key[0]], key[1]], settingOf(state))[0]![0]!;
}

export interface OfKind {
  kind: Kind;
  /** The score of query and key where they stand, and where they stood before all words moved together. */
  score: number | null;
  before: number | null;
  /** How much any score of the sentence has changed since then, at most. */
  change: number;
  /** The score with the key at every place, for the query where it stands, and where it stood. */
  curve: (number | null)[];
  curveBefore: (number | null)[];
  band: Band;
  /** The widest gap of the band. */
  width: number;
}

/** All that the widget shows, kind by kind. */
export function compute(state: State) {
  const lab = everywhere(JSON.stringify({ ...state, places: [], shift: 0, predict: false, compact: false }));
  const before = state.places.map((place) => place - state.shift);
  const [t, s] = [state.places[state.query]!, state.places[state.key]!];
  const kinds = KINDS.map((kind): OfKind => {
    const of = (places: number[]) => scores(kind, [lab.x, places], [lab.x, places], lab.setting);
    const { all, band: between } = lab.of[kind];
    return {
      kind,
      score: all[t]![s]!,
      before: all[t - state.shift]?.[s - state.shift] ?? null,
      change: state.shift === 0 ? 0 : largestChange(of(state.places), of(before)),
      curve: all[t]!,
      curveBefore: all[t - state.shift] ?? [],
      band: between,
      width: Math.max(...between.map((one) => (one ? one[1] - one[0] : 0))),
    };
  });
  return { kinds, distance: s - t };
}

export type Computed = ReturnType<typeof compute>;

/** Move one word: the sentence begins anew from where it now stands. */
export function moveWord(state: State, word: number, place: number): Pick<State, "places" | "shift"> {
  const to = Math.min(Math.max(Math.round(place), 0), state.length - 1);
  return { places: state.places.map((old, i) => (i === word ? to : old)), shift: 0 };
}

/** Move all words together, so that the first of them stands at a place. */
export function moveAll(state: State, first: number): Pick<State, "places" | "shift"> {
  const [least, most] = [Math.min(...state.places), Math.max(...state.places)];
  const steps = Math.min(Math.max(first, 0), state.length - 1 - (most - least)) - least;
  return { places: state.places.map((place) => place + steps), shift: state.shift + steps };
}

/** A state that fits together: words, their places, and who asks. */
export function settle(state: State): State {
  const count = state.sentence.split(" ").length;
  const inside = (place: number) => Math.min(Math.max(place, 0), state.length - 1);
  const places = range(count).map((i) => inside(state.places[i] ?? 4 + 8 * i));
  const query = Math.min(state.query, count - 1);
  const key = Math.min(state.key, count - 1);
  const same = places.length === state.places.length && places.every((place, i) => place === state.places[i]);
  const shift = same && places.every((place) => inside(place - state.shift) === place - state.shift) ? state.shift : 0;
  return { ...state, places, shift, query, key: key === query ? (query + 1) % count : key };
}
