/* What a reading says of words: weights between words, and cosines of their vectors. A word may be several pieces. */

import { decodeFloats, mean, range, sum } from "../../kit/maths.ts";
import type { Head } from "./network.ts";
import { groupPieces } from "./pieces.ts";
import type { Answer } from "./worker.ts";

/** A sentence of which the page knows, before any model is loaded, what one word has of it. */
export interface Sentence {
  text: string;
  /** The word that looks, and its place among the words. */
  asks: string;
  word: number;
  pieces: string[];
  /** By head, such as "1.5": the weights of the pieces. */
  weights: Record<string, string>;
  /** The two senses, and the cosines with both after each layer. */
  names: string[];
  path: string;
  /** Cosines with the same word in each of the sentences, after each layer. */
  between: string;
}

/** Cosines of a word's vector with its two senses, after each layer. */
export interface Senses {
  names: [string, string];
  path: [number, number][];
}

/** A text that was read. What is not known of it is null. */
export interface Reading {
  pieces: readonly string[];
  /** How many pieces the text has; of a long one fewer are read. */
  all: number;
  /** The places of each word's pieces. */
  words: readonly (readonly number[])[];
  /** How much a word looks at each word with a head: the sum over the pieces of a key, the mean over those of a query. */
  looks: (word: number, head: Head) => number[] | null;
  senses: (word: number) => Senses | null;
  /** A word's vector after each layer: the mean over its pieces. */
  vectors: (word: number) => Float32Array[] | null;
}

export const nameOfHead = ([layer, head]: Head): string => `${layer}.${head}`;

/** A word as it is written. */
export const spell = ({ pieces, words }: Pick<Reading, "pieces" | "words">, word: number): string =>
  words[word]!.map((place) => pieces[place]!.replace(/^##(?=.)/, "")).join("");

/** A function that computes each of its results once. */
function remember<A extends readonly number[], R>(compute: (...asked: A) => R): (...asked: A) => R {
  const results = new Map<string, R>();
  return (...asked) => {
    const key = asked.join();
    if (!results.has(key)) results.set(key, compute(...asked));
    return results.get(key)!;
  };
}

const byWord = (row: ArrayLike<number>, words: readonly (readonly number[])[]): number[] =>
  words.map((places) => sum(places.map((place) => row[place]!)));

export function recorded({ pieces, word, weights, names, path }: Sentence): Reading {
  const words = groupPieces(pieces);
  const cosines = decodeFloats(path);
  const rows = remember((layer: number, head: number) => {
    const row = weights[nameOfHead([layer, head])];
    return row === undefined ? null : byWord(decodeFloats(row), words);
  });
  return {
    pieces,
    all: pieces.length,
    words,
    looks: (asks, head) => (asks === word ? rows(...head) : null),
    senses: (asks) =>
      asks === word && names.length === 2
        ? {
            names: names as [string, string],
            path: range(cosines.length / 2).map((layer) => [cosines[2 * layer]!, cosines[2 * layer + 1]!]),
          }
        : null,
    vectors: () => null,
  };
}

/** Cosines with the same word in each of the recorded sentences, one after the other, after each layer. */
export const betweenOf = (sentence: Sentence): number[] => decodeFloats(sentence.between);

type Opened = Extract<Answer, { kind: "ready" }>;

/** What the whole model made of a text. */
export function readingOf(text: string, answer: Extract<Answer, { kind: "read" }>, opened: Opened): Reading {
  const { pieces, all, weights, states } = answer;
  const { about, senses, layers, heads, width } = opened;
  const words = groupPieces(pieces);
  const n = pieces.length;
  const looks = remember((word: number, layer: number, head: number) => {
    const from = (at: number) => (((layer - 1) * heads + head - 1) * n + at) * n;
    const rows = words[word]!.map((at) => weights.subarray(from(at), from(at) + n));
    const row = range(n).map((j) => mean(rows.map((one) => one[j]!)));
    return byWord(row, words);
  });

  const vectors = remember((word: number) => {
    const places = words[word]!;
    return range(layers + 1).map((layer) =>
      Float32Array.from({ length: width }, (_, f) => mean(places.map((at) => states[(layer * n + at) * width + f]!))),
    );
  });

  return {
    pieces,
    all,
    words,
    looks: (word, [layer, head]) => looks(word, layer, head),
    senses: remember((word: number) => {
      const asks = spell({ pieces, words }, word);
      const found = Object.hasOwn(about.words, asks) ? about.words[asks] : undefined;
      if (!found) return null;
      const at = Object.keys(about.words).indexOf(asks);
      const lists = [0, 1].filter((list) => !found.lists[list]!.includes(text));
      const meanOf = (sense: number, layer: number) =>
        Float32Array.from({ length: width }, (_, f) =>
          mean(lists.map((list) => senses[(((at * 2 + list) * 2 + sense) * (layers + 1) + layer) * width + f]!)),
        );
      const path = vectors(word).map((x, layer): [number, number] => [
        cosine(x, meanOf(0, layer)),
        cosine(x, meanOf(1, layer)),
      ]);
      return { names: found.names, path };
    }),
    vectors,
  };
}

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let f = 0; f < a.length; f++) {
    ab += a[f]! * b[f]!;
    aa += a[f]! ** 2;
    bb += b[f]! ** 2;
  }
  return ab / Math.sqrt(aa * bb);
}

/** Cosines of two words' vectors after each layer, if both are known. */
export function between(one: Float32Array[] | null, other: Float32Array[] | null): number[] | null {
  return one && other ? one.map((x, layer) => cosine(x, other[layer]!)) : null;
}
