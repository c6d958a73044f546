/* The thread that trains one model, so that the page never waits. It does one thing at a time, each of a fraction of a
   second: some steps, then it answers. */

import { Model, type Setup } from "./engine.ts";
import { NEW } from "./setups.ts";

/** How a model does after some steps: on new sequences, which no model has seen in training. */
export interface Point {
  step: number;
  loss: number;
  accuracy: number;
  /** The length of the loss's gradient with respect to W^Q, averaged over the steps since the point before. */
  gradient: number | null;
  /** The largest weight that a query gives, averaged over the heads and the places where something is asked. */
  largest: number;
  /** The share of letters that it writes correctly, where it writes. */
  written: number | null;
}

/** What a model makes of one new sequence. */
export interface Look {
  ids: number[];
  targets: number[];
  /** (heads, n, n), flat. */
  weights: Float64Array;
  /** The likeliest answer at each position. */
  answers: number[];
  /** What it writes after the first half of the sequence, where it writes. */
  written: { id: number; correct: boolean }[];
}

export type Asked =
  | { kind: "begin"; setup: Setup; which: number }
  | { kind: "train"; steps: number; measure: boolean; which: number }
  | { kind: "look"; which: number };

export type Answer = { point: Point | null; look: Look } | { failed: string };

const FEW = 32; // of them, that are looked at one by one, or written on

let model: Model;
let gradients: number[] = [];

const thread = globalThis as unknown as {
  onmessage: (event: { data: Asked }) => void;
  postMessage: (answer: Answer) => void;
};

/** What the model writes after the first half of a text, and which letters of it are right after those before them. */
function writeOn(which: number): Look["written"] {
  const { next } = model.task;
  if (!next) return [];
  const { ids } = model.example(which);
  const text = [...ids.slice(0, ids.length / 2)];
  return Array.from(model.write(Int32Array.from(text), ids.length - text.length), (id) => {
    const correct = id === next(text);
    text.push(id);
    return { id, correct };
  });
}

function largestWeight(): number {
  let [total, rows] = [0, 0];
  for (let which = 0; which < FEW; which++) {
    const { ids, targets } = model.example(which);
    const { weights } = model.look(ids);
    const n = ids.length;
    for (let row = 0; row < weights.length / n; row++) {
      if (targets[row % n]! < 0) continue;
      total += Math.max(...weights.subarray(row * n, (row + 1) * n));
      rows += 1;
    }
  }
  return total / rows;
}

function measure(): Point {
  const { loss, accuracy } = model.evaluate(NEW);
  const gradient = gradients.length ? gradients.reduce((a, b) => a + b) / gradients.length : null;
  gradients = [];
  const letters = Array.from({ length: FEW }, (_, which) => writeOn(which)).flat();
  const written = letters.length ? letters.filter(({ correct }) => correct).length / letters.length : null;
  return { step: model.steps, loss, accuracy, gradient, largest: largestWeight(), written };
}

function look(which: number): Look {
  const { ids, targets } = model.example(which);
  const { weights, logits } = model.look(ids);
  const classes = logits.length / ids.length;
  const answers = Array.from(ids, (_, i) => {
    const row = logits.subarray(i * classes, (i + 1) * classes);
    return row.indexOf(Math.max(...row));
  });
  return { ids: [...ids], targets: [...targets], weights, answers, written: writeOn(which) };
}

function act(asked: Asked): Answer {
  if (asked.kind === "begin") {
    model = new Model(asked.setup);
    gradients = [];
  }
  if (asked.kind === "train") for (let i = 0; i < asked.steps; i++) gradients.push(model.step().queryGradient);
  const measured = asked.kind === "begin" || (asked.kind === "train" && asked.measure);
  return { point: measured ? measure() : null, look: look(asked.which) };
}

thread.onmessage = ({ data }) => {
  try {
    thread.postMessage(act(data));
  } catch (error) {
    thread.postMessage({ failed: String(error) });
  }
};
