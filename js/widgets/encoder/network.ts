/* The encoder itself: its rounded numbers, and what it computes from the pieces of a text. Matrices are flat arrays. */

import { range, sum } from "../../kit/maths.ts";
import { bytesOf, half } from "../../kit/packed.ts";
import kernel from "./linear.wat?wasm";

export type Head = [layer: number, head: number];

/** A matrix of whole numbers, of which every few in a row share a scale. */
interface Rounded {
  levels: Int8Array;
  scales: Float32Array;
  share: number;
}

export interface Network {
  ids: ReadonlyMap<string, number>;
  heads: number;
  layers: number;
  width: number;
  embedding: Rounded;
  /** All other tensors by name. */
  numbers: ReadonlyMap<string, Float32Array>;
  /** linear.wat, and room for what it multiplies and for what comes out; with the tensors they share a memory. */
  multiply: (x: number, w: number, b: number, y: number, n: number, row: number, wide: number) => void;
  scratch: { x: Float32Array; y: Float32Array };
  /** What Python added to the line of JSON. */
  about: unknown;
}

/** Write some of the numbers of a matrix into an array. */
function spread({ levels, scales, share }: Rounded, into: Float32Array, from = 0): Float32Array {
  for (let i = 0; i < into.length; i++) into[i] = levels[from + i]! * scales[Math.floor((from + i) / share)]!;
  return into;
}

/** A memory for arrays of single precision, for all that linear.wat is to reach. */
function makeMemory(lengths: readonly number[]) {
  const padded = lengths.map((length) => 4 * Math.ceil(length / 4));
  const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * sum(padded)) / 65536) });
  let at = 0;
  const take = (length: number): Float32Array => {
    const numbers = new Float32Array(memory.buffer, at, length);
    at += 16 * Math.ceil(length / 4);
    return numbers;
  };
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytesOf(kernel)), { page: { memory } });
  return { take, multiply: exports.linear as Network["multiply"] };
}

/** Read what `pack_encoder` in Python wrote. */
export function unpack(packed: Uint8Array): Network {
  const line = packed.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(packed.subarray(0, line)));
  const view = new DataView(packed.buffer, packed.byteOffset);
  const halfOf = Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
  let at = line + 1;
  const halves = (numbers: Float32Array) => {
    for (let i = 0; i < numbers.length; i++, at += 2) numbers[i] = halfOf[view.getUint16(at, true)]!;
    return numbers;
  };
  const tensors = head.tensors as [name: string, shape: number[], top: number, share: number][];
  const count = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
  const shapeOf = (name: string) => tensors.find(([one]) => one === name)![1] as [number, number];
  const [most, width] = shapeOf("positions.weight");
  const widest = Math.max(width, shapeOf("layers.0.feed_forward.w_1.weight")[0]);
  const room = (most + 3) * widest; // linear.wat takes rows by fours
  const reached = tensors.filter(([name]) => name !== "embedding.weight").map(([, shape]) => count(shape));
  const { take, multiply } = makeMemory([room, room, ...reached]);
  const scratch = { x: take(room), y: take(room) };
  const numbers = new Map<string, Float32Array>();
  let embedding: Rounded | null = null;
  for (const [name, shape, top, share] of tensors) {
    if (!top) {
      numbers.set(name, halves(take(count(shape))));
      continue;
    }
    const levels = new Int8Array(packed.buffer, packed.byteOffset + at, count(shape));
    at += levels.length;
    const rounded = { levels, scales: halves(new Float32Array(levels.length / share)), share };
    if (name === "embedding.weight") embedding = rounded;
    else numbers.set(name, spread(rounded, take(levels.length)));
  }
  return {
    ids: new Map((head.pieces as string[]).map((piece, id) => [piece, id])),
    heads: head.heads,
    layers: head.layers,
    width,
    embedding: embedding!,
    numbers,
    multiply,
    scratch,
    about: head.about,
  };
}

// ---- Arithmetic ---------------------------------------------------------------------------------------------------

/** x Wᵀ + b for the n rows of x. */
function linear({ numbers, scratch, multiply }: Network, x: Float32Array, name: string, n: number): Float32Array {
  const [weight, bias] = [numbers.get(`${name}.weight`)!, numbers.get(`${name}.bias`)!];
  const wide = bias.length;
  scratch.x.set(x);
  const [from, to] = [scratch.x.byteOffset, scratch.y.byteOffset];
  multiply(from, weight.byteOffset, bias.byteOffset, to, n, (4 * weight.length) / wide, wide);
  return scratch.y.slice(0, n * wide);
}

/** Each row with mean 0 and variance 1, times a gain, plus a bias. */
function normed(x: Float32Array, gain: Float32Array, bias: Float32Array): Float32Array {
  const width = gain.length;
  const y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let mean = 0;
    for (let l = 0; l < width; l++) mean += x[from + l]! / width;
    let variance = 0;
    for (let l = 0; l < width; l++) variance += (x[from + l]! - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + 1e-12);
    for (let l = 0; l < width; l++) y[from + l] = (x[from + l]! - mean) * scale * gain[l]! + bias[l]!;
  }
  return y;
}

/** The share of a standard normal distribution below x: a series whose terms are all positive. */
function shareBelow(x: number): number {
  const size = Math.abs(x);
  let [term, total] = [size, size];
  for (let k = 3; term > 1e-17 * total; k += 2) {
    term *= (size * size) / k;
    total += term;
  }
  const inside = (total * Math.exp((-size * size) / 2)) / Math.sqrt(2 * Math.PI);
  return x < 0 ? 0.5 - inside : 0.5 + inside;
}

const [REACH, PER_UNIT] = [8, 128];
let values: Float64Array | null = null; // of the GELU, and its slopes times the step, by turns

/** GELU(x) = x Φ(x), between the points of a table by the cubic that has their values and slopes: exact to 1e-10. */
export function gelu(x: number): number {
  if (x >= REACH) return x;
  if (x <= -REACH) return 0;
  if (!values) {
    values = new Float64Array(4 * REACH * PER_UNIT + 2);
    for (let i = 0; i <= 2 * REACH * PER_UNIT; i++) {
      const at = i / PER_UNIT - REACH;
      const below = shareBelow(at);
      values[2 * i] = at * below;
      values[2 * i + 1] = (below + (at * Math.exp((-at * at) / 2)) / Math.sqrt(2 * Math.PI)) / PER_UNIT;
    }
  }
  const place = (x + REACH) * PER_UNIT;
  const i = Math.floor(place);
  const t = place - i;
  const y = values[2 * i]!;
  const slope = values[2 * i + 1]!;
  const turn = values[2 * i + 2]! - y;
  const last = values[2 * i + 3]!;
  return y + t * (slope + t * (3 * turn - 2 * slope - last + t * (slope + last - 2 * turn)));
}

// ---- Reading ------------------------------------------------------------------------------------------------------

/** What the network computes from pieces. */
export interface Computed {
  /** (layers, heads, n, n) */
  weights: Float32Array<ArrayBuffer>;
  /** (layers + 1, n, width) */
  states: Float32Array<ArrayBuffer>;
}

/** The weights of one head, written from a place on, and what it finds, written into the head's columns. */
function attend(
  [q, k, v]: readonly [Float32Array, Float32Array, Float32Array],
  { n, from, to, width }: { n: number; from: number; to: number; width: number },
  hidden: readonly number[],
  weights: Float32Array,
  at: number,
  found: Float32Array,
): void {
  const row = new Float64Array(n);
  const seen = range(n).filter((j) => !hidden.includes(j));
  for (let i = 0; i < n; i++) {
    let most = -Infinity;
    for (const j of seen) {
      let total = 0;
      for (let f = from; f < to; f++) total += q[i * width + f]! * k[j * width + f]!;
      row[j] = total / Math.sqrt(to - from);
      most = Math.max(most, row[j]!);
    }
    let all = 0;
    for (const j of seen) {
      row[j] = Math.exp(row[j]! - most);
      all += row[j]!;
    }
    for (const j of seen) {
      const weight = row[j]! / all;
      weights[at + i * n + j] = weight;
      for (let f = from; f < to; f++) found[i * width + f]! += weight * v[j * width + f]!;
    }
  }
}

/** Read pieces with some heads removed (what they find is zero, and so are their weights) and some pieces hidden as keys. */
export function read(
  net: Network,
  pieces: readonly string[],
  off: readonly Head[],
  hidden: readonly number[],
): Computed {
  const { heads, layers, width, numbers } = net;
  const [n, size] = [pieces.length, width / heads];
  const own = (name: string) => numbers.get(name)!;
  const times = (x: Float32Array, name: string) => linear(net, x, name, n);
  const norm = (x: Float32Array, name: string) => normed(x, own(`${name}.weight`), own(`${name}.bias`));

  const weights = new Float32Array(layers * heads * n * n);
  const states = new Float32Array((layers + 1) * n * width);
  let x = norm(embed(net, pieces), "norm");
  states.set(x);
  for (let l = 0; l < layers; l++) {
    const name = `layers.${l}`;
    const part = (letter: string) => times(x, `${name}.attention.w_${letter}`);
    const projected = [part("q"), part("k"), part("v")] as const;
    const found = new Float32Array(n * width);
    for (let h = 0; h < heads; h++) {
      if (off.some(([layer, head]) => layer === l + 1 && head === h + 1)) continue;
      const place = { n, from: h * size, to: (h + 1) * size, width };
      attend(projected, place, hidden, weights, (l * heads + h) * n * n, found);
    }
    const y = norm(plus(x, times(found, `${name}.attention.w_o`)), `${name}.attention_norm`);
    const wide = times(y, `${name}.feed_forward.w_1`);
    for (let i = 0; i < wide.length; i++) wide[i] = gelu(wide[i]!);
    x = norm(plus(y, times(wide, `${name}.feed_forward.w_2`)), `${name}.feed_forward_norm`);
    states.set(x, (l + 1) * n * width);
  }
  return { weights, states };
}

/** The vectors of pieces, their positions and the first kind of sentence, added. */
function embed({ ids, embedding, numbers, width }: Network, pieces: readonly string[]): Float32Array {
  const [positions, kind] = [numbers.get("positions.weight")!, numbers.get("kinds.weight")!];
  const x = new Float32Array(pieces.length * width);
  pieces.forEach((piece, i) => {
    const from = ids.get(piece)! * width;
    const row = spread(embedding, new Float32Array(width), from);
    for (let f = 0; f < width; f++) x[i * width + f] = row[f]! + positions[i * width + f]! + kind[f]!;
  });
  return x;
}

function plus(x: Float32Array, y: Float32Array): Float32Array {
  for (let i = 0; i < y.length; i++) y[i]! += x[i]!;
  return y;
}
