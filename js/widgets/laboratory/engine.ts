/* One layer of attention that learns: forward, backward and Adam by hand. In Python, number for number:
   attention_tutorial/models/one_layer.py. All matrices are flat, row by row, and made once for all steps. */

import { argmax, mean, range, sum } from "../../kit/maths.ts";
import { addProduct, block, type Matrix, matrix, type Numbers, transposed } from "./matrix.ts";
import { Random, TASKS, type Task, type TaskName } from "./tasks.ts";

export { Random, TASKS, type Task, type TaskName };

export interface Setup {
  task: TaskName;
  heads: 1 | 2 | 4;
  /** Features of a query, a key and a value of one head. */
  dHead: number;
  /** What the scores are divided by: 1, √d_k or d_k. */
  divisor: "one" | "root" | "width";
  causal: boolean;
  positions: "none" | "sines" | "learned";
  /** Adam's step. */
  rate: number;
  /** Of the start and of the data. */
  seed: number;
}

const START: Omit<Setup, "task"> = {
  heads: 1,
  dHead: 16,
  divisor: "root",
  causal: false,
  positions: "none",
  rate: 0.01,
  seed: 1,
};
const OF_TASK: Record<TaskName, Partial<Setup>> = {
  look_up: { dHead: 64 },
  two_look_ups: { heads: 2 },
  bites: { positions: "learned" },
  write_on: { positions: "sines", causal: true },
};

/** The set-up with which a model learns a task. */
export const defaults = (task: TaskName): Setup => ({ task, ...START, ...OF_TASK[task] });

export interface StepResult {
  loss: number;
  accuracy: number;
  /** The length of the gradient of W^Q. */
  queryGradient: number;
}

export const D_MODEL = 32;
export const BATCH = 32;
const HELD_OUT = 512; // sequences that all models of a task are tested on
const STREAMS = { embedding: 0, query: 1, key: 2, value: 3, output: 4, positions: 5, batches: 6, heldOut: 7 };
const PROJECTED = ["query", "key", "value"] as const;

// ---- Weights ------------------------------------------------------------------------------------------------------

/** All weights in one array, or all their gradients, and the matrices in it. */
interface Weights {
  all: Numbers;
  embedding: Matrix; // (words, d_model)
  query: Matrix; // (d_model, width), as are the next two
  key: Matrix;
  value: Matrix;
  output: Matrix; // (width, answers)
  positions: Matrix; // (n, d_model)
}

function makeWeights({ words, answers, length }: Task, width: number): Weights {
  const sizes = [words.length * D_MODEL, 3 * D_MODEL * width, width * answers.length, length * D_MODEL];
  const all = new Float64Array(sum(sizes));
  let end = 0;
  const take = (rows: number, columns: number) => {
    end += rows * columns;
    return matrix(all.subarray(end - rows * columns, end), rows, columns);
  };
  return {
    all,
    embedding: take(words.length, D_MODEL),
    query: take(D_MODEL, width),
    key: take(D_MODEL, width),
    value: take(D_MODEL, width),
    output: take(width, answers.length),
    positions: take(length, D_MODEL),
  };
}

/** Fill a matrix from the normal distribution, row by row. */
function draw(w: Matrix, scale: number, random: Random): void {
  for (let i = 0; i < w.rows; i++) {
    for (let j = 0; j < w.columns; j++) w.numbers[w.at + i * w.down + j * w.across] = scale * random.normal();
  }
}

/** Sines and cosines (Vaswani et al., 2017, section 3.5). */
function fillSines({ numbers }: Matrix): void {
  for (let i = 0; i < numbers.length; i += 2) {
    const angle = Math.floor(i / D_MODEL) * 10000 ** (-(i % D_MODEL) / D_MODEL);
    numbers[i] = Math.sin(angle);
    numbers[i + 1] = Math.cos(angle);
  }
}

/** The weights at the start. Embeddings and positions have variance 1/2, as sines and cosines have. W^Q, W^K and W^V are
    drawn feature by feature, so that more features begin with the same ones as fewer. */
function start({ positions, seed }: Setup, w: Weights): void {
  const random = (stream: keyof typeof STREAMS) => new Random(seed, STREAMS[stream]);
  draw(w.embedding, Math.SQRT1_2, random("embedding"));
  for (const name of PROJECTED) draw(transposed(w[name]), D_MODEL ** -0.5, random(name));
  draw(w.output, w.output.rows ** -0.5, random("output"));
  if (positions === "learned") draw(w.positions, Math.SQRT1_2, random("positions"));
  if (positions === "sines") fillSines(w.positions);
}

// ---- The softmax, and the length of a vector ------------------------------------------------------------------------

/** Softmax of `count` numbers from `at` on, in place; returns the logarithm of the sum of their exponentials. */
function softmax(x: Numbers, at: number, count: number): number {
  let most = -Infinity;
  let total = 0;
  for (let j = at; j < at + count; j++) most = Math.max(most, x[j]!);
  for (let j = at; j < at + count; j++) total += x[j] = Math.exp(x[j]! - most);
  for (let j = at; j < at + count; j++) x[j]! /= total;
  return most + Math.log(total);
}

function norm(x: Numbers): number {
  let total = 0;
  for (let i = 0; i < x.length; i++) total += x[i]! ** 2;
  return Math.sqrt(total);
}

// ---- The model ----------------------------------------------------------------------------------------------------

/** What a forward pass computes of tokens, one after the other, or the gradients of it. */
interface Pass {
  x: Matrix; // (tokens, d_model)
  query: Matrix; // (tokens, width), as are the next three
  key: Matrix;
  value: Matrix;
  mixed: Matrix; // the outputs of all heads, side by side
  logits: Matrix; // (tokens, answers)
  attention: Numbers; // (sequences, heads, n, n)
}

function makePass({ length, answers }: Task, heads: number, width: number): Pass {
  const tokens = BATCH * length;
  const make = (features: number) => matrix(new Float64Array(tokens * features), tokens, features);
  const projections = { query: make(width), key: make(width), value: make(width) };
  const attention = new Float64Array(tokens * heads * length);
  return { x: make(D_MODEL), ...projections, mixed: make(width), logits: make(answers.length), attention };
}

/** The part of a pass that its first tokens fill. */
const filled = (part: Matrix, tokens: number): Matrix => block(part, 0, 0, tokens, part.columns);

/** What one head computes of one sequence, or the gradients of it: windows on a pass. */
interface Head {
  query: Matrix; // (n, d_head), as are the next three
  key: Matrix;
  value: Matrix;
  mixed: Matrix;
  attention: Matrix; // (n, n)
}

/** softmax(Q Kᵀ / divisor) V, of a causal head with the future masked. */
function attend({ query, key, value, mixed, attention }: Head, divisor: number, causal: boolean): void {
  addProduct(attention, query, transposed(key));
  const { numbers, at, rows, columns } = attention;
  for (let i = 0; i < rows; i++) {
    const [row, allowed] = [at + i * columns, causal ? i + 1 : columns];
    for (let j = 0; j < allowed; j++) numbers[row + j]! /= divisor;
    softmax(numbers, row, allowed);
    numbers.fill(0, row + allowed, row + columns);
  }
  addProduct(mixed, attention, value);
}

/** From the gradient of `mixed` to those of the values, the weights, the scores, and the queries and keys. */
function attendBackward(head: Head, gradient: Head, divisor: number): void {
  addProduct(gradient.value, transposed(head.attention), gradient.mixed);
  addProduct(gradient.attention, gradient.mixed, transposed(head.value));
  const { at, rows, columns } = head.attention;
  const [a, d] = [head.attention.numbers, gradient.attention.numbers];
  for (let i = at; i < at + rows * columns; i += columns) {
    let total = 0;
    for (let j = i; j < i + columns; j++) total += a[j]! * d[j]!;
    for (let j = i; j < i + columns; j++) d[j] = (a[j]! * (d[j]! - total)) / divisor; // ds_j = a_j (da_j − Σ a da)
  }
  addProduct(gradient.query, gradient.attention, head.key);
  addProduct(gradient.key, transposed(gradient.attention), head.query);
}

const DIVISORS = { one: () => 1, root: Math.sqrt, width: (dHead: number) => dHead };

export class Model {
  readonly setup: Setup;
  readonly task: Task;
  /** The weights and the derivatives of the loss with respect to them. */
  readonly weights: Weights;
  readonly gradients: Weights;
  /** Steps taken so far. */
  steps = 0;

  private readonly width: number;
  private readonly divisor: number;
  private readonly pass: Pass;
  private readonly back: Pass;
  private readonly moments: { first: Numbers; second: Numbers };
  private readonly data: Random;
  private readonly heldOut: { ids: Int32Array; targets: Int32Array };

  constructor(setup: Setup) {
    this.setup = setup;
    this.task = TASKS[setup.task];
    this.width = setup.heads * setup.dHead;
    this.divisor = DIVISORS[setup.divisor](setup.dHead);
    this.weights = makeWeights(this.task, this.width);
    this.gradients = makeWeights(this.task, this.width);
    start(setup, this.weights);

    this.pass = makePass(this.task, setup.heads, this.width);
    this.back = makePass(this.task, setup.heads, this.width);
    const { all, positions } = this.weights;
    const learning = all.length - (setup.positions === "learned" ? 0 : positions.numbers.length);
    this.moments = { first: new Float64Array(learning), second: new Float64Array(learning) };
    this.data = new Random(setup.seed, STREAMS.batches);
    this.heldOut = this.task.batch(new Random(0, STREAMS.heldOut), HELD_OUT);
  }

  /** Train on the next batch. */
  step(): StepResult {
    const { ids, targets } = this.task.batch(this.data, BATCH);
    const result = this.differentiate(ids, targets);
    this.adam();
    return { ...result, queryGradient: norm(this.gradients.query.numbers) };
  }

  /** The mean loss of whole sequences, the share of right answers, and, in `gradients`, the derivatives of the loss. */
  differentiate(ids: Int32Array, targets: Int32Array): { loss: number; accuracy: number } {
    this.forward(ids, this.task.length);
    const result = this.compare(targets);
    this.backward(ids, this.task.length);
    return result;
  }

  /** The loss and the share of right answers, of sequences drawn for this alone; whole batches of them. */
  evaluate(count = HELD_OUT): { loss: number; accuracy: number } {
    const { ids, targets } = this.heldOut;
    const size = BATCH * this.task.length;
    const batches = range(Math.ceil(count / BATCH)).map((b) => {
      this.forward(ids.subarray(b * size, (b + 1) * size), this.task.length);
      return this.compare(targets.subarray(b * size, (b + 1) * size));
    });
    return { loss: mean(batches.map(({ loss }) => loss)), accuracy: mean(batches.map(({ accuracy }) => accuracy)) };
  }

  /** The weights (heads, n, n) and the logits (n, answers) of one sequence. */
  look(ids: Int32Array): { weights: Float64Array; logits: Float64Array } {
    const n = ids.length;
    this.forward(ids, n);
    const weights = this.pass.attention.slice(0, this.setup.heads * n * n);
    return { weights, logits: this.pass.logits.numbers.slice(0, n * this.task.answers.length) };
  }

  /** The tokens that the model writes after a prompt, each the likeliest; it reads as many as it was trained on. */
  write(prompt: Int32Array, count: number): Int32Array {
    const text = [...prompt];
    for (let i = 0; i < count; i++) {
      const { logits } = this.look(Int32Array.from(text.slice(-this.task.length)));
      text.push(argmax(logits.subarray(-this.task.answers.length)));
    }
    return Int32Array.from(text.slice(prompt.length));
  }

  /** One of the sequences that models are tested on, by its number below 512. */
  example(which: number): { ids: Int32Array; targets: Int32Array } {
    const [from, to] = [which * this.task.length, (which + 1) * this.task.length];
    return { ids: this.heldOut.ids.slice(from, to), targets: this.heldOut.targets.slice(from, to) };
  }

  /** From sequences of n tokens to logits. */
  private forward(ids: Int32Array, n: number): void {
    const { weights, pass } = this;
    const tokens = ids.length;
    for (const part of [pass.query, pass.key, pass.value, pass.mixed, pass.logits]) part.numbers.fill(0);
    pass.attention.fill(0);
    this.embed(ids, n);
    const x = filled(pass.x, tokens);
    for (const name of PROJECTED) addProduct(filled(pass[name], tokens), x, weights[name]);
    for (const head of this.heads(pass, tokens, n)) attend(head, this.divisor, this.setup.causal);
    addProduct(filled(pass.logits, tokens), filled(pass.mixed, tokens), weights.output);
  }

  /** Embeddings plus positions. */
  private embed(ids: Int32Array, n: number): void {
    const [x, embedding, positions] = [
      this.pass.x.numbers,
      this.weights.embedding.numbers,
      this.weights.positions.numbers,
    ];
    for (let t = 0; t < ids.length; t++) {
      const [word, place] = [ids[t]! * D_MODEL, (t % n) * D_MODEL];
      for (let j = 0; j < D_MODEL; j++) x[t * D_MODEL + j] = embedding[word + j]! + positions[place + j]!;
    }
  }

  /** The windows of every head of every sequence. */
  private heads(pass: Pass, tokens: number, n: number): Head[] {
    const { heads, dHead } = this.setup;
    return range((tokens / n) * heads).map((i) => {
      const window = (part: Matrix) => block(part, Math.floor(i / heads) * n, (i % heads) * dHead, n, dHead);
      const [query, key, value] = [window(pass.query), window(pass.key), window(pass.value)];
      const attention = { ...matrix(pass.attention, n, n), at: i * n * n };
      return { query, key, value, mixed: window(pass.mixed), attention };
    });
  }

  /** The cross-entropy of the logits where something is asked, and its gradient: (softmax − 1 at the target) / asked. */
  private compare(targets: Int32Array): { loss: number; accuracy: number } {
    const [logits, gradient] = [this.pass.logits.numbers, this.back.logits.numbers];
    const answers = this.task.answers.length;
    const asked = targets.reduce((total, target) => total + (target < 0 ? 0 : 1), 0);
    let [loss, correct] = [0, 0];
    gradient.fill(0);
    targets.forEach((target, t) => {
      if (target < 0) return;
      const row = gradient.subarray(t * answers, (t + 1) * answers);
      row.set(logits.subarray(t * answers, (t + 1) * answers));
      correct += argmax(row) === target ? 1 : 0;
      const score = row[target]!;
      loss += softmax(row, 0, answers) - score;
      row[target]! -= 1;
      for (let j = 0; j < answers; j++) row[j]! /= asked;
    });
    return { loss: loss / asked, accuracy: correct / asked };
  }

  /** From the gradient of the logits to those of all weights. */
  private backward(ids: Int32Array, n: number): void {
    const { weights, gradients, pass, back } = this;
    const tokens = ids.length;
    gradients.all.fill(0);
    for (const part of [back.x, back.query, back.key, back.value, back.mixed]) part.numbers.fill(0);
    back.attention.fill(0);
    addProduct(gradients.output, transposed(filled(pass.mixed, tokens)), filled(back.logits, tokens));
    addProduct(filled(back.mixed, tokens), filled(back.logits, tokens), transposed(weights.output));
    const gradientOf = this.heads(back, tokens, n);
    for (const [i, head] of this.heads(pass, tokens, n).entries()) attendBackward(head, gradientOf[i]!, this.divisor);
    for (const name of PROJECTED) {
      addProduct(gradients[name], transposed(filled(pass.x, tokens)), filled(back[name], tokens));
      addProduct(filled(back.x, tokens), filled(back[name], tokens), transposed(weights[name]));
    }
    this.embedBackward(ids, n);
  }

  /** A token's gradient goes to its word and to its place. */
  private embedBackward(ids: Int32Array, n: number): void {
    const { embedding, positions } = this.gradients;
    const x = this.back.x.numbers;
    for (let t = 0; t < ids.length; t++) {
      const [word, place] = [ids[t]! * D_MODEL, (t % n) * D_MODEL];
      for (let j = 0; j < D_MODEL; j++) {
        embedding.numbers[word + j]! += x[t * D_MODEL + j]!;
        positions.numbers[place + j]! += x[t * D_MODEL + j]!;
      }
    }
  }

  /** One step of Adam (Kingma and Ba, 2015). */
  private adam(): void {
    const [w, g, m, v] = [this.weights.all, this.gradients.all, this.moments.first, this.moments.second];
    this.steps += 1;
    const step = this.setup.rate / (1 - 0.9 ** this.steps);
    const spread = 1 / Math.sqrt(1 - 0.999 ** this.steps);
    for (let i = 0; i < m.length; i++) {
      m[i] = 0.9 * m[i]! + 0.1 * g[i]!;
      v[i] = 0.999 * v[i]! + 0.001 * g[i]! ** 2;
      w[i]! -= (step * m[i]!) / (Math.sqrt(v[i]!) * spread + 1e-8);
    }
  }
}
