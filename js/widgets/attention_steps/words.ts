/* What is said: the arithmetic behind a cell, the steps with their matrices, and the questions about them. */

import { sum } from "../../kit/maths.ts";
import type { Question } from "../../kit/quiz.tsx";
import { isWhole, minus, named, quoted, show } from "../../kit/text.ts";
import { type Cell, type Computed, labels, type Name, type Sentence, type State } from "./maths.ts";

type Switches = Pick<State, "source" | "scaling" | "causal" | "padding">;

/** A number in a matrix. Those that come out of a division have three digits, so that they stand in line. */
export function showCell(name: Name, value: number): string {
  const divided = name === "scaled" || name === "masked" || name === "weights" || name === "output";
  return divided && Number.isFinite(value) && !isWhole(value) ? minus(value.toFixed(3)) : show(value);
}

// ---- A cell -------------------------------------------------------------------------------------------------------

/** A piece of arithmetic: its text, the part that it plays, and whether it is a power. */
export interface Piece {
  text: string;
  kind?: string;
  sup?: boolean;
}

const factorText = (value: number) => (value < 0 ? `(${show(value)})` : show(value));

/** A sum of products, "1 × 2 + 0 × 3". */
function sumOfProducts(left: number[], right: number[], leftKind: string, rightKind: string): Piece[] {
  return left.flatMap((value, l) => [
    { text: l ? " + " : "" },
    { text: factorText(value), kind: leftKind },
    { text: " × " },
    { text: factorText(right[l]!), kind: rightKind },
  ]);
}

/** The name of a column in a sentence: a feature, or its number. */
const columnName = (label: string) => (/^\d+$/.test(label) ? `number ${label}` : label);

/** The arithmetic behind a cell: a title, and pieces of text with their kinds. */
export function arithmetic([name, i, j]: Cell, state: Switches, all: Computed, sentence: Sentence): Said {
  if (name === "kT") return arithmetic(["k", j, i], state, all, sentence);
  const [rows, columns] = labels(name, sentence, all);
  const [row, column] = [rows[i]!, columns[j]!];
  const value = all[name]![i]![j]!;
  const shown: Piece = { text: show(value), kind: "result" };
  const result = [{ text: " = " }, shown];
  const given = [shown, { text: ": given. Type another number to change it." }];
  if (name === "x") return { title: `x of “${row}”, ${columnName(column)}`, parts: given };
  if (name === "w_q" || name === "w_k" || name === "w_v") {
    const of = { w_q: "query", w_k: "key", w_v: "value" }[name];
    const title = `How much “${columnName(row)}” of a word counts for “${columnName(column)}” of its ${of}`;
    return { title, parts: given };
  }
  if (name === "q" || name === "k" || name === "v") {
    const kind = { q: "query", k: "key", v: "value" }[name];
    const title = `${kind} of “${row}”, ${columnName(column)}`;
    if (state.source !== "x") return { title, parts: given };
    const weights = all[`w_${name}`]!.map((line) => line[j]!);
    return { title, parts: [...sumOfProducts(all.x![i]!, weights, "x", kind), ...result] };
  }
  if (name === "raw") {
    const parts = [...sumOfProducts(all.q[i]!, all.k[j]!, "query", "key"), ...result];
    return { title: `Raw score of query “${row}” with key “${column}”`, parts };
  }
  const title = `Score of query “${row}” with key “${column}”`;
  if (name === "scaled") {
    if (!state.scaling)
      return { title, parts: [shown, { text: ": scaling is switched off, so the raw score stays." }] };
    const d = all.k[0]!.length;
    const raw = show(all.raw[i]![j]!);
    return { title, parts: [{ text: `${raw} ÷ √${d} = ${raw} ÷ ${show(Math.sqrt(d))}` }, ...result] };
  }
  if (name === "masked") {
    if (all.allowed[i]![j]) return { title, parts: [shown, { text: ": this key is not masked, so the score stays." }] };
    const why = state.padding.includes(j) ? `“${column}” is padding` : `“${column}” comes after “${row}”`;
    return { title, parts: [{ text: `${show(all.scaled[i]![j]!)} becomes ` }, shown, { text: `: ${why}.` }] };
  }
  if (name === "weights") return aboutWeight(`Weight of query “${row}” on key “${column}”`, all.masked[i]!, j, result);
  const values = all.v.map((line) => line[j]!);
  const parts = [...sumOfProducts(all.weights[i]!, values, "weight", "value"), ...result];
  return { title: `Output of “${row}”, ${columnName(column)}`, parts };
}

export interface Said {
  title: string;
  parts: Piece[];
}

function aboutWeight(about: string, scores: number[], j: number, result: Piece[]): Said {
  const largest = Math.max(...scores);
  if (largest === -Infinity) {
    const zero = { text: "0", kind: "result" };
    const parts = [{ text: "Every key is masked for this query, so all its weights are " }, zero, { text: "." }];
    return { title: about, parts };
  }
  const shift = Math.abs(largest) > 20 ? largest : 0; // e to large powers: subtract the largest score first
  const powers = scores.map((score) => Math.exp(score - shift));
  const power = (score: number): Piece[] => [{ text: "e" }, { text: show(score - shift), sup: true }];
  const taken = ` (${show(shift)} subtracted from every score of the row, which changes no weight)`;
  return {
    title: shift ? about + taken : about,
    parts: [
      ...power(scores[j]!),
      { text: " ÷ (" },
      ...scores.flatMap((score, l) => [{ text: l ? " + " : "" }, ...power(score)]),
      { text: `) = ${show(powers[j]!)} ÷ ${show(sum(powers))}` },
      ...result,
    ],
  };
}

// ---- The steps ----------------------------------------------------------------------------------------------------

/** How a matrix is called, what it holds, and what kind of number that is. */
export const NAMES: Record<Name, readonly [title: string, meaning: string, kind: string]> = {
  x: ["X", "input", "x"],
  w_q: ["W^Q", "makes queries", "query"],
  w_k: ["W^K", "makes keys", "key"],
  w_v: ["W^V", "makes values", "value"],
  q: ["Q", "queries", "query"],
  k: ["K", "keys", "key"],
  kT: ["Kᵀ", "keys as columns", "key"],
  v: ["V", "values", "value"],
  raw: ["Q Kᵀ", "raw scores", "score"],
  scaled: ["S", "scores", "score"],
  masked: ["S", "masked scores", "score"],
  weights: ["A", "weights", "weight"],
  output: ["O", "output", "value"],
};

export const isName = (part: string): part is Name => part in NAMES;

/** A step: its tab, title and sentence, its matrices with signs between them, and which of the matrices it makes. */
export interface Layout {
  tab: string;
  title: string;
  text: string;
  groups: string[][];
  results: Name[];
}

export function layout(step: string, state: Switches, all: Computed): Layout {
  const d = all.k[0]!.length;
  const anyMask = all.allowed.some((row) => row.includes(false));
  switch (step) {
    case "x":
      return {
        tab: "X",
        title: "The input",
        results: [],
        groups: [["x"]],
        text: "Each word is a row of numbers, its features. Everything below is made from them. Change any number.",
      };
    case "projections":
      return state.source === "x"
        ? {
            tab: "Q, K, V",
            title: "Three projections",
            results: ["q", "k", "v"],
            groups: [["x"], ["×", "w_q", "=", "q"], ["×", "w_k", "=", "k"], ["×", "w_v", "=", "v"]],
            text: "Three learned matrices turn each word into a query (what it looks for), a key (what it offers) and a value (what it hands over).",
          }
        : {
            tab: "Q, K, V",
            title: "Queries, keys and values",
            results: [],
            groups: [["q"], ["k"], ["v"]],
            text: "A query says what is looked for, a key what is offered, a value what is handed over. Change any number.",
          };
    case "scores":
      return {
        tab: "Scores",
        title: "Scores: how well does a key match a query?",
        results: ["raw"],
        groups: [
          ["q", "×", "kT"],
          ["=", "raw"],
        ],
        text: "Each score is the dot product of one query and one key.",
      };
    case "scaled":
      return {
        tab: "Scale",
        title: state.scaling ? `Divide by √${d}` : "No scaling",
        results: ["scaled"],
        groups: [["raw", state.scaling ? `÷ √${d} =` : "→"], ["scaled"]],
        text: state.scaling
          ? `Queries and keys have d_k = ${d} numbers. Dividing by its square root keeps scores moderate, however many numbers there are.`
          : "Scaling is switched off: the raw scores go on as they are.",
      };
    case "masked":
      return {
        tab: "Mask",
        title: "Mask some keys",
        results: ["masked"],
        groups: [["scaled", "→"], ["masked"]],
        text: anyMask
          ? "A masked key gets the score −∞, and therefore the weight 0."
          : state.causal && all.q.length === 1
            ? "The causal mask hides nothing here: a single query is the newest position, and sees every key."
            : "No mask is on, so nothing changes. Switch on the causal mask or the padding mask.",
      };
    case "softmax":
      return {
        tab: "Softmax",
        title: "Softmax: from scores to weights",
        results: ["weights"],
        groups: [["masked", "→"], ["weights"]],
        text: all.allowed.every((row) => row.includes(true))
          ? "In each row, take e to the power of every score and divide by the row’s sum. No weight is negative, and each row sums to 1."
          : "In each row, take e to the power of every score and divide by the row’s sum. A row in which every key is masked gets weights of 0; every other row sums to 1.",
      };
    case "output":
      return {
        tab: "Output",
        title: "Output: a weighted average of the values",
        results: ["output"],
        groups: [
          ["weights", "×", "v"],
          ["=", "output"],
        ],
        text: "Each row of weights says how much of every value goes into that row’s output.",
      };
    default:
      throw new Error(`no such step: ${step}`);
  }
}

/** What a matrix holds, in words: scores that no mask has touched are not called masked at the softmax. */
export function meaning(name: Name, step: string, all: Computed): string {
  const anyMask = all.allowed.some((row) => row.includes(false));
  return name === "masked" && !anyMask && step === "softmax" ? "scores" : NAMES[name][1];
}

/** The result of a step in words, row by row. */
export function describe(step: string, state: Switches, all: Computed, sentence: Sentence): string[] {
  const { results, groups } = layout(step, state, all);
  const matrices = results.length ? results : groups.flat().filter(isName);
  return matrices.flatMap((name) => {
    const [rows, columns] = labels(name, sentence, all);
    const opening = name === "weights" ? "" : `${NAMES[name][1]}, `;
    return all[name]!.map((row, i) => {
      const cells = row.map((value, j) => {
        const text = value === -Infinity ? "masked" : showCell(name, value);
        return /^\d+$/.test(columns[j]!) ? text : `${columns[j]} ${text}`;
      });
      return `${opening}${rows[i]}${name === "weights" ? " looks at " : ": "}${cells.join(", ")}`;
    });
  });
}

// ---- Predictions --------------------------------------------------------------------------------------------------

const near = (a: number, b: number) => Math.abs(a - b) < 1e-9;
const distance = (a: number[], b: number[]) => Math.hypot(...a.map((x, l) => x - b[l]!));

/** The options of which a measure is largest are right. */
function choose(words: string[], measures: number[]) {
  const best = Math.max(...measures);
  return named(words).map((label, j) => ({ label, right: near(measures[j]!, best) }));
}

/** The question of a step, or null where it has none. */
export function question(step: string, state: Switches, all: Computed, sentence: Sentence): Question | null {
  const i = Math.min(sentence.focus, all.q.length - 1);
  const word = named(sentence.queries)[i]!;
  const { keys } = sentence;
  if (step === "projections" && state.source === "x") {
    return {
      text: "Which word asks most strongly? (Its query is the longest.)",
      options: choose(
        sentence.queries,
        all.q.map((row) => Math.hypot(...row)),
      ),
      why: "A query is a row of X times W^Q: large features that meet large entries make it long.",
    };
  }
  if (step === "scores") {
    const scores = all.raw[i]!.map((score) => show(score)).join(", ");
    return {
      text: `Which key matches the query of “${word}” best?`,
      options: choose(keys, all.raw[i]!),
      why: `The row of “${word}”: ${scores}. The largest dot product matches best.`,
    };
  }
  if (step === "scaled") return state.scaling ? canScalingReorder(all.k[0]!.length) : WITHOUT_SCALING;
  if (step === "masked") {
    const seen = keys.filter((_, j) => all.allowed[i]![j]);
    return {
      text: `How many of the ${keys.length} keys may “${word}” see?`,
      options: Array.from({ length: keys.length + 1 }, (_, c) => ({ label: String(c), right: c === seen.length })),
      why:
        seen.length === keys.length ? "No key is masked for it." : `It may see ${seen.length ? quoted(seen) : "none"}.`,
    };
  }
  if (step === "softmax") {
    const weight = Math.max(...all.weights[i]!);
    const best = named(keys)[all.weights[i]!.indexOf(weight)]!;
    const quarters = ["less than 0.25", "0.25 to 0.5", "0.5 to 0.75", "more than 0.75"];
    return {
      text: `How much of its weight will “${word}” put on “${best}”?`,
      options: quarters.map((label, c) => ({ label, right: weight >= c / 4 - 1e-9 && weight <= (c + 1) / 4 + 1e-9 })),
      why: `It is ${show(weight)}. The softmax turns a lead of 1 in the score into a weight 2.718 times as large.`,
    };
  }
  if (step === "output") {
    return {
      text: `Whose value will the output of “${word}” be nearest to?`,
      options: choose(
        keys,
        all.v.map((row) => -distance(row, all.output[i]!)),
      ),
      why: "An average lies among the values; the nearest may have little weight.",
    };
  }
  return null;
}

const canScalingReorder = (d: number): Question => ({
  text: `All scores are divided by √${d}. Can that change which key is best?`,
  options: [
    { label: "yes", right: false },
    { label: "no", right: true },
  ],
  why: "Every score shrinks by the same factor, so their order stays. Their differences shrink, and so the weights get flatter.",
});

const WITHOUT_SCALING: Question = {
  text: "Scaling is off. What happens to the scores?",
  options: [
    { label: "they stay", right: true },
    { label: "they shrink", right: false },
  ],
  why: "Without scaling the softmax gets the raw scores.",
};
