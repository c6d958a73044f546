/* The trained translator: its numbers, and every step of its computation, as `attention_tutorial.analysis.intervention` does it.

   A matrix is a flat Float64Array with its rows one after the other. Names of matrices are those of PyTorch and of
   `trace` in Python. Heads count from 1; layers, rows and columns from 0. */

import trained from "../../../attention_tutorial/models/trained/translator.json";
import { range } from "../../kit/maths.ts";
import { bytesOf, unpackHalves } from "../../kit/packed.ts";

export { half } from "../../kit/packed.ts";

export interface Sheet {
  rows: number;
  columns: number;
  data: Float64Array;
}

export interface Sizes {
  d_model: number;
  num_heads: number;
  d_ff: number;
  encoder_layers: number;
  decoder_layers: number;
}

export interface Grammar {
  pattern: string;
  nouns: readonly (readonly [english: string, italian: string, feminine: boolean])[];
  verbs: Record<string, string>;
  adjectives: Record<string, string>;
  relatives: Record<string, string>;
  past: readonly number[];
  future: readonly number[];
  held_out_of: number;
}

export interface Machine {
  sizes: Sizes;
  english: readonly string[];
  italian: readonly string[];
  grammar: Grammar;
  /** The parameters by their names in PyTorch; a bias has one row. */
  parameters: Map<string, Sheet>;
}

export type Kind = "encoder" | "decoder" | "cross";
export type Edge = readonly [kind: Kind, layer: number, head: number, row: number, column: number];
export type Head = readonly [kind: Kind, layer: number, head: number];
export type Part = readonly [kind: Kind, layer: number];
export type Change = readonly [matrix: string, row: number, column: number, value: number];

/** What is done to the machine; head 0 stands for all heads, row or column −1 for all rows or columns. */
export interface Intervention {
  closed: readonly Edge[];
  heads_off: readonly Head[];
  swapped: readonly Part[];
  /** Position i of the decoder sees positions up to i + shift. */
  shift: number;
  /** The number of padding positions after the source. */
  padding: number;
  /** The attentions to the source in which padding is open. */
  unmasked: readonly Kind[];
  changes: readonly Change[];
}

export const NOTHING: Intervention = {
  closed: [],
  heads_off: [],
  swapped: [],
  shift: 0,
  padding: 0,
  unmasked: [],
  changes: [],
};

export const [PAD, BEGIN, END] = [0, 1, 2];

// ---- Its numbers --------------------------------------------------------------------------------------------------

/** What `pack_translator` in Python writes. */
export type Packed = Omit<typeof trained, "loss_of_precision">;

/** The parameters, in half precision or in single. */
export function unpack(record: Packed): Machine {
  const numbers =
    record.precision === "float16"
      ? unpackHalves(record.numbers)
      : Float64Array.from(new Float32Array(bytesOf(record.numbers).buffer));
  const parameters = new Map<string, Sheet>();
  let at = 0;
  for (const [name, shape] of record.parameters as [string, number[]][]) {
    const [rows, columns] = shape.length === 1 ? [1, shape[0]!] : [shape[0]!, shape[1]!];
    parameters.set(name, { rows, columns, data: numbers.subarray(at, at + rows * columns) });
    at += rows * columns;
  }
  const { sizes, english, italian } = record;
  return { sizes, english, italian, grammar: record.grammar as unknown as Grammar, parameters };
}

const unpacked = new Map<string, Machine>(); // the last two that were asked for: the chapter's, and the reader's own

/** The chapter's machine, or for a text the one that it describes. */
export function machineOf(text: string): Machine {
  let found = unpacked.get(text);
  if (!found) {
    if (unpacked.size > 1) for (const key of unpacked.keys()) if (key !== "") unpacked.delete(key);
    found = unpack(text ? (JSON.parse(text) as Packed) : trained);
    unpacked.set(text, found);
  }
  return found;
}

// ---- Arithmetic ---------------------------------------------------------------------------------------------------

const sheet = (rows: number, columns: number): Sheet => ({ rows, columns, data: new Float64Array(rows * columns) });

/** x Wᵀ + b, as PyTorch keeps its matrices. */
function linear(x: Sheet, weight: Sheet, bias: Sheet): Sheet {
  const [n, inside, outside] = [x.rows, x.columns, weight.rows];
  const out = sheet(n, outside);
  for (let i = 0; i < n; i++) {
    for (let o = 0; o < outside; o++) {
      let total = bias.data[o]!;
      for (let l = 0; l < inside; l++) total += x.data[i * inside + l]! * weight.data[o * inside + l]!;
      out.data[i * outside + o] = total;
    }
  }
  return out;
}

function plus(a: Sheet, b: Sheet): Sheet {
  return { ...a, data: a.data.map((value, i) => value + b.data[i]!) };
}

/** Each row with mean 0 and variance 1, times a gain, plus a bias. */
function layerNorm(x: Sheet, gain: Sheet, bias: Sheet): Sheet {
  const out = sheet(x.rows, x.columns);
  const d = x.columns;
  for (let i = 0; i < x.rows; i++) {
    let mean = 0;
    for (let l = 0; l < d; l++) mean += x.data[i * d + l]!;
    mean /= d;
    let variance = 0;
    for (let l = 0; l < d; l++) variance += (x.data[i * d + l]! - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / d + 1e-5);
    for (let l = 0; l < d; l++) {
      out.data[i * d + l] = (x.data[i * d + l]! - mean) * scale * gain.data[l]! + bias.data[l]!;
    }
  }
  return out;
}

/** Some columns of a matrix. */
function columnsOf(x: Sheet, from: number, count: number): Sheet {
  const out = sheet(x.rows, count);
  for (let i = 0; i < x.rows; i++) {
    out.data.set(x.data.subarray(i * x.columns + from, i * x.columns + from + count), i * count);
  }
  return out;
}

/** The softmax of each row over its open places; a row without one gets zeros. */
function softmax(scores: Sheet, open: (i: number, j: number) => boolean): Sheet {
  const out = sheet(scores.rows, scores.columns);
  const n = scores.columns;
  for (let i = 0; i < scores.rows; i++) {
    let most = -Infinity;
    for (let j = 0; j < n; j++) if (open(i, j)) most = Math.max(most, scores.data[i * n + j]!);
    if (most === -Infinity) continue;
    let total = 0;
    for (let j = 0; j < n; j++) {
      if (!open(i, j)) continue;
      const value = Math.exp(scores.data[i * n + j]! - most);
      out.data[i * n + j] = value;
      total += value;
    }
    for (let j = 0; j < n; j++) out.data[i * n + j]! /= total;
  }
  return out;
}

/** The sines and cosines of n positions. */
function positionsOf(n: number, d: number): Sheet {
  const out = sheet(n, d);
  for (let t = 0; t < n; t++) {
    for (let l = 0; l < d / 2; l++) {
      const angle = t / 10000 ** ((2 * l) / d);
      out.data[t * d + 2 * l] = Math.sin(angle);
      out.data[t * d + 2 * l + 1] = Math.cos(angle);
    }
  }
  return out;
}

// ---- The steps ----------------------------------------------------------------------------------------------------

export type Trace = Map<string, Sheet>;

/** A machine with something done to it, for one source. */
export interface Encoded {
  machine: Machine;
  intervention: Intervention;
  parameters: Map<string, Sheet>;
  source: readonly number[];
  /** All matrices of the encoder, by their names. */
  trace: Trace;
}

/** Put the changed numbers into a matrix, if any are of it. */
function changed(name: string, x: Sheet, changes: readonly Change[]): Sheet {
  const own = changes.filter(([matrix, row, column]) => matrix === name && row < x.rows && column < x.columns);
  if (own.length === 0) return x;
  const data = x.data.slice();
  for (const [, row, column, value] of own) data[row * x.columns + column] = value;
  return { ...x, data };
}

interface Work {
  intervention: Intervention;
  sizes: Sizes;
  /** A parameter by its name. */
  own: (name: string) => Sheet;
  /** Keep a matrix under its name, with what is changed in it. */
  note: (name: string, x: Sheet) => Sheet;
}

function begin(encoded: Pick<Encoded, "machine" | "intervention" | "parameters">, trace: Trace): Work {
  const { intervention, machine, parameters } = encoded;
  return {
    intervention,
    sizes: machine.sizes,
    own: (name) => parameters.get(name)!,
    note: (name, x) => {
      const kept = changed(name, x, intervention.changes);
      trace.set(name, kept);
      return kept;
    },
  };
}

const norm = ({ own }: Work, name: string, x: Sheet) => layerNorm(x, own(`${name}.weight`), own(`${name}.bias`));
const project = ({ own }: Work, name: string, x: Sheet) => linear(x, own(`${name}.weight`), own(`${name}.bias`));

function embed({ own, note, sizes: { d_model } }: Work, side: "source" | "target", ids: readonly number[]): Sheet {
  const rows = own(`${side}_embedding.weight`);
  const found = sheet(ids.length, d_model);
  ids.forEach((id, t) => {
    for (let l = 0; l < d_model; l++) found.data[t * d_model + l] = rows.data[id * d_model + l]! * Math.sqrt(d_model);
  });
  const words = note(`${side}.words`, found);
  return note(`${side}.embedded`, plus(words, note(`${side}.positions`, positionsOf(ids.length, d_model))));
}

/** Attend from x to a memory, where a mask is open. */
function attend(
  work: Work,
  name: string,
  [kind, layer]: Part,
  x: Sheet,
  memory: Sheet,
  seen: (i: number, j: number) => boolean,
): Sheet {
  const { intervention, sizes, note } = work;
  const width = work.own(`${name}.w_q.weight`).rows / sizes.num_heads;
  const q = project(work, `${name}.w_q`, x);
  let [k, v] = [project(work, `${name}.w_k`, memory), project(work, `${name}.w_v`, memory)];
  if (intervention.swapped.some(([which, where]) => which === kind && where === layer)) [k, v] = [v, k];
  const merged = sheet(x.rows, width * sizes.num_heads);
  for (let head = 1; head <= sizes.num_heads; head++) {
    const [qs, ks, vs] = (
      [
        ["q", q],
        ["k", k],
        ["v", v],
      ] as const
    ).map(([letter, all]) => note(`${name}.${letter}.${head}`, columnsOf(all, (head - 1) * width, width))) as [
      Sheet,
      Sheet,
      Sheet,
    ];
    const raw = sheet(x.rows, memory.rows);
    for (let i = 0; i < x.rows; i++) {
      for (let j = 0; j < memory.rows; j++) {
        let total = 0;
        for (let l = 0; l < width; l++) total += qs.data[i * width + l]! * ks.data[j * width + l]!;
        raw.data[i * memory.rows + j] = total / Math.sqrt(width);
      }
    }
    const scores = note(`${name}.scores.${head}`, raw);
    const closed = intervention.closed.filter(
      ([which, where, one]) => which === kind && where === layer && (one === 0 || one === head),
    );
    const isOpen = (i: number, j: number) =>
      seen(i, j) && !closed.some(([, , , r, c]) => (r < 0 || r === i) && (c < 0 || c === j));
    const weights = note(`${name}.weights.${head}`, softmax(scores, isOpen));
    const off = intervention.heads_off.some(([which, where, one]) => which === kind && where === layer && one === head);
    const mixed = sheet(x.rows, width);
    for (let i = 0; i < x.rows && !off; i++) {
      for (let j = 0; j < memory.rows; j++) {
        const weight = weights.data[i * memory.rows + j]!;
        for (let l = 0; l < width; l++) mixed.data[i * width + l]! += weight * vs.data[j * width + l]!;
      }
    }
    const out = note(`${name}.heads.${head}`, mixed);
    for (let i = 0; i < x.rows; i++) {
      merged.data.set(out.data.subarray(i * width, (i + 1) * width), i * merged.columns + (head - 1) * width);
    }
  }
  return note(`${name}.output`, project(work, `${name}.w_o`, merged));
}

function feed(work: Work, name: string, x: Sheet): Sheet {
  const { note } = work;
  const seen = note(`${name}.feed_forward_norm`, norm(work, `${name}.feed_forward_norm`, x));
  const before = note(`${name}.feed_forward.before`, project(work, `${name}.feed_forward.w_1`, seen));
  const hidden = note(`${name}.feed_forward.hidden`, {
    ...before,
    data: before.data.map((value) => Math.max(value, 0)),
  });
  const output = note(`${name}.feed_forward.output`, project(work, `${name}.feed_forward.w_2`, hidden));
  return note(`${name}.after_feed_forward`, plus(x, output));
}

/** Have the encoder read a sentence. */
export function encode(machine: Machine, sentence: readonly number[], intervention: Intervention = NOTHING): Encoded {
  const source = [...sentence, ...range(intervention.padding).map(() => PAD)];
  const parameters = new Map(machine.parameters);
  for (const [name] of intervention.changes) {
    const x = machine.parameters.get(name);
    if (x) parameters.set(name, changed(name, x, intervention.changes));
  }
  const encoded: Encoded = { machine, intervention, parameters, source, trace: new Map() };
  const work = begin(encoded, encoded.trace);
  const { note } = work;
  const open = intervention.unmasked.includes("encoder");
  let x = embed(work, "source", source);
  for (let layer = 0; layer < machine.sizes.encoder_layers; layer++) {
    const name = `encoder.${layer}`;
    const normed = note(`${name}.attention_norm`, norm(work, `${name}.attention_norm`, x));
    const seen = (_: number, j: number) => open || source[j] !== PAD;
    const output = attend(work, `${name}.attention`, ["encoder", layer], normed, normed, seen);
    x = note(`${name}.after_attention`, plus(x, output));
    x = feed(work, name, x);
  }
  note("encoder_norm", norm(work, "encoder_norm", x));
  return encoded;
}

/** Have the decoder read target ids: all matrices, those of the encoder among them. */
export function decode(encoded: Encoded, target: readonly number[]): Trace {
  const trace: Trace = new Map(encoded.trace);
  const work = begin(encoded, trace);
  const { note, intervention } = work;
  const memory = trace.get("encoder_norm")!;
  const open = intervention.unmasked.includes("cross");
  let x = embed(work, "target", target);
  for (let layer = 0; layer < encoded.machine.sizes.decoder_layers; layer++) {
    const name = `decoder.${layer}`;
    let normed = note(`${name}.attention_norm`, norm(work, `${name}.attention_norm`, x));
    const past = (i: number, j: number) => j <= i + intervention.shift;
    let output = attend(work, `${name}.attention`, ["decoder", layer], normed, normed, past);
    x = note(`${name}.after_attention`, plus(x, output));
    normed = note(`${name}.cross_norm`, norm(work, `${name}.cross_norm`, x));
    const seen = (_: number, j: number) => open || encoded.source[j] !== PAD;
    output = attend(work, `${name}.cross_attention`, ["cross", layer], normed, memory, seen);
    x = note(`${name}.after_cross_attention`, plus(x, output));
    x = feed(work, name, x);
  }
  x = note("decoder_norm", norm(work, "decoder_norm", x));
  const logits = note("logits", project(work, "readout", x));
  note(
    "probabilities",
    softmax(logits, (_, id) => id !== PAD && id !== BEGIN),
  );
  return trace;
}

/** The name of an attention's part of the machine. */
export const nameOf = ([kind, layer]: Part): string =>
  kind === "encoder"
    ? `encoder.${layer}.attention`
    : `decoder.${layer}.${kind === "decoder" ? "attention" : "cross_attention"}`;

export const rowOf = (x: Sheet, i: number): Float64Array => x.data.subarray(i * x.columns, (i + 1) * x.columns);

export interface Written {
  /** What it wrote, with the end. */
  ids: number[];
  /** The probability of each. */
  sure: number[];
}

export const MOST_WRITTEN = 30;

/** Write the likeliest next word, again and again; all words so far are read anew at every step. */
export function write(encoded: Encoded, most = MOST_WRITTEN): Written {
  const read = [BEGIN];
  const sure: number[] = [];
  while (sure.length < most && read.at(-1) !== END) {
    const last = rowOf(decode(encoded, read).get("probabilities")!, read.length - 1);
    let best = END; // where no number is one, it ends
    for (let id = 0; id < last.length; id++) if (last[id]! > last[best]!) best = id;
    if (Number.isNaN(last[best]!)) best = END;
    read.push(best);
    sure.push(last[best]!);
  }
  return { ids: read.slice(1), sure };
}

/** The mean of all heads' weights, or those of one head. */
export function weightsOf(trace: Trace, part: Part, head: number, heads: number): Sheet {
  const name = nameOf(part);
  if (head) return trace.get(`${name}.weights.${head}`)!;
  const all = range(heads).map((h) => trace.get(`${name}.weights.${h + 1}`)!);
  return { ...all[0]!, data: all[0]!.data.map((_, i) => all.reduce((total, one) => total + one.data[i]!, 0) / heads) };
}
