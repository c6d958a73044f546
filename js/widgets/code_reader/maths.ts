/* The trained code model: its tokens, and every step of its computation, as `CodeModel` in Python does it.

   Bytes are written as a string with one character (U+0000 to U+00FF) a byte. Layers and heads count from 1. */

import trained from "../../../attention_tutorial/models/trained/code_model.json";
import { range } from "../../kit/maths.ts";
import { unpackHalves } from "../../kit/packed.ts";

export type Head = readonly [layer: number, head: number];

interface Layer {
  norm: { gain: Float64Array; bias: Float64Array };
  /** What each head adds to a score at each distance, one row a head. */
  distance: Float64Array;
  /** Matrices with one row for each number that comes out, as PyTorch keeps them. */
  query: Float64Array;
  key: Float64Array;
  value: Float64Array;
  out: Float64Array;
}

export interface Model {
  width: number;
  heads: number;
  /** The most tokens that it reads, the one that begins a text among them. */
  context: number;
  /** The bytes of each token. */
  contents: readonly string[];
  ids: ReadonlyMap<string, number>;
  /** When a pair of tokens is joined, by `pairOf`. */
  ranks: ReadonlyMap<string, number>;
  embedding: Float64Array;
  layers: readonly Layer[];
  lastNorm: Layer["norm"];
}

const pairOf = (left: string, right: string): string => `${left.length} ${left}${right}`;

function unpack(record: typeof trained): Model {
  const numbers = unpackHalves(record.numbers);
  const parameters = new Map<string, Float64Array>();
  let at = 0;
  for (const [name, shape] of record.parameters as [string, number[]][]) {
    const size = shape.reduce((a, b) => a * b, 1);
    parameters.set(name, numbers.subarray(at, at + size));
    at += size;
  }
  const own = (name: string) => parameters.get(name)!;
  const norm = (name: string) => ({ gain: own(`${name}.weight`), bias: own(`${name}.bias`) });
  const { d_model, num_heads, num_layers, context } = record.sizes;
  const merges = record.merges as [string, string][];
  const bytes = range(256).map((byte) => String.fromCharCode(byte));
  const contents = ["", ...bytes, ...merges.map(([left, right]) => left + right)];
  return {
    width: d_model,
    heads: num_heads,
    context,
    contents,
    ids: new Map(contents.map((content, id) => [content, id])),
    ranks: new Map(merges.map(([left, right], rank) => [pairOf(left, right), rank])),
    embedding: own("embedding.weight"),
    layers: range(num_layers).map((l) => ({
      norm: norm(`norms.${l}`),
      distance: own(`layers.${l}.distance`),
      query: own(`layers.${l}.w_q.weight`),
      key: own(`layers.${l}.w_k.weight`),
      value: own(`layers.${l}.w_v.weight`),
      out: own(`layers.${l}.w_o.weight`),
    })),
    lastNorm: norm("last_norm"),
  };
}

let unpacked: Model | null = null;

/** The model of chapter 9. */
export function theModel(): Model {
  unpacked ??= unpack(trained);
  return unpacked;
}

// ---- Tokens -------------------------------------------------------------------------------------------------------

export const BEGIN = 0;

/** The pieces that no token reaches across, as in `data.byte_pairs`. */
const PIECE = /\n *|[A-Za-z_]+|[0-9]|[()[\]{}]| +(?=[A-Za-z_0-9()[\]{}])| *[^A-Za-z_0-9 \n()[\]{}]+ ?| /g;

/** No token of the model is so long that more characters could be within its context. */
const MOST_CHARACTERS = 10_000;

const spell = (bytes: Uint8Array): string => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
const bytesIn = (content: string) => Uint8Array.from(content, (character) => character.charCodeAt(0));

/** Join the pair that comes first among the model's merges, from the left, until there is none. */
function join(word: string[], { ranks }: Model): string[] {
  for (;;) {
    let best = Infinity;
    for (let i = 1; i < word.length; i++) {
      best = Math.min(best, ranks.get(pairOf(word[i - 1]!, word[i]!)) ?? Infinity);
    }
    if (best === Infinity) return word;
    const joined: string[] = [];
    for (const part of word) {
      const last = joined.at(-1);
      if (last !== undefined && ranks.get(pairOf(last, part)) === best) joined[joined.length - 1] = last + part;
      else joined.push(part);
    }
    word = joined;
  }
}

/** The ids of a text, the token that begins it first: of a long text as many as the model reads, and one more. */
export function encode(text: string, model: Model): number[] {
  const ids = [BEGIN];
  for (const [piece] of text.slice(0, MOST_CHARACTERS).matchAll(PIECE)) {
    const bytes = [...spell(new TextEncoder().encode(piece))];
    for (const part of join(bytes, model)) ids.push(model.ids.get(part)!);
    if (ids.length > model.context) break;
  }
  return ids.slice(0, model.context + 1);
}

/** The text of a token, or null where its bytes are only a part of a character. */
export function textOf(id: number, { contents }: Model): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytesIn(contents[id]!));
  } catch {
    return null;
  }
}

// ---- Reading ------------------------------------------------------------------------------------------------------

/** What the model makes of a token and those before it. */
export interface Place {
  id: number;
  /** Keys and values of each layer, all heads side by side. */
  keys: Float64Array[];
  values: Float64Array[];
  /** Of each layer and head: how much it looks at each place so far. */
  weights: Float64Array[][];
  /** What the logits are made from. */
  state: Float64Array;
  /** What the last norm multiplied the stream by: one over its standard deviation. */
  scale: number;
}

/** x Wᵀ. */
function times(x: Float64Array, matrix: Float64Array): Float64Array {
  const [inside, outside] = [x.length, matrix.length / x.length];
  const result = new Float64Array(outside);
  for (let o = 0, at = 0; o < outside; o++) {
    let total = 0;
    for (let l = 0; l < inside; l++, at++) total += x[l]! * matrix[at]!;
    result[o] = total;
  }
  return result;
}

const meanOf = (x: Float64Array): number => x.reduce((a, b) => a + b, 0) / x.length;

/** One over the standard deviation, as a norm has it. */
function scaleOf(x: Float64Array): number {
  const mean = meanOf(x);
  return 1 / Math.sqrt(x.reduce((total, value) => total + (value - mean) ** 2, 0) / x.length + 1e-5);
}

/** x with mean 0 and variance 1, times a gain, plus a bias. */
function normed(x: Float64Array, { gain, bias }: Layer["norm"]): Float64Array {
  const [mean, scale] = [meanOf(x), scaleOf(x)];
  return x.map((value, l) => (value - mean) * scale * gain[l]! + bias[l]!);
}

export function softmax(scores: Float64Array): Float64Array {
  let most = -Infinity;
  for (const score of scores) most = Math.max(most, score);
  let total = 0;
  const result = scores.map((score) => {
    const value = Math.exp(score - most);
    total += value;
    return value;
  });
  for (let i = 0; i < result.length; i++) result[i]! /= total;
  return result;
}

/** Read one more token after others, without what some heads would add. */
function readOne(model: Model, before: readonly Place[], id: number, off: readonly Head[]): Place {
  const { width, heads } = model;
  const [size, n] = [width / heads, before.length];
  const place: Place = { id, keys: [], values: [], weights: [], state: new Float64Array(0), scale: 1 };
  let x = model.embedding.slice(id * width, (id + 1) * width);
  model.layers.forEach((layer, l) => {
    const input = normed(x, layer.norm);
    const query = times(input, layer.query);
    place.keys.push(times(input, layer.key));
    place.values.push(times(input, layer.value));
    place.weights.push([]);
    const seen = [...before, place];
    const mixed = new Float64Array(width);
    for (let h = 0; h < heads; h++) {
      const from = h * size;
      const scores = new Float64Array(n + 1);
      for (let j = 0; j <= n; j++) {
        const key = seen[j]!.keys[l]!;
        let total = 0;
        for (let f = from; f < from + size; f++) total += query[f]! * key[f]!;
        scores[j] = total / Math.sqrt(size) + layer.distance[h * model.context + n - j]!;
      }
      const weights = softmax(scores);
      place.weights[l]!.push(weights);
      if (off.some(([layer, head]) => layer === l + 1 && head === h + 1)) continue;
      for (let j = 0; j <= n; j++) {
        const value = seen[j]!.values[l]!;
        for (let f = from; f < from + size; f++) mixed[f]! += weights[j]! * value[f]!;
      }
    }
    const added = times(mixed, layer.out);
    x = x.map((number, f) => number + added[f]!);
  });
  place.state = normed(x, model.lastNorm);
  place.scale = scaleOf(x);
  return place;
}

interface Reading {
  model: Model;
  off: string;
  places: Place[];
}

const KEPT = 4; // of all widgets of a page: two texts, each as it is and with heads taken away
let recent: Reading[] = []; // the latest first

/** Read ids without what some heads would add; what an earlier reading has in common from the start is not read again. */
export function read(model: Model, ids: readonly number[], off: readonly Head[] = []): Place[] {
  const key = JSON.stringify(off);
  const common = ({ places }: Reading) => {
    const differs = places.findIndex(({ id }, i) => id !== ids[i]);
    return differs < 0 ? places.length : differs;
  };
  const alike = recent.filter((reading) => reading.model === model && reading.off === key);
  const nearest = alike.sort((a, b) => common(b) - common(a))[0];
  const places = nearest ? nearest.places.slice(0, common(nearest)) : [];
  for (const id of ids.slice(places.length)) places.push(readOne(model, places, id, off));
  recent = [{ model, off: key, places }, ...recent.filter((reading) => reading !== nearest)].slice(0, KEPT);
  return places;
}

const known = new WeakMap<Place, Float64Array>();

/** The probability of each token to come next. */
export function likely(model: Model, place: Place): Float64Array {
  let found = known.get(place);
  if (!found) {
    found = softmax(times(place.state, model.embedding));
    known.set(place, found);
  }
  return found;
}

/** What the token's own vector and each head add to the logit of a token, through the last norm. */
export interface Parts {
  own: number;
  /** Of each layer and head; 0 for heads that are taken away. */
  heads: number[][];
  /** What the norm's bias adds, whatever was read. */
  bias: number;
}

/** The parts of the logit of token `id` after the last of some places. Together they are the logit. */
export function partsOf(model: Model, places: readonly Place[], id: number, off: readonly Head[] = []): Parts {
  const { width, heads, embedding, lastNorm } = model;
  const place = places.at(-1)!;
  const token = embedding.subarray(id * width, (id + 1) * width);
  const gained = token.map((value, f) => value * lastNorm.gain[f]!);
  const mean = meanOf(gained);
  const direction = gained.map((value) => (value - mean) * place.scale); // a norm subtracts the mean of what it reads
  const along = (x: Float64Array, y: Float64Array) => x.reduce((total, value, f) => total + value * y[f]!, 0);
  const size = width / heads;
  return {
    own: along(embedding.subarray(place.id * width, (place.id + 1) * width), direction),
    heads: model.layers.map((layer, l) =>
      range(heads).map((h) => {
        if (off.some(([layer, head]) => layer === l + 1 && head === h + 1)) return 0;
        const weights = place.weights[l]![h]!;
        let total = 0;
        for (let f = h * size; f < (h + 1) * size; f++) {
          let [mixed, seen] = [0, 0];
          for (let j = 0; j < weights.length; j++) mixed += weights[j]! * places[j]!.values[l]![f]!;
          for (let o = 0; o < width; o++) seen += layer.out[o * width + f]! * direction[o]!;
          total += mixed * seen;
        }
        return total;
      }),
    ),
    bias: along(token, lastNorm.bias),
  };
}

// ---- Writing ------------------------------------------------------------------------------------------------------

/** Whether a token can be put at the end of a text: the one that begins texts, and parts of characters, cannot. */
export const isText = (id: number, model: Model): boolean => id !== BEGIN && textOf(id, model) !== null;

/** The probabilities at a temperature, among the k likeliest tokens that are text. */
export function knobsTurned(model: Model, probabilities: Float64Array, temperature: number, most: number) {
  const texts = [...probabilities.keys()].filter((id) => isText(id, model));
  const kept = new Set(texts.sort((a, b) => probabilities[b]! - probabilities[a]!).slice(0, most));
  return softmax(probabilities.map((p, id) => (kept.has(id) ? Math.log(p) / temperature : -Infinity)));
}

/** The token at which the probabilities so far exceed a number from 0 to 1. */
export function draw(probabilities: Float64Array, number: number): number {
  let [left, last] = [number, 0];
  for (const [id, p] of probabilities.entries()) {
    if (p === 0) continue;
    last = id;
    left -= p;
    if (left < 0) break;
  }
  return last;
}
